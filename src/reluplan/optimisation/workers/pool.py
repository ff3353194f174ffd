"""Many small tasks at once: a few processes that stay alive between them."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeVar

from reluplan import clock
from reluplan.errors import OutOfTimeError, ReluplanError, SolverError
from reluplan.optimisation.model import Model
from reluplan.optimisation.settings import WorkerSettings
from reluplan.optimisation.solvers import SOLVERS, get_solver
from reluplan.optimisation.solvers.base import SolveOptions, SolveResult, StopReason
from reluplan.optimisation.workers.child import Child, give_back, take_child
from reluplan.optimisation.workers.supervisor import DEFAULT, Supervisor, as_error
from reluplan.optimisation.workers.worker import Answer, Call, Failure

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Job:
    """One model to solve, and how."""

    model: Model
    options: SolveOptions


class WorkerPool:
    """`worker_count` processes that solve models and call functions side by side; use it in a `with` block.

    A job whose process dies or fails ends without a solution and without a bound, its message says why; a call then
    ends with the error. The next one gets a new process. Ctrl-C stops everything and is raised.
    """

    def __init__(self, solver_name: str, worker_count: int, settings: WorkerSettings = DEFAULT) -> None:
        self.solver_name = solver_name
        SOLVERS.location(solver_name)  # what a child cannot find is an error now
        self._settings = settings
        self.worker_count = worker_count
        self._threads = ThreadPoolExecutor(worker_count)
        self._idle: list[Child] = []
        self._stopping = threading.Event()

    def __enter__(self) -> WorkerPool:
        return self

    def use(self, worker_count: int) -> None:
        """So many processes from now on; those that are no longer used stand idle. Not while others solve or call."""
        if worker_count != self.worker_count:
            self._threads.shutdown(wait=True)
            self._threads = ThreadPoolExecutor(worker_count)
            self.worker_count = worker_count

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        while self._idle:
            give_back(self._idle.pop(), is_free=True)

    def solve_all(
        self,
        jobs: Sequence[Job],
        on_result: Callable[[int, SolveResult], None] | None = None,
        deadline: float = math.inf,
    ) -> list[SolveResult]:
        """The results of the jobs, in their order; on_result is told of each (index, result) in the main thread.

        deadline: of clock.now, for all of them: what is left of the time is shared by the jobs that are left.
        """
        shares = _Shares(len(jobs), self.worker_count, deadline)
        if clock.is_counted():
            return self._solve_here(jobs, on_result or (lambda index, result: None), shares)
        futures = [self._threads.submit(self._solve, job, shares) for job in jobs]
        return self._collect(futures, on_result or (lambda index, result: None))

    def call_all(
        self, function: Callable[..., T], arguments: Sequence[tuple[object, ...]], deadline: float = math.inf
    ) -> list[T | ReluplanError]:
        """function(*a) for each a, in their order, or the error that it raised. It must be found by its name, and keep
        its deadlines by clock.now, which is the same clock in all processes. None is begun after the deadline."""
        if clock.is_counted():
            return [_call_here(function, a, deadline) for a in arguments]
        futures = [self._threads.submit(self._call, Call(function, a), deadline) for a in arguments]
        return self._collect(futures, lambda index, result: None)

    def _solve_here(
        self, jobs: Sequence[Job], on_result: Callable[[int, SolveResult], None], shares: _Shares
    ) -> list[SolveResult]:
        """One after the other in this process, whose clock counts their work."""
        results = []
        for index, job in enumerate(jobs):
            limit = min(job.options.time_limit, shares.take())
            try:
                results.append(get_solver(self.solver_name).solve(job.model, replace(job.options, time_limit=limit)))
            except ReluplanError as error:
                results.append(SolveResult.nothing(StopReason.FAILED, str(error)))
            on_result(index, results[-1])
        return results

    def _collect(self, futures: Sequence[Future[T]], on_result: Callable[[int, T], None]) -> list[T]:
        """The results in their order."""
        try:
            results = []
            for index, future in enumerate(futures):
                results.append(_wait(future, self._settings.call_poll_seconds))
                on_result(index, results[-1])
            return results
        except BaseException:  # Ctrl-C, or an error of the listener
            self._stopping.set()
            for future in futures:
                future.cancel()
            raise

    def _solve(self, job: Job, shares: _Shares) -> SolveResult:
        limit = min(job.options.time_limit, shares.take())
        if limit <= 0.0:
            return SolveResult.nothing(StopReason.TIME_LIMIT, "no time was left")
        options = replace(self._stoppable(job.options), time_limit=limit)
        supervisor = Supervisor(self._take_child(), self.solver_name, job.model, options, self._settings)
        try:
            return supervisor.run()
        except ReluplanError as error:
            return SolveResult.nothing(StopReason.FAILED, str(error))
        finally:
            self._give_back(supervisor.child, supervisor.is_free)

    def _call(self, call: Call, deadline: float) -> Any:
        if clock.now() > deadline:
            return OutOfTimeError("no time was left")
        child = self._take_child()
        child.send(call)
        message: object = None
        while message is None and not self._stopping.is_set():
            with suppress(queue.Empty):
                message = child.messages.get(timeout=self._settings.call_poll_seconds)
        self._give_back(child, isinstance(message, Answer | Failure))
        match message:
            case Answer():
                return message.value
            case Failure():
                return as_error(message)
        return SolverError("A worker process died")

    def _take_child(self) -> Child:
        with suppress(IndexError):  # none is idle
            child = self._idle.pop()
            if child.is_ready():
                return child
            child.end()
        return take_child()

    def _give_back(self, child: Child, is_free: bool) -> None:
        if is_free:
            child.mark_idle()
            self._idle.append(child)
        else:
            child.end()

    def _stoppable(self, options: SolveOptions) -> SolveOptions:
        asked = options.should_stop
        return replace(options, should_stop=lambda: self._stopping.is_set() or (asked is not None and asked()))


class _Shares:
    """The time until a deadline, for one job after the other."""

    def __init__(self, job_count: int, worker_count: int, deadline: float) -> None:
        self._left = job_count
        self._worker_count = worker_count
        self._deadline = deadline
        self._lock = threading.Lock()

    def take(self) -> float:
        """The seconds that the next job may take."""
        with self._lock:
            turns = math.ceil(self._left / self._worker_count)
            self._left -= 1
        return (self._deadline - clock.now()) / turns


def _call_here(function: Callable[..., T], arguments: tuple[object, ...], deadline: float) -> T | ReluplanError:
    """In this process, whose clock counts its work."""
    if clock.now() > deadline:
        return OutOfTimeError("no time was left")
    try:
        return function(*arguments)
    except ReluplanError as error:
        return error


def _wait(future: Future[T], poll_seconds: float) -> T:
    """Its result, waiting in turns, so that Ctrl-C gets through on every platform."""
    while True:
        with suppress(TimeoutError):
            return future.result(timeout=poll_seconds)
