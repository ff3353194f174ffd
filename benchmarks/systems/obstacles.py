"""A puck with drag that is pushed to a target, past obstacles that it must not touch."""

from __future__ import annotations

import numpy as np

from reluplan.problem.writer import ProblemText

from .learned import Array, Learned
from .octagon import octagon_row
from .system import System, box, names, reads

STATES = box(x=(-1.0, 6.0), y=(-1.0, 6.0), vx=(-2.0, 2.0), vy=(-2.0, 2.0))
ACTIONS = box(ux=(-1.0, 1.0), uy=(-1.0, 1.0))
SECONDS = 0.5
DRAG = 0.3
OBSTACLES = ((2.0, 1.6, 0.9), (3.2, 3.8, 0.8))
"""Circles: centre and radius."""


def step(states: Array, actions: Array) -> Array:
    """v' = v + (u − 0.3 |v| v) Δt with the speed |v| in the plane, x' = x + (v + v') Δt / 2."""
    place, before = states[:, :2], states[:, 2:]
    speed = np.linalg.norm(before, axis=1, keepdims=True)
    after = before + SECONDS * (actions - DRAG * speed * before)
    return np.hstack([place + 0.5 * SECONDS * (before + after), after])


PROBLEM = ProblemText(
    "obstacles", 20, "-abs(x' - 5) - abs(y' - 5) - 0.1*abs(ux) - 0.1*abs(uy)", STATES, ACTIONS,
    initial_values={"x": 0.0, "y": 0.0, "vx": 0.0, "vy": 0.0},
    constraints=tuple(octagon_row("x'", "y'", circle) for circle in OBSTACLES),
    network=reads(("vx", "vy", *names(ACTIONS)), ("vx", "vy")),
    transitions={axis: f"{axis} + 0.25*(v{axis} + v{axis}')" for axis in "xy"},
    comments=("A puck with drag goes from (0, 0) to (5, 5) round two obstacles; its place is known from its speed.",),
)  # fmt: skip
SYSTEM = System("obstacles", "non-convex constraints", "tune", PROBLEM, Learned(PROBLEM, step), (20,))
