"""Many small models at once: a few solver processes that stay alive between them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType

from reluplan.errors import ReluplanError
from reluplan.milp.model import Model
from reluplan.solvers import get_solver
from reluplan.solvers.base import SolveOptions, SolveResult, SolveStatus
from reluplan.solvers.isolated import Child, Supervisor

POLL_SECONDS = 0.1


@dataclass(frozen=True, eq=False)
class Job:
    """One model to solve, and how."""

    model: Model
    options: SolveOptions


class SolverPool:
    """`worker_count` processes that solve jobs side by side; use it in a `with` block.

    A job whose process dies or fails ends without a solution and without a bound, its message says why, and the next
    job gets a new process. Ctrl-C stops all jobs and is raised.
    """

    def __init__(self, solver_name: str, worker_count: int) -> None:
        self._solver_name = get_solver(solver_name).name
        self._threads = ThreadPoolExecutor(worker_count)
        self._idle: list[Child] = []
        self._stopping = threading.Event()

    def __enter__(self) -> SolverPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        while self._idle:
            self._idle.pop().end()

    def solve_all(
        self, jobs: Sequence[Job], on_result: Callable[[int, SolveResult], None] | None = None
    ) -> list[SolveResult]:
        """The results of the jobs, in their order; on_result is told of each (index, result) in the main thread."""
        futures = [self._threads.submit(self._solve, job) for job in jobs]
        try:
            return [self._await(i, future, on_result) for i, future in enumerate(futures)]
        except KeyboardInterrupt:
            self._stopping.set()
            for future in futures:
                future.cancel()
            raise

    def _await(
        self, index: int, future: Future[SolveResult], on_result: Callable[[int, SolveResult], None] | None
    ) -> SolveResult:
        while True:
            try:
                result = future.result(timeout=POLL_SECONDS)  # in turns, so that Ctrl-C gets through on every platform
            except TimeoutError:
                continue
            if on_result is not None:
                on_result(index, result)
            return result

    def _solve(self, job: Job) -> SolveResult:
        child = self._idle.pop() if self._idle else Child()
        supervisor = Supervisor(child, self._solver_name, job.model, self._stoppable(job.options))
        try:
            return supervisor.run()
        except ReluplanError as error:
            return SolveResult(SolveStatus.NO_SOLUTION, None, None, math.inf, 0.0, message=str(error))
        finally:
            if supervisor.is_free:
                self._idle.append(child)
            else:
                child.end()

    def _stoppable(self, options: SolveOptions) -> SolveOptions:
        asked = options.should_stop
        return replace(options, should_stop=lambda: self._stopping.is_set() or (asked is not None and asked()))
