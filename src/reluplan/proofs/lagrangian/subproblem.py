"""The Lagrangian subproblems: windows of steps, each a small planning problem whose end states have multipliers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.interval import CROSSING
from reluplan.bounds.span import Span
from reluplan.encoding.window import Window, cut_window
from reluplan.optimisation.model import Index, Model, ModelBuilder
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.lagrangian.hinges import add_hinges, features

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WindowSubproblem(Window):
    """A window with multipliers of the features of its first and of its end state.

    start_hinges, end_hinges: where the features have their hinges, (n,), −inf for none.
    """

    start_hinges: Array
    end_hinges: Array

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
        """max Σ R − start_multipliers · f(s_first) + end_multipliers · f(s_end) over one window; see `hinges` for f."""
        extended = self._with_features
        objective = extended.model.objective.copy()
        objective[extended.start.columns] -= start_multipliers
        objective[extended.end.columns] += end_multipliers
        return dataclasses.replace(extended.model, objective=objective)

    def assignment(self, window: Trajectory) -> Array:
        """The complete solution vector of a simulated window."""
        x = np.zeros(self._with_features.model.column_count)
        known = self.plan_model.assignment(window)
        x[: len(known)] = known
        self._with_features.start.fill(x, features(window.states[0], self.start_hinges))
        self._with_features.end.fill(x, features(window.states[-1], self.end_hinges))
        return x

    def windows(self, rewards: Array, starts: Array, ends: Array) -> WindowSet:
        """k windows from their Σ R (k,), first and end states (k, n)."""
        return WindowSet(rewards, features(starts, self.start_hinges), features(ends, self.end_hinges))

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
    """k windows of a subproblem: Σ R of each (k,), features of first states and of end states (k, 2n)."""

    rewards: Array
    starts: Array
    ends: Array

    def lagrangian(self, start_multipliers: Array, end_multipliers: Array) -> Array:
        """Σ R − start_multipliers · f(s_first) + end_multipliers · f(s_end) of each, shape (k,)."""
        return np.asarray(self.rewards - self.starts @ start_multipliers + self.ends @ end_multipliers)

    def take(self, which: NDArray[np.int64]) -> WindowSet:
        return WindowSet(self.rewards[which], self.starts[which], self.ends[which])

    def joined(self, other: WindowSet) -> WindowSet:
        """These and others."""
        return WindowSet(
            np.concatenate([self.rewards, other.rewards]),
            np.concatenate([self.starts, other.starts]),
            np.concatenate([self.ends, other.ends]),
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
    hinges = np.array([plan.states[0], *(plan.states[span.end] for span in spans)])
    for i, span in enumerate(spans):
        if span.count > 1:
            hinges[i + 1] = hinges[i] = plan.states[(span.first + span.end) // 2]
    hinges[:, ~(np.isfinite(bounds.state_lower) & np.isfinite(bounds.state_upper)).all(axis=0)] = -np.inf
    hinges[[0, -1]] = -np.inf
    return tuple(window_subproblem(problem, bounds, span, (hinges[i], hinges[i + 1])) for i, span in enumerate(spans))


def window_rewards(trajectory: Trajectory, span: Span) -> Array:
    """Σ R of each window of a span along a plan, shape (count,)."""
    rewards = trajectory.rewards[span.first : span.end]
    return np.asarray(rewards.reshape(span.count, span.length).sum(axis=1))
