"""Cuts of windows: what some steps earn is limited by where they begin and where they end.

In each window t, ..., t + k of a span, with features f of states (`hinges`), and with γ^k F if it ends at the horizon,

    Σ_{j<k} γ^j R_{t+j}  <=  bound + start · f(s_t) − γ^k end · f(s_{t+k}).

Any multipliers will do, if the bound is the window's Lagrangian bound for them (`proofs.lagrangian`): these are the
Lagrangian cuts of Zou, Ahmed and Sun (2019). With those of all windows of a partition the LP relaxation of the whole
horizon is at least as tight as their sum, and branching goes on from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.span import Span
from reluplan.encoding.hinges import HingeColumns, add_hinges, features
from reluplan.encoding.unroll import PlanModel
from reluplan.optimisation.model import Index, ModelBuilder
from reluplan.problem.discounting import discount_factors, present_value
from reluplan.problem.rollout import Trajectory

Array = NDArray[np.float64]

ROUNDING = 1e-12
"""Every cut is this much weaker (relative to its terms), for the rounding of its coefficients."""


@dataclass(frozen=True, eq=False)
class WindowCut:
    """The cut of each window of a span: multipliers of the features of its first and of its end state, (2n,), the
    hinges of these, (n,), and the bound, its margin included."""

    span: Span
    start: Array
    start_hinges: Array
    end: Array
    end_hinges: Array
    bound: float

    def slack(self, plan: Trajectory) -> float:
        """How far a plan's windows are from the cut, the closest of them."""
        firsts = np.array(self.span.starts())
        ends = firsts + self.span.length
        rewards = plan.rewards[firsts[:, None] + np.arange(self.span.length)]
        final = np.where(ends == plan.horizon, plan.final_reward, 0.0)
        earned = present_value(rewards, final, plan.discount)
        begin = features(plan.states[firsts], self.start_hinges) @ self.start
        end = features(plan.states[ends], self.end_hinges) @ self.end
        return float((self.bound + begin - plan.discount**self.span.length * end - earned).min())


def with_window_cuts(plan_model: PlanModel, cuts: Sequence[WindowCut]) -> PlanModel:
    """The model with a row for each window of each cut."""
    if not cuts:
        return plan_model
    return _Writer(plan_model).written(cuts)


class _Writer:
    """Rows of cuts behind a plan model; cuts with equal hinges at a step share their columns."""

    def __init__(self, plan_model: PlanModel) -> None:
        self._plan_model = plan_model
        self._builder = ModelBuilder.continuing(plan_model.model)
        self._hinges: dict[tuple[int, bytes], HingeColumns] = {}

    def written(self, cuts: Sequence[WindowCut]) -> PlanModel:
        for cut in cuts:
            for first in cut.span.starts():
                self._add(cut, first)
        hinges = (*self._plan_model.hinges, *self._hinges.values())
        return replace(self._plan_model, model=self._builder.build(), hinges=hinges)

    def _add(self, cut: WindowCut, first: int) -> None:
        """The row of one window; none if a state without bounds has a multiplier."""
        end, problem = first + cut.span.length, self._plan_model.problem
        factors = discount_factors(problem.discount, cut.span.length + 1)
        sides = (first, -cut.start, cut.start_hinges), (end, factors[-1] * cut.end, cut.end_hinges)
        size = abs(cut.bound) + sum(self._size(*side) for side in sides)
        if not math.isfinite(size):
            return
        reward = self._plan_model.reward
        final = self._plan_model.final_reward if end == problem.horizon else None
        constant = reward.constant * float(factors[:-1].sum())
        constant += 0.0 if final is None else factors[-1] * final.constant
        row = self._builder.add_rows(-np.inf, cut.bound + ROUNDING * size - constant)
        self._builder.add_entries(row, reward.columns[first:end], factors[:-1, None] * reward.coefficients)
        if final is not None:
            self._builder.add_entries(row, final.columns[0], factors[-1] * final.coefficients)
        for t, values, hinges in sides:
            columns = self._features(t, values, hinges)
            used = np.flatnonzero(values)
            self._builder.add_entries(row, columns[used], values[used])

    def _size(self, t: int, values: Array, hinges: Array) -> float:
        """Of the terms of a state's features."""
        low, high = self._box(t)
        reach = np.concatenate([np.maximum(np.abs(low), np.abs(high)), np.abs(hinges - low)])
        used = values != 0.0
        return float((np.abs(values[used]) * reach[used]).sum())

    def _box(self, t: int) -> tuple[Array, Array]:
        model, columns = self._plan_model.model, self._plan_model.states[t]
        return model.column_lower[columns], model.column_upper[columns]

    def _features(self, t: int, values: Array, hinges: Array) -> Index:
        """Columns of f(s_t), (2n,); those of the hinges are only there if they are used."""
        states = self._plan_model.states[t]
        if not values[len(states) :].any():
            return np.concatenate([states, np.full(len(states), -1)])
        key = t, hinges.tobytes()
        if key not in self._hinges:
            columns = add_hinges(self._builder, states, *self._box(t), hinges)
            self._hinges[key] = HingeColumns(t, hinges, *columns)
        return np.concatenate([states, self._hinges[key].columns])
