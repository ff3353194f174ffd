"""Time and threads of the grid's sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from reluplan import clock

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")


class OutOfTime(Exception):  # noqa: N818 (the expected end of a search, not an error)
    """The deadline has passed."""


@dataclass(frozen=True)
class Pace:
    """Until when (of clock.now) to work, and on which threads; numpy lets several run at once."""

    deadline: float
    pool: ThreadPoolExecutor | None = None

    def check(self) -> None:
        """Raise OutOfTime after the deadline."""
        if clock.now() > self.deadline:
            raise OutOfTime

    def map(self, function: Callable[[Job], Outcome], jobs: Iterable[Job]) -> Iterator[Outcome]:
        """function(job) for every job, in order, until the deadline."""

        def unless_late(job: Job) -> Outcome:
            self.check()
            return function(job)

        return map(unless_late, jobs) if self.pool is None else self.pool.map(unless_late, jobs)
