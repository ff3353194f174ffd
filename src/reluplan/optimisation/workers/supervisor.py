"""Waits for one task of a child process, and makes a result of what it tells, whatever happens to it."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reluplan import errors
from reluplan.errors import ReluplanError, SolverError
from reluplan.interrupts import held
from reluplan.optimisation.model import Model
from reluplan.optimisation.settings import WorkerSettings
from reluplan.optimisation.solvers import SOLVERS
from reluplan.optimisation.solvers.adapter import status_of
from reluplan.optimisation.solvers.base import Progress, SolveOptions, SolveResult, StopReason
from reluplan.optimisation.workers.child import Child
from reluplan.optimisation.workers.worker import Failure, Signal, Task

DEFAULT = WorkerSettings()


class Supervisor:
    """One task of a child, and what the child has told so far. is_free: whether it can take another task after it.

    A used child that turns out to be dead before it has begun is replaced by a new one.
    """

    def __init__(
        self,
        child: Child,
        solver_name: str,
        model: Model,
        options: SolveOptions,
        settings: WorkerSettings = DEFAULT,
    ) -> None:
        self.is_free = False
        self.child = child
        self._has_begun = False
        self._solver_name = solver_name
        self._settings = settings
        self._model = model
        self._options = options
        self._started = time.monotonic()
        self._best = Progress(0.0, None, None, 0, 0)
        self._stop_reason: StopReason | None = None
        self._kill_at = math.inf

    def run(self) -> SolveResult:
        """Wait for the child, at most until its time is up."""
        result = self._unless_interrupted(self._hand_over)
        while result is None:
            result = self._unless_interrupted(lambda: self.look(self._settings.poll_seconds))
        return result

    def begin(self) -> None:
        """Hand the task over, and do not wait: `look` at it instead."""
        with held():
            self._hand_over()

    @property
    def has_messages(self) -> bool:
        """Whether the child has told something that was not looked at."""
        return not self.child.messages.empty()

    def _unless_interrupted(self, action: Callable[[], SolveResult | None]) -> SolveResult | None:
        """Do it, but let Ctrl-C ask the child to stop; a second Ctrl-C takes what there is.

        Where signals can be held back no message is lost or cut short by one.
        """
        result: SolveResult | None = None
        try:
            with held() as hold:
                result = action()
            if not hold.interrupted:
                return result
        except KeyboardInterrupt:
            pass
        if result is not None:
            return _stopped(result, StopReason.INTERRUPTED)
        if self._stop_reason is StopReason.INTERRUPTED:
            return self._give_up()
        self._ask_to_stop(StopReason.INTERRUPTED)
        return None

    def look(self, seconds: float) -> SolveResult | None:
        """Take one message, if there is one within so many seconds, then look at the clock and the hooks."""
        try:
            message = self.child.messages.get(timeout=max(seconds, 1e-4))
        except queue.Empty:
            message = None
        match message:
            case Signal.BEGUN:
                self._has_begun = True
            case Progress():
                self._pass_on(message)
            case SolveResult():
                return self._final(message)
            case Failure():
                self.is_free = self.child.is_whole
                return self._after_failure(message)
            case EOFError():
                return self._after_death()
        self._stop_if_due()
        return self._give_up() if time.monotonic() >= self._kill_at else None

    def _pass_on(self, progress: Progress) -> None:
        self._remember(progress)
        if self._options.on_progress is not None:
            self._options.on_progress(replace(progress, seconds=self._seconds()))

    def _remember(self, progress: Progress) -> None:
        """Keep what is new; the child reports better solutions and bounds only."""
        self._best = replace(
            progress,
            bound=progress.bound if progress.bound is not None else self._best.bound,
            margin=progress.margin if progress.bound is not None else self._best.margin,
            solution=progress.solution if progress.solution is not None else self._best.solution,
        )

    def _stop_if_due(self) -> None:
        if self._stop_reason is not None:
            return
        if self._options.should_stop is not None and self._options.should_stop():
            self._ask_to_stop(StopReason.STOPPED)
        elif self._seconds() >= self._options.time_limit:
            self._ask_to_stop(StopReason.TIME_LIMIT)

    def _ask_to_stop(self, reason: StopReason) -> None:
        grace = self._settings.stop_grace
        if reason is StopReason.TIME_LIMIT:
            grace = self._settings.grace_after(self._options.time_limit)
        self._stop_reason = reason
        self._kill_at = time.monotonic() + grace
        self.child.send(Signal.STOP)

    def _final(self, result: SolveResult) -> SolveResult:
        self.is_free = self.child.is_whole
        result = replace(result, seconds=self._seconds())
        return result if self._stop_reason is None else _stopped(result, self._stop_reason)

    def _give_up(self) -> SolveResult:
        """Wait no longer, but take what has arrived and was not looked at yet, such as during a slow hook."""
        while not self.child.messages.empty():
            message = self.child.messages.get()
            if isinstance(message, Progress):
                self._remember(message)
            elif isinstance(message, SolveResult):
                return self._final(message)
        return self._result_so_far()

    def _result_so_far(self) -> SolveResult:
        """What the child had told before it was given up."""
        best = self._best
        reason = self._stop_reason or StopReason.FAILED
        objective = None if best.solution is None else self._model.value(best.solution)
        bound = math.inf if best.bound is None else best.bound
        return SolveResult(
            status=status_of(objective, bound, self._options.gap),
            solution=best.solution,
            objective=objective,
            dual_bound=bound,
            seconds=self._seconds(),
            open_nodes=best.open_nodes,
            closed_nodes=best.closed_nodes,
            message=reason.value,
            margin=best.margin,
            stop_reason=reason,
        )

    def _after_failure(self, failure: Failure) -> SolveResult:
        """The child ended with an error instead of a result."""
        if not self._has_reported():
            raise as_error(failure)
        story = f"The {self._solver_name} process failed; this is what it had found. {failure.message}"
        return self._result_so_far() if self._stop_reason is StopReason.INTERRUPTED else self._failed(story)

    def _after_death(self) -> SolveResult | None:
        """The child is gone without a result."""
        if self._stop_reason is not None:
            return self._result_so_far()
        if self.child.is_used and not self._has_begun:  # it died of something else, while it was waiting for us
            self.child.end()
            self.child = Child()
            return self._hand_over()
        story = f"The {self._solver_name} process died ({self.child.how_it_ended()})"
        if not self._has_reported():
            raise SolverError(f"{story} before it found a solution or a bound. Try another solver with --solver.")
        return self._failed(f"{story}; this is what it had found.")

    def _failed(self, story: str) -> SolveResult:
        return replace(self._result_so_far(), message=story, stop_reason=StopReason.FAILED)

    def _has_reported(self) -> bool:
        return self._best.solution is not None or self._best.bound is not None

    def _hand_over(self) -> SolveResult | None:
        options = self._options
        deadline = time.time() + options.time_limit - self._seconds()
        self.child.send(
            Task(
                solver_name=self._solver_name,
                solver_location=SOLVERS.location(self._solver_name),
                model=self._model,
                deadline=deadline,
                gap=options.gap,
                threads=options.threads,
                seed=options.seed,
                warm_start=options.warm_start,
                report_interval=options.report_interval,
            )
        )
        return None

    def _seconds(self) -> float:
        return time.monotonic() - self._started


def _stopped(result: SolveResult, reason: StopReason) -> SolveResult:
    """The result of a solve that was cut short for this reason."""
    return replace(result, message=reason.value, stop_reason=reason)


def as_error(failure: Failure) -> ReluplanError:
    """The exception that a child met, as one of ours."""
    kind: Any = getattr(errors, failure.kind, SolverError)
    error: ReluplanError = kind.__new__(kind, failure.message)  # not its __init__, which may want other arguments
    error.add_note(f"In the child process:\n{failure.traceback}")
    return error
