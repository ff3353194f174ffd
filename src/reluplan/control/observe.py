"""Observed states as the problem may take them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]


def observed_state(problem: Problem, state: Array, tolerance: float) -> Array:
    """The nearest state within the problem's bounds; discrete states are rounded.

    A state may lie outside by at most tolerance · max(1, upper − lower): sensors and simulators are not exact, but a
    state that is far outside means that the problem file does not describe this system.
    """
    state = np.asarray(state, dtype=np.float64)
    if state.shape != (len(problem.states),):
        count = len(problem.own_states)
        raise InputError(f"an observed state has {count} values, one per state; got shape {state.shape}")
    lower, upper = problem.box(problem.states)
    inside = np.where(problem.discrete_states, np.round(state), state)
    inside = np.clip(inside, lower, upper)
    _check_distance(problem, state, inside, tolerance)
    return inside


def _check_distance(problem: Problem, state: Array, inside: Array, tolerance: float) -> None:
    for variable, seen, taken in zip(problem.states, state, inside, strict=True):
        width = variable.upper - variable.lower
        allowed = tolerance * max(1.0, width if np.isfinite(width) else 1.0)
        if variable.is_discrete:
            allowed += 0.5
        if not abs(seen - taken) <= allowed:
            raise InputError(
                f"{variable.name} was observed at {seen:.6g}, outside its bounds [{variable.lower:g}, "
                f"{variable.upper:g}] by more than {allowed:.3g}; widen the bounds in {problem.source}"
            )
