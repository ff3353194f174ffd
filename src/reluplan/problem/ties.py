"""Rounding ties: where the last bit of a prediction decides which integer a discrete state becomes.

Halves go up, so s' = k for k − 1/2 <= p < k + 1/2. A plan may not rest on what floating point makes of a tie:

    rounded down, p < k + 1/2:  p <= k + 1/2 − τ (`Problem.tie_distances`), as in the MILP;
    within NOISE of a tie:      in rational arithmetic p must be the tie itself, which goes up, as integer data make it.

The weights that we evaluate are sums of those in the files, and so rounded themselves: that p exceeds a tie by 1e-17
would prove nothing. Only where plans on ties are asked for (tie_distance = 0) are such predictions taken as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.problem import Problem
from reluplan.problem.tolerance import ROUNDING

Array = NDArray[np.float64]

NOISE = 1e-9
"""Relative to max(1, |p|): rounding errors of a network in floating point stay below it."""
MOST_EXACT_WORK = 200_000
"""Weights times steps up to which a whole plan is rolled out exactly; beyond, each step for itself."""


def tie_violations(problem: Problem, states: Array, actions: Array, auxiliaries: Array) -> Iterator[tuple[int, Array]]:
    """For every discrete state, by how much its predictions break the rules above, shape (H,); zero where they do not.

    A prediction that is too close to a tie to know the integer counts as a whole unit.
    """
    if not problem.discrete_states.any():
        return
    inputs = np.hstack([states[:-1], actions, auxiliaries[:-1]])
    with np.errstate(over="ignore", invalid="ignore"):
        predictions = problem.dynamics.forward(inputs)
        ties = np.where(problem.boolean_states, 0.5, np.floor(predictions) + 0.5)
        above = predictions - ties
        near = problem.discrete_states & (np.abs(above) <= NOISE * np.maximum(1.0, np.abs(predictions)))
    wrong = _is_wrong(problem, states, inputs, near)
    for i in np.flatnonzero(problem.discrete_states).tolist():
        too_close = np.where(above[:, i] < 0.0, np.maximum(problem.tie_distances[i] + above[:, i], 0.0), 0.0)
        yield i, np.where(wrong[:, i], 1.0, too_close)


def hangs_on_a_tie(problem: Problem, states: Array, actions: Array, auxiliaries: Array) -> bool:
    """Whether a prediction breaks the rules above."""
    found = tie_violations(problem, states, actions, auxiliaries)
    return any(bool((amounts > ROUNDING).any()) for _, amounts in found)


def _is_wrong(problem: Problem, states: Array, inputs: Array, near: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which predictions (H, n) near a tie are not rounded for sure, as the rules above have it."""
    wrong = np.zeros_like(near)
    if not near.any() or not np.isfinite(inputs).all():
        return wrong
    weights = sum(layer.weights.size for layer in (*problem.dynamics.hidden, problem.dynamics.output))
    whole = weights * len(inputs) <= MOST_EXACT_WORK
    state = [Fraction(value) for value in states[0].tolist()]
    for t in range(len(inputs)) if whole else np.flatnonzero(near.any(axis=1)).tolist():
        given = [Fraction(value) for value in inputs[t].tolist()]
        if whole:
            given[: len(state)] = state
        exact = problem.dynamics.exact_outputs(given)
        state = _round(problem, exact)
        wrong[t] = problem.discrete_states & [value != other for value, other in zip(state, states[t + 1], strict=True)]
        if problem.tie_distance > 0.0:
            wrong[t] |= near[t] & [(2 * p).denominator != 1 for p in exact]
    return wrong


def _round(problem: Problem, predictions: Sequence[Fraction]) -> list[Fraction]:
    """The next state, halves going up."""
    return [
        _clipped(p, boolean) if discrete else p
        for p, discrete, boolean in zip(predictions, problem.discrete_states, problem.boolean_states, strict=True)
    ]


def _clipped(prediction: Fraction, boolean: bool) -> Fraction:
    nearest = Fraction(math.floor(prediction + Fraction(1, 2)))
    return min(max(nearest, Fraction(0)), Fraction(1)) if boolean else nearest
