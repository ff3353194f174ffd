"""The horizon cut into pieces: windows of steps, each a small planning problem of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.reach import HorizonBounds
from reluplan.errors import InfeasibleError
from reluplan.milp.model import Model
from reluplan.milp.unroll import PlanModel, unroll
from reluplan.problem import Problem
from reluplan.simulate import Trajectory

Array = NDArray[np.float64]
STATE_FIELDS = ("state_lower", "state_upper", "auxiliary_lower", "auxiliary_upper")
"""The fields of HorizonBounds with one entry more than there are steps."""

CROSSING = 1e-6


@dataclass(frozen=True)
class Span:
    """Steps first, first + 1, ...: `count` windows of `length` steps, one after the other (counted from 0)."""

    first: int
    length: int
    count: int = 1

    @property
    def end(self) -> int:
        return self.first + self.length * self.count

    def starts(self) -> range:
        """The first step of each window."""
        return range(self.first, self.end, self.length)


@dataclass(frozen=True, eq=False)
class Piece:
    """A span with the one small problem that contains each of its windows.

    problem: horizon `length`, from the box of the first state; the goal only where the window ends at the horizon.
    bounds: the hull of the windows' proven boxes.
    """

    span: Span
    problem: Problem
    bounds: HorizonBounds

    @cached_property
    def plan_model(self) -> PlanModel:
        return unroll(self.problem, self.bounds)

    def model(self, start_value: Array, end_value: Array) -> Model:
        """max Σ R − start_value · s_first + end_value · s_end over one window."""
        model = self.plan_model.model
        objective = model.objective.copy()
        objective[self.plan_model.states[0]] -= start_value
        objective[self.plan_model.states[-1]] += end_value
        return dataclasses.replace(model, objective=objective)


def cut_piece(problem: Problem, bounds: HorizonBounds, span: Span) -> Piece:
    """The piece of a problem; only the first one starts at I, and only one that ends at the horizon knows G.

    G cuts plans at the last step alone, so a window that is repeated, or ends earlier, must do without it.
    """
    hull = window_hull(bounds, span)
    is_first, is_last = span.first == 0 and span.count == 1, span.end == problem.horizon and span.count == 1
    window = dataclasses.replace(
        problem,
        horizon=span.length,
        initial_lower=hull.state_lower[0],
        initial_upper=hull.state_upper[0],
        initial_constraints=problem.initial_constraints if is_first else (),
        goal=problem.goal if is_last else (),
    )
    return Piece(span, window, hull)


def window_hull(bounds: HorizonBounds, span: Span) -> HorizonBounds:
    """The smallest boxes that contain each of a span's windows, offset by offset."""

    def hull(name: str) -> Array:
        values: Array = getattr(bounds, name)
        width = span.length + (name in STATE_FIELDS)
        steps = np.array(span.starts())[:, None] + np.arange(width)
        windows = values[steps]
        return np.asarray(windows.min(axis=0) if name.endswith("lower") else windows.max(axis=0))

    return HorizonBounds(*(hull(field.name) for field in dataclasses.fields(HorizonBounds)))


def narrow(bounds: HorizonBounds, spans: Sequence[Span], found: Sequence[HorizonBounds]) -> HorizonBounds:
    """The bounds, intersected with what was found for each span's windows."""
    fields = {field.name: getattr(bounds, field.name).copy() for field in dataclasses.fields(HorizonBounds)}
    for span, window in zip(spans, found, strict=True):
        for name, values in fields.items():
            new: Array = getattr(window, name)
            pick = np.maximum if name.endswith("lower") else np.minimum
            for start in span.starts():
                part = slice(start, start + len(new))
                values[part] = pick(values[part], new)
    for name, upper in fields.items():
        if name.endswith("upper"):
            _uncross(fields[name.replace("upper", "lower")], upper)
    return HorizonBounds(**fields)


def _uncross(lower: Array, upper: Array) -> None:
    """Proven sides may cross by a rounding error, which is undone; by more, and nothing is left between them."""
    if (lower > upper + CROSSING * np.maximum(1.0, np.abs(upper))).any():
        raise InfeasibleError("no value is left for a variable")
    crossed = lower > upper
    lower[crossed], upper[crossed] = upper[crossed], lower[crossed]


def window_values(trajectory: Trajectory, span: Span) -> Array:
    """Σ R of each window of a span along a plan, shape (count,)."""
    rewards = trajectory.rewards[span.first : span.end]
    return np.asarray(rewards.reshape(span.count, span.length).sum(axis=1))
