"""A car that is too weak for its hill and has to gather speed: gymnasium's MountainCarContinuous-v0."""

from __future__ import annotations

import numpy as np

from reluplan.problem.writer import ProblemText

from .learned import Array, Learned
from .system import System, box, names, reads

STATES = box(place=(-1.19, 0.65), speed=(-0.075, 0.075))
ACTIONS = box(force=(-1.0, 1.0))
GOAL = 0.45


def step(states: Array, actions: Array) -> Array:
    """v' = v + 0.0015 u − 0.0025 cos 3x within ± 0.07, x' = x + v' within [−1.2, 0.6]; the left wall stops the car."""
    place, speed = np.clip(states, [-1.2, -0.07], [0.6, 0.07]).T
    speed = np.clip(speed + 0.0015 * actions[:, 0] - 0.0025 * np.cos(3.0 * place), -0.07, 0.07)
    place = np.clip(place + speed, -1.2, 0.6)
    speed = np.where((place == -1.2) & (speed < 0.0), 0.0, speed)
    return np.column_stack([place, speed])


PROBLEM = ProblemText(
    "mountain-car", 110, f"-min(1, max(0, 10*({GOAL} - place'))) - 0.01*abs(force)", STATES, ACTIONS,
    initial_values={"place": -0.5, "speed": 0.0},
    network=reads((*names(STATES), *names(ACTIONS)), names(STATES)),
    comments=(
        "A step away from the goal costs 1, less on the last tenth before it; never more than 0 is earned.",
        "The left wall, where the car would stop at once, is out of bounds.",
    ),
)  # fmt: skip
SYSTEM = System("mountain-car", "long, sparse reward", "test", PROBLEM, Learned(PROBLEM, step, episodes=800), (110,))
