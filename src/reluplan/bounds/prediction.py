"""From predictions to next states: rounding of discrete ones, and declared bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.problem import Problem

Array = NDArray[np.float64]


def predicted_box(problem: Problem, lower: Array, upper: Array) -> tuple[Array, Array]:
    """The box of s' for predictions in a box (..., n): discrete states rounded, state bounds applied."""
    low, high = rounded_box(problem, lower, upper)
    declared_low, declared_high = problem.box(problem.states)
    return np.maximum(low, declared_low), np.minimum(high, declared_high)


def rounded_box(problem: Problem, lower: Array, upper: Array) -> tuple[Array, Array]:
    """The box of predictions in a box (..., n) after the discrete states are rounded: s' = k if and only if
    k − 1/2 <= p <= k + 1/2 − τ, so s' >= ⌈lower − 1/2 + τ⌉ and s' <= ⌊upper + 1/2⌋."""
    with np.errstate(invalid="ignore"):
        guard = 1e-9 * np.maximum(1.0, np.abs(lower))
        down = np.where(np.isfinite(lower), np.ceil(lower - 0.5 + problem.tie_distances - guard), lower)
    low = np.where(problem.discrete_states, down, lower)
    high = np.where(problem.discrete_states, np.floor(upper + 0.5 + 1e-6), upper)
    low = np.where(problem.boolean_states, np.clip(low, 0.0, 1.0), low)
    high = np.where(problem.boolean_states, np.clip(high, 0.0, 1.0), high)
    return low, high
