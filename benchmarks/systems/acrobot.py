"""Two links that hang down, driven at the joint between them: gymnasium's Acrobot-v1 with a torque of any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from reluplan.problem.writer import ProblemText

from .integrate import runge_kutta
from .learned import QUICK, Array, Learned
from .system import System, box, names, reads

STATES = box(
    cos1=(-1.1, 1.1), sin1=(-1.1, 1.1), cos2=(-1.1, 1.1), sin2=(-1.1, 1.1), speed1=(-13.0, 13.0), speed2=(-29.0, 29.0)
)
ACTIONS = box(torque=(-1.0, 1.0))
GRAVITY = 9.8
SECONDS = 0.2
FASTEST = np.array([4.0 * np.pi, 9.0 * np.pi])


def slopes(now: Array, actions: Array) -> Array:
    """d/dt (θ1, θ2, ω1, ω2) of links of length and mass 1, each with its centre in the middle and inertia 1."""
    angle1, angle2, speed1, speed2 = now.T
    d1 = 0.25 + (1.25 + np.cos(angle2)) + 2.0
    d2 = 0.25 + 0.5 * np.cos(angle2) + 1.0
    weight2 = 0.5 * GRAVITY * np.cos(angle1 + angle2 - np.pi / 2)
    weight1 = -0.5 * speed2**2 * np.sin(angle2) - speed2 * speed1 * np.sin(angle2)
    weight1 = weight1 + 1.5 * GRAVITY * np.cos(angle1 - np.pi / 2) + weight2
    turn2 = actions[:, 0] + d2 / d1 * weight1 - 0.5 * speed1**2 * np.sin(angle2) - weight2
    turn2 = turn2 / (1.25 - d2**2 / d1)
    turn1 = -(d2 * turn2 + weight1) / d1
    return np.column_stack([speed1, speed2, turn1, turn2])


def step(states: Array, actions: Array) -> Array:
    """One step of Runge and Kutta's method over 0.2 s; speeds are kept within 4π and 9π."""
    angles = np.arctan2(states[:, [1, 3]], states[:, [0, 2]])
    after = runge_kutta(slopes, np.hstack([angles, states[:, 4:]]), actions, SECONDS, 1)
    return _seen(after[:, :2], np.clip(after[:, 2:], -FASTEST, FASTEST))


def anywhere(rng: Generator, count: int) -> Array:
    """Any angles, moderate speeds: what is reached from rest within a few seconds."""
    return _seen(rng.uniform(-np.pi, np.pi, (count, 2)), rng.uniform(-4.0, 4.0, (count, 2)))


def _seen(angles: Array, speeds: Array) -> Array:
    cos, sin = np.cos(angles), np.sin(angles)
    return np.column_stack([cos[:, 0], sin[:, 0], cos[:, 1], sin[:, 1], speeds])


PROBLEM = ProblemText(
    "acrobot", 20, "-1 - cos1' - 0.5*abs(1 - cos2') - 0.01*abs(torque)", STATES, ACTIONS,
    initial_values={"cos1": 1.0, "sin1": 0.0, "cos2": 1.0, "sin2": 0.0, "speed1": 0.0, "speed2": 0.0},
    network=reads((*names(STATES), *names(ACTIONS)), names(STATES)),
    comments=("Two links hang down; the first shall come up (cos1 = -1) with the second stretched out.",),
)  # fmt: skip
SETTINGS = replace(QUICK, hidden=(32, 32))
SYSTEM = System(
    "acrobot",
    "six states, swing-up",
    "test",
    PROBLEM,
    Learned(PROBLEM, step, SETTINGS, start=anywhere, episodes=800),
    (20,),
)
