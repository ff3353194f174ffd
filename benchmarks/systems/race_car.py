"""A car on a plane, the kinematic bicycle model: round an obstacle, through the target, as soon as possible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reluplan.problem.writer import ProblemText

from .integrate import runge_kutta
from .learned import QUICK, Array, Learned
from .octagon import octagon_row
from .system import System, box, names, reads

STATES = box(x=(-2.0, 12.0), y=(-2.0, 12.0), heading=(-1.0, 2.6), speed=(0.0, 4.0))
ACTIONS = box(pedal=(-2.0, 1.5), wheel=(-0.5, 0.5))
LENGTH = 1.5
SECONDS = 0.25
OBSTACLE = (5.0, 2.5, 1.8)
TARGET = (8.0, 8.0)


def slopes(now: Array, actions: Array) -> Array:
    """ẋ = v cos φ, ẏ = v sin φ, φ̇ = v tan δ / 1.5, v̇ = pedal − 0.1 v."""
    heading, speed = now[:, 2], now[:, 3]
    turn = speed * np.tan(actions[:, 1]) / LENGTH
    return np.column_stack([speed * np.cos(heading), speed * np.sin(heading), turn, actions[:, 0] - 0.1 * speed])


def step(states: Array, actions: Array) -> Array:
    """A quarter of a second; the car does not roll backwards."""
    after = runge_kutta(slopes, states, actions, SECONDS, 2)
    return np.column_stack([after[:, :3], np.maximum(after[:, 3], 0.0)])


PROBLEM = ProblemText(
    "race-car", 25, f"-abs(x' - {TARGET[0]:g}) - abs(y' - {TARGET[1]:g}) - 0.1*abs(wheel)", STATES, ACTIONS,
    initial_values={"x": 0.0, "y": 0.0, "heading": 0.3, "speed": 1.0},
    constraints=(octagon_row("x'", "y'", OBSTACLE),),
    network=reads(("heading", "speed", *names(ACTIONS)), names(STATES)),
    comments=("A car (kinematic bicycle) drives to a target; an obstacle stands in its way.",),
)  # fmt: skip
SETTINGS = replace(QUICK, hidden=(24, 24))
SYSTEM = System("race-car", "bicycle model, obstacle", "test", PROBLEM, Learned(PROBLEM, step, SETTINGS), (25,))
