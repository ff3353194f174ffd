"""The clock of every deadline, and the account of work by which tests measure what is done after one.

A deadline is a moment of `now()`: seconds of time.monotonic, which is the same clock in all processes. Code that works
towards one looks at the clock between pieces of work, and calls `spend` for each piece. The unit is one floating-point
operation, roughly; it costs nothing unless a `WorkClock` is in place (`using`), on which `now()` is the work spent so
far, in units of 1e9, about what a core does in a second. So a test sees, on any machine and under any load, how much
work a stage does after its deadline; and a run whose limits are counted in work ends alike on every machine
(`--deterministic`).

What is allowed after a deadline, with E the operations of one evaluation of the network (tests/test_limits.py):

    an LP                one simplex iteration, twice the size of its matrix; what it has not proven counts for nothing
    forward bounds       40 E: intervals of a step, or of declared boxes for all steps that are left; between the end of
                         the LPs and the last moment back-substitution, up to 100 E a step for two layers
    windows of bounds    8 rows through one step, 40 E; not begun if lines of all steps take a quarter of the time
    crown                one pass through the plan, 60 E a step; not begun if the turn is shorter than that
    LPs of a window      100 E; 1,000 E for propagation and 1,500 E for the reward cutoff of potentials, if a step's
                         model had begun
    model building       one step; `unroll` gives up as soon as it sees that the model cannot be ready in time
    potentials           1.5 SAMPLE_WORK: a batch of samples, a step's model, the LP of a pattern; potentials of zero
                         with the interval proof are always there
    search for plans     1.5 SEARCH_WORK: simulated plans, a gradient, a linear program
    decomposition        10 E, and the model of one window if it had begun
    grid                 two chunks of pairs of 2e8 each at most
    a whole method       1.5 SEARCH_WORK

Solvers run in processes of their own, and by the real clock: they are killed a little after their limit. Where work is
counted they run in this process, one after the other, and their callbacks count as work.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

IMPORTED = time.monotonic()
"""About when the process began: the package imports this module before anything heavy."""
OVERHEAD = 1e5
"""Of a piece of work in a run whose limits are counted in work, in operations: measured on small problems, about."""
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
    """Time is the work spent, in units of 1e9 operations. overhead: that each piece of work costs beside its own; small
    problems take more of it than of these."""

    operations: float = 0.0
    overhead: float = 0.0

    def now(self) -> float:
        return self.operations / OPERATIONS_PER_SECOND

    def spend(self, operations: float) -> None:
        self.operations += operations + self.overhead

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


def is_counted() -> bool:
    """Whether time is work, so that whoever waits for something else waits in vain."""
    return isinstance(_source, WorkClock)


def lp_limits(deadline: float, operations: float) -> tuple[float, int]:
    """Seconds and simplex iterations that an LP may take until a deadline; operations: of one iteration."""
    return _source.lp_limits(deadline, operations)


def expected(operations: float) -> float:
    """How long some work will take, about."""
    return operations / OPERATIONS_PER_SECOND


def command_started() -> float:
    """When the command began: with the process if that is `reluplan` or `python -m reluplan`, else now.

    On a busy machine the imports before the first line of a command take a second or two, which are the user's too.
    """
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    ours = spec.name.startswith("reluplan.") if spec is not None else Path(file or "").stem == "reluplan"
    return IMPORTED if ours else now()


def start_counting() -> None:
    """From now on time is work, in this process, which is a command with nothing else to do."""
    global _source
    _source = WorkClock(overhead=OVERHEAD)


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
        """The moment (of `now`) when this share of the remaining time is used up; the whole share is one moment."""
        if share >= 1.0:
            return max(now(), self.started + self.time_limit)
        return now() + share * self.remaining
