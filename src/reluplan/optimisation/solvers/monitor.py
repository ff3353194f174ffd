"""Watches one solve from inside the solver's callbacks: the clock, the caller's hooks, Ctrl-C."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

from reluplan import clock
from reluplan.interrupts import Hold, held
from reluplan.optimisation.model import Model
from reluplan.optimisation.solvers.base import Array, Progress, SolveOptions, StopReason

VISIT_ITERATIONS = 300
"""What a solver does between two callbacks, in iterations of the simplex method: measured with HiGHS, about."""


class Snapshot(NamedTuple):
    """What a solver tells in a callback; the bound is proven and in the sense of the maximisation."""

    bound: float = math.inf
    open_nodes: int = 0
    closed_nodes: int = 0
    solution: Array | None = None


class Monitor:
    """One per solve. Adapters call `visit` from every callback and stop the solver when it returns True.

    What a hook raises is kept and raised again by `raise_error` after the solver has returned: no solver passes
    exceptions through its own code reliably, SCIP even swallows them.
    """

    def __init__(self, model: Model, options: SolveOptions) -> None:
        self._model = model
        self._options = options
        self._started = clock.now()
        self._next_report = -math.inf
        self._error: BaseException | None = None
        self._bound = math.inf
        self._lock = threading.RLock()  # CPLEX calls back from several threads at once
        self._interrupted = False
        self._hold = Hold()
        self.incumbent = -math.inf
        self.stop_reason: StopReason | None = None

    def seconds(self) -> float:
        """Since the solve began, by the clock of deadlines."""
        return clock.now() - self._started

    def remaining(self) -> float:
        """Seconds left of the time limit, never negative."""
        return max(0.0, self._options.time_limit - self.seconds())

    @property
    def solver_limit(self) -> float:
        """The time limit to give to the solver, which knows the real clock only."""
        return math.inf if clock.is_counted() else self.remaining()

    def visit(self, look: Callable[[], Snapshot], *, fresh: bool = False) -> bool:
        """One callback: report what `look` sees if a report is due or the incumbent is `fresh`; True means stop."""
        clock.spend(VISIT_ITERATIONS * 2.0 * self._model.matrix.nnz)
        with self._lock:
            if self.stop_reason is None:
                try:
                    self._report(look, fresh)
                    self.stop_reason = self._reason_to_stop()
                except BaseException as error:
                    self._error = error
                    self.stop_reason = StopReason.FAILED
            return self.stop_reason is not None

    def improves(self, value: float) -> bool:
        """Whether an objective value beats every incumbent reported so far by more than rounding."""
        return value - self.incumbent > 1e-9 * max(1.0, abs(value))

    def raise_error(self) -> None:
        """Raise what a hook raised during the solve, if anything."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def catching_interrupts(self) -> Iterator[None]:
        """Turn Ctrl-C into a stop while the solver runs, where Python's own handler would raise inside a callback.

        A handler that the application installed is left alone, and so is every thread but the main one. One that
        keeps results holds its signals back; what came too late to stop the solver is raised after it.
        """
        with held() as self._hold:
            yield from self._catching_ctrl_c()
        if self._hold.interrupted and self.stop_reason is not StopReason.INTERRUPTED:
            raise KeyboardInterrupt

    def _catching_ctrl_c(self) -> Iterator[None]:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._note_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._interrupted = True

    def _reason_to_stop(self) -> StopReason | None:
        if self._interrupted or self._hold.interrupted:
            return StopReason.INTERRUPTED
        if self._options.should_stop is not None and self._options.should_stop():
            return StopReason.STOPPED
        return StopReason.TIME_LIMIT if self.remaining() <= 0.0 else None

    def _report(self, look: Callable[[], Snapshot], fresh: bool) -> None:
        on_progress = self._options.on_progress
        if on_progress is None or not (fresh or self.seconds() >= self._next_report):
            return
        snapshot = look()
        solution = self._improving(snapshot.solution)
        if solution is None and self.seconds() < self._next_report:
            return
        self._bound = min(self._bound, snapshot.bound)
        self._next_report = self.seconds() + self._options.report_interval
        on_progress(
            Progress(
                seconds=self.seconds(),
                incumbent=self.incumbent if self.incumbent > -math.inf else None,
                bound=self._bound if self._bound < math.inf else None,
                open_nodes=snapshot.open_nodes,
                closed_nodes=snapshot.closed_nodes,
                solution=solution,
            )
        )

    def _improving(self, solution: Array | None) -> Array | None:
        """The solution if it is news; solvers also announce equal ones."""
        if solution is None:
            return None
        value = self._model.value(solution)
        if not self.improves(value):
            return None
        self.incumbent = value
        return solution
