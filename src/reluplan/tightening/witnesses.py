"""Simulated windows: what can happen, and therefore what hardly any bound will exclude."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.boxes import HorizonBounds
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.steps import evaluate_steps

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Witnesses:
    """The least and the largest values seen at the end of windows: states (n,), units of the last step (relu_count,).

    Where nothing was seen the least is +inf and the largest −inf.
    """

    state_least: Array
    state_largest: Array
    unit_least: Array
    unit_largest: Array


def find_witnesses(
    problem: Problem, bounds: HorizonBounds, count: int, rng: np.random.Generator, at_corners: float = 0.6
) -> Witnesses:
    """From `count` random windows as long as the problem's horizon; those that leave the boxes or break C do not count.

    at_corners: this share of them at corners of their boxes.
    The rows of I and G are not looked at, nor is anything seen in boxes without finite sides.
    """
    boxes = (bounds.state_lower[0], bounds.state_upper[0], bounds.action_lower, bounds.action_upper)
    if not all(np.isfinite(box).all() for box in (*boxes, bounds.auxiliary_lower, bounds.auxiliary_upper)):
        count = 0

    def sample(variables: tuple[Variable, ...], lower: Array, upper: Array) -> Array:
        shape = (count, len(variables))
        anywhere = rng.uniform(lower, upper, shape) if count else np.zeros(shape)
        corner = np.where(rng.random(shape) < 0.5, lower, upper)
        values = np.where(rng.random((count, 1)) < at_corners, corner, anywhere)
        return np.where([v.is_discrete for v in variables], np.round(values), values)

    states = sample(problem.states, bounds.state_lower[0], bounds.state_upper[0])
    auxiliaries = sample(problem.auxiliaries, bounds.auxiliary_lower[0], bounds.auxiliary_upper[0])
    units, valid = np.zeros((count, problem.dynamics.relu_count)), np.ones(count, dtype=bool)
    for t in range(problem.horizon):
        actions = sample(problem.actions, bounds.action_lower[t], bounds.action_upper[t])
        later = sample(problem.auxiliaries, bounds.auxiliary_lower[t + 1], bounds.auxiliary_upper[t + 1])
        steps = evaluate_steps(problem, np.hstack([states, actions, auxiliaries]), later)
        valid &= steps.end_within(bounds.state_lower[t + 1], bounds.state_upper[t + 1]) & steps.satisfy()
        units, states, auxiliaries = steps.units, steps.next_states, later
    return Witnesses(*_range(states[valid]), *_range(units[valid]))


def _range(values: Array) -> tuple[Array, Array]:
    """The least and the largest of each column."""
    return values.min(axis=0, initial=np.inf), values.max(axis=0, initial=-np.inf)
