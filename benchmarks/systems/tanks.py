"""Four tanks one below the other: water is pumped into the first and flows on through a valve below each."""

from __future__ import annotations

import numpy as np

from reluplan.problem.writer import ProblemText

from .learned import Array, Learned
from .system import System, box, names, reads

COUNT = 4
STATES = box(**{f"level{i}": (0.0, 10.0) for i in range(COUNT)})
ACTIONS = box(pump=(0.0, 2.0), **{f"valve{i}": (0.0, 1.0) for i in range(COUNT)})
TARGETS = (4.0, 6.0, 3.0, 5.0)


def step(states: Array, actions: Array) -> Array:
    """level_i' = level_i + in_i − out_i with out_i = min(level_i, valve_i √level_i), in_0 = pump, in_i = out_{i−1}."""
    out = np.minimum(states, actions[:, 1:] * np.sqrt(states))
    into = np.column_stack([actions[:, :1], out[:, :-1]])
    after: Array = states + into - out
    return after


REWARD = " ".join(f"- abs(level{i}' - {target:g})" for i, target in enumerate(TARGETS)) + " - 0.1*pump"
PROBLEM = ProblemText(
    "tanks-4", 20, REWARD, STATES, ACTIONS,
    initial_values={state.name: value for state, value in zip(STATES, (2.0, 1.0, 8.0, 0.5), strict=True)},
    network=reads((*names(STATES), *names(ACTIONS)), names(STATES)),
    comments=("Four tanks in a chain, a pump above the first and a valve below each; every level has a target.",),
)  # fmt: skip
SYSTEM = System("tanks-4", "chain, five actions", "tune", PROBLEM, Learned(PROBLEM, step), (20,))
