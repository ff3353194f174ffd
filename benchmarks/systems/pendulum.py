"""Swing a pendulum up: gymnasium's Pendulum-v1, seen by the cosine and sine of its angle and its speed."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from reluplan.problem.writer import ProblemText

from .learned import Array, Learned
from .system import System, box, names, reads

STATES = box(cos=(-1.1, 1.1), sin=(-1.1, 1.1), speed=(-8.5, 8.5))
ACTIONS = box(torque=(-2.0, 2.0))
GRAVITY = 10.0
SECONDS = 0.05
FASTEST = 8.0


def step(states: Array, actions: Array) -> Array:
    """ω' = ω + (3/2 g sin θ + 3 u) Δt, kept within ± 8; θ' = θ + ω' Δt (a rod of mass and length 1, up at θ = 0)."""
    angle = np.arctan2(states[:, 1], states[:, 0])
    speed = states[:, 2] + (1.5 * GRAVITY * np.sin(angle) + 3.0 * actions[:, 0]) * SECONDS
    speed = np.clip(speed, -FASTEST, FASTEST)
    angle = angle + speed * SECONDS
    return np.column_stack([np.cos(angle), np.sin(angle), speed])


def anywhere(rng: Generator, count: int) -> Array:
    """Any angle, any speed."""
    angle = rng.uniform(-np.pi, np.pi, count)
    return np.column_stack([np.cos(angle), np.sin(angle), rng.uniform(-FASTEST, FASTEST, count)])


PROBLEM = ProblemText(
    "pendulum", 20, "-4*(1 - cos') - abs(sin') - 0.1*abs(speed') - 0.01*abs(torque)", STATES, ACTIONS,
    initial_values={"cos": -1.0, "sin": 0.0, "speed": 0.0},
    network=reads((*names(STATES), *names(ACTIONS)), names(STATES)),
    comments=("A pendulum hangs down; up is at cos = 1. The torque is too weak to lift it without a swing.",),
)  # fmt: skip
SYSTEM = System("pendulum", "swing-up, one action", "tune", PROBLEM, Learned(PROBLEM, step, start=anywhere), (20, 40))
