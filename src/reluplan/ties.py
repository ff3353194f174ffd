"""Rounding ties: where the last bit of a prediction decides which integer a discrete state becomes.

Halves go up, so s' = k for k − 1/2 <= p < k + 1/2. A plan may not rest on what floating point makes of a tie:

    rounded down, p < k + 1/2:  p <= k + 1/2 − τ (`Problem.tie_distances`), as in the MILP, to a tolerance of τ/2;
    within NOISE of a tie:      the exact value of the network, in rational arithmetic, must be rounded like the float.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from reluplan.problem import Problem

Array = NDArray[np.float64]

NOISE = 1e-9
"""Relative to max(1, |p|): rounding errors of a network in floating point stay below it."""


def tie_violations(problem: Problem, states: Array, actions: Array, auxiliaries: Array) -> Iterator[tuple[int, Array]]:
    """For every discrete state, by how much its predictions break the rules above, shape (H,); zero where they do not.

    What another rounding would make of a step within NOISE of a tie counts as a whole unit.
    """
    if not problem.discrete_states.any():
        return
    inputs = np.hstack([states[:-1], actions, auxiliaries[:-1]])
    with np.errstate(over="ignore", invalid="ignore"):
        predictions = problem.dynamics.forward(inputs)
    for i in np.flatnonzero(problem.discrete_states).tolist():
        p = predictions[:, i]
        above = p - nearest_tie(p, bool(problem.boolean_states[i]))
        amounts = np.where(above < 0.0, np.maximum(problem.tie_distances[i] + above, 0.0), 0.0)
        for t in np.flatnonzero(np.abs(above) <= NOISE * np.maximum(1.0, np.abs(p))).tolist():
            if not _is_rounded_like_the_exact_value(problem, inputs[t], i, float(p[t])):
                amounts[t] = 1.0
        yield i, amounts


def nearest_tie(predictions: Array, boolean: bool) -> Array:
    """k + 1/2 closest to each prediction; for a boolean only 1/2 is one."""
    return np.full_like(predictions, 0.5) if boolean else np.floor(predictions) + 0.5


def _is_rounded_like_the_exact_value(problem: Problem, inputs: Array, state: int, prediction: float) -> bool:
    exact = problem.dynamics.exact_output(inputs, state)
    tie = nearest_tie(np.array([prediction]), bool(problem.boolean_states[state]))[0]
    return bool(exact >= tie) == bool(prediction >= tie)
