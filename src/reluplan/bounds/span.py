"""Stretches of the horizon: one window of steps, or the same window many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """`count` windows of `length` steps (counted from 0), one after the other from step `first` on; or, with a stride,
    each that many steps after the one before.

    >>> list(Span(first=2, length=3, count=2).starts()), Span(first=2, length=3, count=2).end
    ([2, 5], 8)
    """

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


def with_last_apart(spans: Sequence[Span]) -> list[Span]:
    """The same windows, of which the last is not one of many.

    >>> with_last_apart([Span(0, 2), Span(2, 1, 3)])
    [Span(first=0, length=2, count=1, stride=None), Span(first=2, length=1, count=2, stride=None), \
Span(first=4, length=1, count=1, stride=None)]
    """
    *others, last = spans
    if last.count == 1:
        return [*others, last]
    first = last.starts()[-1]
    return [*others, Span(last.first, last.length, last.count - 1, last.stride), Span(first, last.length)]


def windows_ending_at(runs: Sequence[Span], length: int) -> list[Span]:
    """Windows of `length` steps that end at each step of the horizon, equal ones together; runs: of equal steps."""
    spans = []
    for run in runs:
        ends = range(run.first + 1, run.end + 1)
        spans += [Span(end - length, length) for end in ends[: length - 1] if end >= length]
        if run.count >= length:
            spans.append(Span(run.first, length, run.count - length + 1, stride=1))
    return spans
