"""The horizon cut into pieces: windows of steps, each a small planning problem of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.interval import CROSSING
from reluplan.bounds.reachability import HorizonBounds
from reluplan.encoding.window import Span, Window, cut_window
from reluplan.optimisation.model import Index, Model, ModelBuilder
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.lagrangian.hinges import add_kinks, features

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Piece(Window):
    """A window with values of its first and of its end state.

    start_kinks, end_kinks: where these have their kinks, (n,), −inf for none.
    """

    start_kinks: Array
    end_kinks: Array

    @cached_property
    def _valued(self) -> _ValuedModel:
        builder = ModelBuilder.continuing(self.plan_model.model)
        start = self._add_features(builder, 0, self.start_kinks)
        end = self._add_features(builder, -1, self.end_kinks)
        return _ValuedModel(builder.build(), start, end)

    def _add_features(self, builder: ModelBuilder, t: int, kinks: Array) -> _FeatureColumns:
        states, bounds = self.plan_model.states[t], self.bounds
        hinges, binaries = add_kinks(builder, states, bounds.state_lower[t], bounds.state_upper[t], kinks)
        return _FeatureColumns(np.concatenate([states, hinges]), binaries)

    def model(self, start_value: Array, end_value: Array) -> Model:
        """max Σ R − start_value · f(s_first) + end_value · f(s_end) over one window; see `kinks` for f."""
        valued = self._valued
        objective = valued.model.objective.copy()
        objective[valued.start.columns] -= start_value
        objective[valued.end.columns] += end_value
        return dataclasses.replace(valued.model, objective=objective)

    def assignment(self, window: Trajectory) -> Array:
        """The complete solution vector of a simulated window."""
        x = np.zeros(self._valued.model.column_count)
        known = self.plan_model.assignment(window)
        x[: len(known)] = known
        self._valued.start.fill(x, features(window.states[0], self.start_kinks))
        self._valued.end.fill(x, features(window.states[-1], self.end_kinks))
        return x

    def windows(self, rewards: Array, starts: Array, ends: Array) -> Windows:
        """k windows from their Σ R (k,), first and end states (k, n)."""
        return Windows(rewards, features(starts, self.start_kinks), features(ends, self.end_kinks))

    def inside(self, windows: Windows) -> Windows:
        """Those that begin and end in the boxes of the piece."""
        count, inside = len(self.problem.states), np.ones(len(windows.rewards), dtype=bool)
        for t, states in ((0, windows.starts[:, :count]), (-1, windows.ends[:, :count])):
            low, high = self.bounds.state_lower[t], self.bounds.state_upper[t]
            slack = CROSSING * np.maximum(1.0, np.abs(high))
            inside &= ((states >= low - slack) & (states <= high + slack)).all(axis=1)
        return windows.take(np.flatnonzero(inside))


@dataclass(frozen=True, eq=False)
class _FeatureColumns:
    """Where f(s) stands in a model, (2n,), and the binaries of its kinks, (n,), -1 for none."""

    columns: Index
    binaries: Index

    def fill(self, x: Array, values: Array) -> None:
        x[self.columns] = values
        switches = self.binaries >= 0
        x[self.binaries[switches]] = values[len(self.binaries) :][switches] > 0.0


@dataclass(frozen=True, eq=False)
class _ValuedModel:
    """A window's model with the features of its first and of its end state."""

    model: Model
    start: _FeatureColumns
    end: _FeatureColumns


@dataclass(frozen=True, eq=False)
class Windows:
    """k windows of a piece: Σ R of each (k,), features of first states and of end states (k, 2n)."""

    rewards: Array
    starts: Array
    ends: Array

    def values(self, start_value: Array, end_value: Array) -> Array:
        """Σ R − start_value · f(s_first) + end_value · f(s_end) of each, shape (k,)."""
        return np.asarray(self.rewards - self.starts @ start_value + self.ends @ end_value)

    def take(self, which: NDArray[np.int64]) -> Windows:
        return Windows(self.rewards[which], self.starts[which], self.ends[which])

    def joined(self, other: Windows) -> Windows:
        """These and others."""
        return Windows(
            np.concatenate([self.rewards, other.rewards]),
            np.concatenate([self.starts, other.starts]),
            np.concatenate([self.ends, other.ends]),
        )


def cut_piece(problem: Problem, bounds: HorizonBounds, span: Span, kinks: tuple[Array, Array] | None = None) -> Piece:
    """The piece of a problem; kinks: of the values of its first and of its end state."""
    window = cut_window(problem, bounds, span)
    none = np.full(len(problem.states), -np.inf)
    return Piece(span, window.problem, window.bounds, *(kinks or (none, none)))


def cut_pieces(problem: Problem, bounds: HorizonBounds, spans: Sequence[Span], plan: Trajectory) -> tuple[Piece, ...]:
    """The pieces of a partition, whose values have their kinks where the plan is at their boundaries.

    Both ends of a repeated window have the same values, with kinks where the plan is in the middle of its steps.
    States without bounds have none.
    """
    kinks = np.array([plan.states[0], *(plan.states[span.end] for span in spans)])
    for i, span in enumerate(spans):
        if span.count > 1:
            kinks[i + 1] = kinks[i] = plan.states[(span.first + span.end) // 2]
    kinks[:, ~(np.isfinite(bounds.state_lower) & np.isfinite(bounds.state_upper)).all(axis=0)] = -np.inf
    kinks[[0, -1]] = -np.inf
    return tuple(cut_piece(problem, bounds, span, (kinks[i], kinks[i + 1])) for i, span in enumerate(spans))


def window_values(trajectory: Trajectory, span: Span) -> Array:
    """Σ R of each window of a span along a plan, shape (count,)."""
    rewards = trajectory.rewards[span.first : span.end]
    return np.asarray(rewards.reshape(span.count, span.length).sum(axis=1))
