"""The set of steps for which potentials are computed: a box of inputs, and what is proven about the step in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.boxes import ForwardBounds, HorizonBounds
from reluplan.bounds.prediction import predicted_box
from reluplan.encoding.relu import needs_binary
from reluplan.potentials.features import PatternFeatures
from reluplan.problem.expression import Constraint
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StepDomain:
    """One step as a problem of its own, containing every feasible step t = first..last (counted from 0) whose reward is
    at least `cutoff`.

    problem: horizon 1; its goal is what holds for EVERY next state, so neither C nor G alone. bounds: horizon 1.
    whole: the problem that the steps belong to. cutoff: −inf if no step is left out; only then does an empty domain say
    anything about the whole problem.
    """

    whole: Problem
    problem: Problem
    bounds: HorizonBounds
    first: int
    last: int
    cutoff: float = -math.inf

    @property
    def is_whole(self) -> bool:
        """Whether no step is left out."""
        return self.cutoff == -math.inf

    def input_box(self) -> tuple[Array, Array]:
        """Bounds of the inputs (s, a, x)."""
        bounds = self.bounds
        lower = np.concatenate([bounds.state_lower[0], bounds.action_lower[0], bounds.auxiliary_lower[0]])
        upper = np.concatenate([bounds.state_upper[0], bounds.action_upper[0], bounds.auxiliary_upper[0]])
        return lower, upper

    def features(self, interval_count: int, every_unit: bool = False) -> PatternFeatures:
        """The units that can switch in this domain (or every unit, as in the paper), with proven ceilings."""
        low, high = self.bounds.unit_lower[0], self.bounds.unit_upper[0]
        units = np.arange(len(low)) if every_unit else np.flatnonzero(needs_binary(low, high))
        return PatternFeatures(units, np.maximum(high[units], 0.0), interval_count)


def step_domain(problem: Problem, bounds: ForwardBounds, first: int, last: int) -> StepDomain:
    """The hull of the proven boxes of steps first..last.

    The next state is only restricted by what holds at every t + 1 = 2..H+1 for every horizon: the predictions' bounds,
    the state bounds, and rows that stand in both C and G.
    """
    hull = one_step_bounds(problem, bounds, first, last)
    return StepDomain(problem, one_step_problem(problem, hull), hull, first, last)


def one_step_problem(problem: Problem, bounds: HorizonBounds) -> Problem:
    """A window of one step, from anywhere in its box; what holds for every next state is its goal."""
    goal = _rows_of_every_state(problem)
    lower, upper = bounds.state_lower[0], bounds.state_upper[0]
    return problem.part(0, 1, lower, upper, keeps_initial_rows=False, goal=goal, final_reward=None)


def one_step_bounds(problem: Problem, bounds: HorizonBounds, first: int, last: int) -> HorizonBounds:
    """The hull of the steps first..last; next states lie where predictions do, whatever C or G say of them."""
    span = slice(first, last + 1)
    next_low, next_high = predicted_box(problem, bounds.output_lower[span], bounds.output_upper[span])
    aux_low, aux_high = problem.box(problem.auxiliaries)

    def hull(lower: Array, upper: Array) -> tuple[Array, Array]:
        return lower[span].min(axis=0, keepdims=True), upper[span].max(axis=0, keepdims=True)

    state_low, state_high = hull(bounds.state_lower, bounds.state_upper)
    action_low, action_high = hull(bounds.action_lower, bounds.action_upper)
    now_low, now_high = hull(bounds.auxiliary_lower, bounds.auxiliary_upper)
    return HorizonBounds(
        np.vstack([state_low, next_low.min(axis=0)]),
        np.vstack([state_high, next_high.max(axis=0)]),
        action_low,
        action_high,
        np.vstack([now_low, aux_low]),
        np.vstack([now_high, aux_high]),
        *hull(bounds.unit_lower, bounds.unit_upper),
        *hull(bounds.output_lower, bounds.output_upper),
    )


def _rows_of_every_state(problem: Problem) -> tuple[Constraint, ...]:
    """Rows over states and auxiliaries that stand in both C and G: they hold at every t = 1..H+1."""
    in_goal = {(row.equality, row.function.digest()) for row in problem.goal}
    return tuple(row for row in problem.constraints if (row.equality, row.function.digest()) in in_goal)
