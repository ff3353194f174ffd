"""Balance a pole on a cart that is pushed to the left or to the right: gymnasium's CartPole-v1."""

from __future__ import annotations

import numpy as np

from reluplan.problem.problem import Variable
from reluplan.problem.writer import ProblemText

from .learned import Array, Learned
from .system import System, box, names, reads

STATES = box(place=(-2.4, 2.4), speed=(-4.0, 4.0), angle=(-0.21, 0.21), turning=(-4.0, 4.0))
ACTIONS = (Variable("right", "boolean", 0.0, 1.0),)
GRAVITY = 9.8
CART = 1.0
POLE = 0.1
HALF_LENGTH = 0.5
PUSH = 10.0
SECONDS = 0.02


def step(states: Array, actions: Array) -> Array:
    """One step of Euler's method, the push to the right or to the left."""
    _, speed, angle, turning = states.T
    force = PUSH * (2.0 * actions[:, 0] - 1.0)
    total = CART + POLE
    swing = (force + POLE * HALF_LENGTH * turning**2 * np.sin(angle)) / total
    inertia = HALF_LENGTH * (4.0 / 3.0 - POLE * np.cos(angle) ** 2 / total)
    bend = (GRAVITY * np.sin(angle) - np.cos(angle) * swing) / inertia
    pull = swing - POLE * HALF_LENGTH * bend * np.cos(angle) / total
    change = np.column_stack([speed, pull, turning, bend])
    return states + SECONDS * change


PROBLEM = ProblemText(
    "cart-pole", 30, "-abs(place') - 10*abs(angle')", STATES, ACTIONS,
    initial_values={"place": 0.5, "speed": 0.0, "angle": 0.05, "turning": 0.0},
    network=reads((*names(STATES), *names(ACTIONS)), names(STATES)),
    comments=("A cart is pushed left or right at every step; the pole must not fall, the cart should come to 0.",),
)  # fmt: skip
SYSTEM = System("cart-pole", "boolean action, unstable", "tune", PROBLEM, Learned(PROBLEM, step), (30,))
