"""The time of a search: slices, between which its work stands still and then goes on where it was."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from reluplan import clock

Result = TypeVar("Result")
Paused = Generator[None, None, Result]
"""Work that stands still whenever it yields, which it does when its slice is over, and returns a result in the end."""


def finish(work: Paused[Result]) -> Result:
    """Do all of some work at once, whatever its slice."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result


@dataclass
class Pace:
    """How long work takes here, learned from what was done."""

    seconds_per_operation: float = 1.0 / clock.OPERATIONS_PER_SECOND

    def expected(self, operations: float) -> float:
        """How long some work takes, about."""
        return operations * self.seconds_per_operation

    @contextmanager
    def measured(self, operations: float) -> Iterator[None]:
        """Learn from a piece of work: half of what is known is from the last one; twice as much from one given up."""
        began = clock.now()
        share = 1.0
        try:
            yield
            share = 0.5
        finally:
            found = (clock.now() - began) / max(1.0, operations)
            self.seconds_per_operation = share * (self.seconds_per_operation + found)


@dataclass
class TimeSlice:
    """Until when to work (of clock.now), and the paces of rollouts in float64 (exact) and in float32 (fast)."""

    deadline: float = math.inf
    began: float = -math.inf
    exact: Pace = field(default_factory=Pace)
    fast: Pace = field(default_factory=Pace)

    @property
    def over(self) -> bool:
        return clock.now() >= self.deadline

    @property
    def remaining(self) -> float:
        return max(0.0, self.deadline - clock.now())

    def begin(self, deadline: float) -> None:
        """A new slice."""
        self.began = clock.now()
        self.deadline = deadline

    def pause(self, seconds: float = 0.0) -> Paused[None]:
        """Stand still while the slice is over, or while what comes next would outlast it; what outlasts every slice
        runs all the same."""
        while self.over or self.remaining < seconds < self.deadline - self.began:
            yield

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """A part of the slice."""
        outer = self.deadline, self.began
        self.began = clock.now()
        self.deadline = min(self.deadline, self.began + seconds)
        try:
            yield
        finally:
            self.deadline, self.began = outer


@dataclass
class Stopwatch:
    """Seconds that some work has taken, without those in which it stood still."""

    seconds: float = 0.0

    def of(self, work: Paused[Result], most: float = math.inf) -> Paused[Result | None]:
        """The same work, measured; None if it took more than so many seconds, after which it is left as it is."""
        end = self.seconds + most
        while self.seconds <= end:
            began = clock.now()
            try:
                next(work)
            except StopIteration as over:
                result: Result = over.value
                return result
            finally:
                self.seconds += clock.now() - began
            yield
        return None
