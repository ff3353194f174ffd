"""The clock of every deadline, and the account of work by which tests measure what is done after one.

A deadline is a moment of `now()`: seconds of time.monotonic, which is the same clock in all processes. Code that works
towards one looks at the clock between pieces of work, and calls `spend` for each piece. The unit is one floating-point
operation, roughly; it costs nothing unless a test has put a `WorkClock` in place (`using`), on which `now()` is the
work spent so far, in units of 1e9, about what a core does in a second. So a test sees, on any machine and under any
load, how much work a stage does after its deadline.

What is allowed after a deadline, beside finishing the piece of work that had begun:

    forward bounds       intervals over one step of the network, or over declared bounds for all steps that are left
    LP bounds, sweeps    nothing: an LP ends at the deadline (by HiGHS's time limit), without a proof of its own
    model building       one step of the network; and `unroll` gives up as soon as what is left to do takes too long
    potentials           the interval proof, which holds for potentials of zero; one batch of samples (`SAMPLE_WORK`)
    search for plans     one batch of simulated plans, at most `SEARCH_WORK` of it
    pieces               one window's model
    grid                 the CROWN bounds of one chunk of pairs

Solvers run in processes of their own, and by the real clock: they are killed a little after their limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

OPERATIONS_PER_SECOND = 1e9
"""What a core does, with numpy's overhead on matrices of a usual size: an estimate, on the safe side."""
SAMPLE_WORK = 5e7
SEARCH_WORK = 3e8
"""Operations of one batch of samples for potentials, and of the search for plans after its deadline."""


class TimeSource(Protocol):
    """Something that tells the time."""

    def now(self) -> float: ...

    def spend(self, operations: float) -> None: ...

    def lp_limits(self, deadline: float, operations: float) -> tuple[float, int]: ...


class _RealClock:
    """Wall-clock time; work takes what it takes."""

    def now(self) -> float:
        return time.monotonic()

    def spend(self, operations: float) -> None:
        """Nobody counts."""

    def lp_limits(self, deadline: float, operations: float) -> tuple[float, int]:
        return max(0.0, deadline - time.monotonic()), _MOST_ITERATIONS


@dataclass
class WorkClock:
    """Time is the work spent, in units of 1e9 operations; for tests."""

    operations: float = 0.0

    def now(self) -> float:
        return self.operations / OPERATIONS_PER_SECOND

    def spend(self, operations: float) -> None:
        self.operations += operations

    def lp_limits(self, deadline: float, operations: float) -> tuple[float, int]:
        left = (deadline - self.now()) * OPERATIONS_PER_SECOND / max(1.0, operations)
        return math.inf, int(min(max(0.0, left), _MOST_ITERATIONS))


_MOST_ITERATIONS = 2**31 - 1
_source: TimeSource = _RealClock()


def now() -> float:
    """This moment."""
    return _source.now()


def spend(operations: float) -> None:
    """Account for work: about this many floating-point operations."""
    _source.spend(operations)


def lp_limits(deadline: float, operations: float) -> tuple[float, int]:
    """Seconds and simplex iterations that an LP may take until a deadline; operations: of one iteration."""
    return _source.lp_limits(deadline, operations)


def expected(operations: float) -> float:
    """How long some work will take, about."""
    return operations / OPERATIONS_PER_SECOND


@contextmanager
def using(source: TimeSource) -> Iterator[None]:
    """Another clock for a while; in this process only."""
    global _source
    before, _source = _source, source
    try:
        yield
    finally:
        _source = before


@dataclass
class Clock:
    """The time of the whole command."""

    time_limit: float = math.inf
    started: float = field(default_factory=now)

    @property
    def elapsed(self) -> float:
        return now() - self.started

    @property
    def remaining(self) -> float:
        return max(0.0, self.time_limit - self.elapsed)

    def deadline(self, share: float = 1.0) -> float:
        """The moment (of `now`) when this share of the remaining time is used up."""
        return now() + share * self.remaining
