"""The Lagrangian subproblems: windows of steps, each a small planning problem whose end states have multipliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.interval import CROSSING
from reluplan.bounds.span import Span
from reluplan.encoding.hinges import add_hinges, features
from reluplan.encoding.window import Window, cut_window
from reluplan.optimisation.model import Index, Model, ModelBuilder
from reluplan.problem.discounting import present_value
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WindowSubproblem(Window):
    """A window with multipliers of the features of its first and of its end state.

    start_hinges, end_hinges: where the features have their hinges, (n,), −inf for none. weight: what its bound counts
    in the sum, Σ of γ^t over the first steps t of its windows.
    """

    start_hinges: Array
    end_hinges: Array

    @cached_property
    def weight(self) -> float:
        return float((self.problem.discount ** np.array(self.span.starts(), dtype=np.float64)).sum())

    @property
    def smallest_factor(self) -> float:
        """γ^t of the first step t of its last window."""
        return float(self.problem.discount ** self.span.starts()[-1])

    @property
    def end_factor(self) -> float:
        """γ^length: what a unit at the end state is worth at the first step."""
        return float(self.problem.discount_factors[-1])

    @cached_property
    def _with_features(self) -> _FeatureModel:
        builder = ModelBuilder.continuing(self.plan_model.model)
        start = self._add_features(builder, 0, self.start_hinges)
        end = self._add_features(builder, -1, self.end_hinges)
        return _FeatureModel(builder.build(), start, end)

    def _add_features(self, builder: ModelBuilder, t: int, hinges: Array) -> _FeatureColumns:
        states, bounds = self.plan_model.states[t], self.bounds
        columns, binaries = add_hinges(builder, states, bounds.state_lower[t], bounds.state_upper[t], hinges)
        return _FeatureColumns(np.concatenate([states, columns]), binaries)

    def model(self, start_multipliers: Array, end_multipliers: Array) -> Model:
        """max Σ γ^j R − start_multipliers · f(s_first) + γ^length end_multipliers · f(s_end) over one window; see
        `hinges` for f."""
        extended = self._with_features
        objective = extended.model.objective.copy()
        objective[extended.start.columns] -= start_multipliers
        objective[extended.end.columns] += self.end_factor * end_multipliers
        return replace(extended.model, objective=objective)

    def assignment(self, window: Trajectory) -> Array:
        """The complete solution vector of a simulated window."""
        x = np.zeros(self._with_features.model.column_count)
        known = self.plan_model.assignment(window)
        x[: len(known)] = known
        self._with_features.start.fill(x, features(window.states[0], self.start_hinges))
        self._with_features.end.fill(x, features(window.states[-1], self.end_hinges))
        return x

    def windows(self, rewards: Array, starts: Array, ends: Array) -> WindowSet:
        """k windows from their Σ γ^j R (k,), first and end states (k, n)."""
        first, last = features(starts, self.start_hinges), features(ends, self.end_hinges)
        return WindowSet(rewards, first, last, self.end_factor)

    def inside(self, windows: WindowSet) -> WindowSet:
        """Those that begin and end in the boxes of the subproblem."""
        count, inside = len(self.problem.states), np.ones(len(windows.rewards), dtype=bool)
        for t, states in ((0, windows.starts[:, :count]), (-1, windows.ends[:, :count])):
            low, high = self.bounds.state_lower[t], self.bounds.state_upper[t]
            slack = CROSSING * np.maximum(1.0, np.abs(high))
            inside &= ((states >= low - slack) & (states <= high + slack)).all(axis=1)
        return windows.take(np.flatnonzero(inside))


@dataclass(frozen=True, eq=False)
class _FeatureColumns:
    """Where f(s) stands in a model, (2n,), and the binaries of its hinges, (n,), -1 for none."""

    columns: Index
    binaries: Index

    def fill(self, x: Array, values: Array) -> None:
        x[self.columns] = values
        switches = self.binaries >= 0
        x[self.binaries[switches]] = values[len(self.binaries) :][switches] > 0.0


@dataclass(frozen=True, eq=False)
class _FeatureModel:
    """A window's model with the features of its first and of its end state."""

    model: Model
    start: _FeatureColumns
    end: _FeatureColumns


@dataclass(frozen=True, eq=False)
class WindowSet:
    """k windows of a subproblem: Σ γ^j R of each (k,), features of first states and of end states (k, 2n), and
    γ^length, what the multipliers of end states count."""

    rewards: Array
    starts: Array
    ends: Array
    end_factor: float = 1.0

    def lagrangian(self, start_multipliers: Array, end_multipliers: Array) -> Array:
        """Σ γ^j R − start_multipliers · f(s_first) + γ^length end_multipliers · f(s_end) of each, shape (k,)."""
        at_start, at_end = self.starts @ start_multipliers, self.ends @ end_multipliers
        return np.asarray(self.rewards - at_start + self.end_factor * at_end)

    def take(self, which: NDArray[np.int64]) -> WindowSet:
        return replace(self, rewards=self.rewards[which], starts=self.starts[which], ends=self.ends[which])

    def joined(self, other: WindowSet) -> WindowSet:
        """These and others."""
        return replace(
            self,
            rewards=np.concatenate([self.rewards, other.rewards]),
            starts=np.concatenate([self.starts, other.starts]),
            ends=np.concatenate([self.ends, other.ends]),
        )


def window_subproblem(
    problem: Problem, bounds: HorizonBounds, span: Span, hinges: tuple[Array, Array] | None = None
) -> WindowSubproblem:
    """The subproblem of a span; hinges: of the features of its first and of its end state."""
    window = cut_window(problem, bounds, span)
    none = np.full(len(problem.states), -np.inf)
    return WindowSubproblem(span, window.problem, window.bounds, *(hinges or (none, none)))


def window_subproblems(
    problem: Problem, bounds: HorizonBounds, spans: Sequence[Span], plan: Trajectory
) -> tuple[WindowSubproblem, ...]:
    """The subproblems of a partition, whose hinges are where the plan is at their boundaries.

    Both ends of a repeated window have the same multipliers, with hinges where the plan is in the middle of its steps.
    States without bounds have none.
    """
    assert spans[-1].count == 1 or problem.final_reward is None, "the final reward belongs to the last window alone"
    hinges = np.array([plan.states[0], *(plan.states[span.end] for span in spans)])
    for i, span in enumerate(spans):
        if span.count > 1:
            hinges[i + 1] = hinges[i] = plan.states[(span.first + span.end) // 2]
    hinges[:, ~(np.isfinite(bounds.state_lower) & np.isfinite(bounds.state_upper)).all(axis=0)] = -np.inf
    hinges[[0, -1]] = -np.inf
    return tuple(window_subproblem(problem, bounds, span, (hinges[i], hinges[i + 1])) for i, span in enumerate(spans))


def window_rewards(trajectory: Trajectory, span: Span) -> Array:
    """Σ γ^j R of each window of a span along a plan, shape (count,); with the final reward if it is the last one."""
    rewards = trajectory.rewards[span.first : span.end].reshape(span.count, span.length)
    final = trajectory.final_reward if span.end == trajectory.horizon else 0.0
    return present_value(rewards, final, trajectory.discount)
