"""Windows of the horizon: some of its steps, as a small planning problem of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.interval import uncrossed
from reluplan.bounds.reachability import HorizonBounds
from reluplan.encoding.unroll import PlanModel, unroll
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]
STATE_FIELDS = ("state_lower", "state_upper", "auxiliary_lower", "auxiliary_upper")
"""The fields of HorizonBounds with one entry more than there are steps."""


@dataclass(frozen=True)
class Span:
    """`count` windows of `length` steps (counted from 0), one after the other from step `first` on; or, with a stride,
    each that many steps after the one before."""

    first: int
    length: int
    count: int = 1
    stride: int | None = None

    @property
    def end(self) -> int:
        return self.starts()[-1] + self.length

    def starts(self) -> range:
        """The first step of each window."""
        stride = self.length if self.stride is None else self.stride
        return range(self.first, self.first + stride * self.count, stride)


def equal_steps(bounds: HorizonBounds) -> list[Span]:
    """Runs of consecutive steps whose boxes are equal, so that one computation serves them all."""
    names = [f.name for f in dataclasses.fields(bounds) if not f.name.startswith("auxiliary")]
    parts = [getattr(bounds, name)[: bounds.horizon] for name in names]
    same = np.all([(part[1:] == part[:-1]).all(axis=1) for part in parts], axis=0)
    starts = [0, *(1 + np.flatnonzero(~same)).tolist()]
    return [Span(a, 1, b - a) for a, b in zip(starts, [*starts[1:], bounds.horizon], strict=True)]


def windows_ending_at(runs: Sequence[Span], length: int) -> list[Span]:
    """Windows of `length` steps that end at each step of the horizon, equal ones together; runs: of equal steps."""
    spans = []
    for run in runs:
        ends = range(run.first + 1, run.end + 1)
        spans += [Span(end - length, length) for end in ends[: length - 1] if end >= length]
        if run.count >= length:
            spans.append(Span(run.first, length, run.count - length + 1, stride=1))
    return spans


@dataclass(frozen=True, eq=False)
class Window:
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


def cut_window(problem: Problem, bounds: HorizonBounds, span: Span) -> Window:
    """The window of a problem, which begins anywhere in its first box.

    Only the first window starts at I, and only one that ends at the horizon knows G: G cuts plans at the last step
    alone, so a window that is repeated, or ends earlier, must do without it.
    """
    hull = window_hull(bounds, span)
    is_first, is_last = span.first == 0 and span.count == 1, span.end == problem.horizon and span.count == 1
    window = problem.part(
        span.length,
        hull.state_lower[0],
        hull.state_upper[0],
        keeps_initial_rows=is_first,
        goal=problem.goal if is_last else (),
    )
    return Window(span, window, hull)


def window_hull(bounds: HorizonBounds, span: Span) -> HorizonBounds:
    """The smallest boxes that contain each of a span's windows, offset by offset."""

    def hull(name: str) -> Array:
        values: Array = getattr(bounds, name)
        width = span.length + (name in STATE_FIELDS)
        if span.count == 1:
            return values[span.first : span.first + width].copy()
        windows = values[np.array(span.starts())[:, None] + np.arange(width)]
        return np.asarray(windows.min(axis=0) if name.endswith("lower") else windows.max(axis=0))

    return HorizonBounds(*(hull(field.name) for field in dataclasses.fields(HorizonBounds)))


def narrow(bounds: HorizonBounds, spans: Sequence[Span], found: Sequence[HorizonBounds]) -> HorizonBounds:
    """The bounds, intersected with what was found for each span's windows."""
    narrowed = copied(bounds)
    for span, window in zip(spans, found, strict=True):
        narrow_in_place(narrowed, span, window)
    return narrowed


def copied(bounds: HorizonBounds) -> HorizonBounds:
    """The same bounds in arrays of their own."""
    return HorizonBounds(*(getattr(bounds, field.name).copy() for field in dataclasses.fields(bounds)))


def narrow_in_place(bounds: HorizonBounds, span: Span, window: HorizonBounds) -> None:
    """Intersect the bounds of each of a span's windows with those found for one."""
    starts = np.array(span.starts())
    for name in (field.name.removesuffix("_lower") for field in dataclasses.fields(bounds) if "lower" in field.name):
        lower, upper = getattr(bounds, f"{name}_lower"), getattr(bounds, f"{name}_upper")
        new_lower, new_upper = getattr(window, f"{name}_lower"), getattr(window, f"{name}_upper")
        for offset in range(len(new_lower)):  # windows may overlap, but not at the same offset
            steps = starts + offset
            low, high = np.maximum(lower[steps], new_lower[offset]), np.minimum(upper[steps], new_upper[offset])
            lower[steps], upper[steps] = uncrossed(low, high)
