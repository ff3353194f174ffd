"""Threads that stop at a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from reluplan import clock

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")


class OutOfTime(Exception):  # noqa: N818 (the expected end of the refinement, not an error)
    """The deadline has passed."""


@dataclass
class TimedPool:
    """Until when (of clock.now) to work, and on which threads; numpy lets several run at once.

    Both change when the grid goes on after a pause; what was made before keeps its pool.
    """

    deadline: float
    threads: ThreadPoolExecutor | None = None

    def check(self) -> None:
        """Raise OutOfTime after the deadline."""
        if clock.now() > self.deadline:
            raise OutOfTime

    def map(self, function: Callable[[Job], Outcome], jobs: Iterable[Job]) -> Iterator[Outcome]:
        """function(job) for every job, in order, until the deadline."""

        def unless_late(job: Job) -> Outcome:
            self.check()
            return function(job)

        return map(unless_late, jobs) if self.threads is None else self.threads.map(unless_late, jobs)
