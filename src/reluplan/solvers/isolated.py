"""A solver in a process of its own, which can be stopped, killed or crash without harm to ours."""

from __future__ import annotations

import math
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import IO, Any

from reluplan import errors
from reluplan.errors import ReluplanError, SolverError
from reluplan.milp.model import Model
from reluplan.solvers import get_solver
from reluplan.solvers.adapter import status_of
from reluplan.solvers.base import Progress, SolveOptions, SolveResult
from reluplan.solvers.isolated_worker import STOP, Failure, Task, receive, send
from reluplan.solvers.monitor import INTERRUPTED, STOPPED, TIME_LIMIT

POLL_SECONDS = 0.05

STOP_GRACE = 2.0
"""Seconds between asking a child to stop and killing it. It loses little: its best solution and bound are here."""

LIMIT_GRACE, LIMIT_GRACE_SHARE, LONGEST_LIMIT_GRACE = 1.0, 0.05, 10.0
"""The same at the time limit (half of it if that is less), with a share of it: SCIP tells its bound only when it
returns if the root LP was not done, and may need a second to get there."""


class IsolatedSolver:
    """The adapter `inner_name`, run in a child process; the same interface and the same results.

    The time limit is kept even if the solver ignores it: the child is killed, and what it had reported until then, its
    best solution and its proven bound, is the result. So it is after a crash or an error in the child, which `message`
    then tells; only before anything was reported do they raise. Ctrl-C is not raised: it ends the solve, with message
    "interrupted" in the result; a second Ctrl-C does not wait for the child.
    """

    def __init__(self, inner_name: str) -> None:
        self.name = get_solver(inner_name).name

    def version(self) -> str:
        return get_solver(self.name).version()

    def solve(self, model: Model, options: SolveOptions) -> SolveResult:
        child = Child()
        try:
            return Supervisor(child, self.name, model, options).run()
        finally:
            child.end()


class Child:
    """A process that solves one model after another; what it sends waits in `messages`, an EOFError at its end."""

    def __init__(self) -> None:
        self.messages: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `end`)
        self._process = _start_child(self._complaints)
        self._reader = threading.Thread(target=self._read_messages, daemon=True)
        self._reader.start()

    def send(self, message: object) -> None:
        """To a child that may be dead already; the reader finds that out."""
        with suppress(OSError):
            send(_pipe(self._process.stdin), message)

    def cause_of_death(self) -> str:
        code = self._process.wait()
        cause = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        self._complaints.seek(0)
        last_words = self._complaints.read().decode(errors="replace").strip().splitlines()[-1:]
        return ": ".join([cause, *last_words])

    def end(self) -> None:
        """Kill it; it has nothing to lose."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # the rest of a message that nobody reads any more
                _pipe(pipe).close()
        self._complaints.close()

    def _read_messages(self) -> None:
        """Runs in a thread of its own, so that the main one can wait with a timeout on every platform."""
        stream = _pipe(self._process.stdout)
        try:
            while True:
                self.messages.put(receive(stream))
        except Exception as error:  # a closed pipe, or a pickle cut short by the child's death
            self.messages.put(EOFError(str(error)))


class Supervisor:
    """One task of a child, and what the child has told so far. is_free: whether it can take another task after it."""

    def __init__(self, child: Child, solver_name: str, model: Model, options: SolveOptions) -> None:
        self.is_free = False
        self._child = child
        self._messages = child.messages
        self._solver_name = solver_name
        self._model = model
        self._options = options
        self._started = time.monotonic()
        self._best = Progress(0.0, None, None, 0, 0)
        self._stop_reason = ""
        self._kill_at = math.inf

    def run(self) -> SolveResult:
        """Wait for the child, at most until its time is up."""
        result = self._unless_interrupted(self._hand_over)
        while result is None:
            result = self._unless_interrupted(self._step)
        return result

    def _unless_interrupted(self, action: Callable[[], SolveResult | None]) -> SolveResult | None:
        """Do it, but let Ctrl-C ask the child to stop; a second Ctrl-C takes what there is."""
        try:
            return action()
        except KeyboardInterrupt:
            if self._stop_reason == INTERRUPTED:
                return self._give_up()
            self._ask_to_stop(INTERRUPTED)
            return None

    def _step(self) -> SolveResult | None:
        """Take one message, if there is one, then look at the clock and the hooks."""
        try:
            message = self._messages.get(timeout=POLL_SECONDS)
        except queue.Empty:
            message = None
        match message:
            case Progress():
                self._pass_on(message)
            case SolveResult():
                return self._final(message)
            case Failure():
                self.is_free = True
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
            solution=progress.solution if progress.solution is not None else self._best.solution,
        )

    def _stop_if_due(self) -> None:
        if self._stop_reason:
            return
        if self._options.should_stop is not None and self._options.should_stop():
            self._ask_to_stop(STOPPED)
        elif self._seconds() >= self._options.time_limit:
            self._ask_to_stop(TIME_LIMIT)

    def _ask_to_stop(self, reason: str) -> None:
        grace = STOP_GRACE
        if reason == TIME_LIMIT:
            limit = self._options.time_limit
            grace = min(LIMIT_GRACE, 0.5 * limit) + min(LIMIT_GRACE_SHARE * limit, LONGEST_LIMIT_GRACE)
        self._stop_reason = reason
        self._kill_at = time.monotonic() + grace
        self._child.send(STOP)

    def _final(self, result: SolveResult) -> SolveResult:
        self.is_free = True
        return replace(result, seconds=self._seconds(), message=self._stop_reason or result.message)

    def _give_up(self) -> SolveResult:
        """Wait no longer, but take what has arrived and was not looked at yet, such as during a slow hook."""
        while not self._messages.empty():
            message = self._messages.get()
            if isinstance(message, Progress):
                self._remember(message)
            elif isinstance(message, SolveResult):
                return self._final(message)
        return self._result_so_far()

    def _result_so_far(self) -> SolveResult:
        """What the child had told before it was given up."""
        best = self._best
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
            message=self._stop_reason,
        )

    def _after_failure(self, failure: Failure) -> SolveResult:
        """The child ended with an error instead of a result."""
        if not self._has_reported():
            raise as_error(failure)
        story = f"The {self._solver_name} process failed; this is what it had found. {failure.message}"
        return replace(self._result_so_far(), message=INTERRUPTED if self._stop_reason == INTERRUPTED else story)

    def _after_death(self) -> SolveResult:
        """The child is gone without a result."""
        if self._stop_reason:
            return self._result_so_far()
        story = f"The {self._solver_name} process died ({self._child.cause_of_death()})"
        if not self._has_reported():
            raise SolverError(f"{story} before it found a solution or a bound. Try another solver with --solver.")
        return replace(self._result_so_far(), message=f"{story}; this is what it had found.")

    def _has_reported(self) -> bool:
        return self._best.solution is not None or self._best.bound is not None

    def _hand_over(self) -> SolveResult | None:
        options = self._options
        deadline = time.time() + options.time_limit
        self._child.send(
            Task(
                solver_name=self._solver_name,
                model=self._model,
                deadline=deadline,
                gap=options.gap,
                threads=options.threads,
                seed=options.seed,
                start=options.start,
            )
        )
        return None

    def _seconds(self) -> float:
        return time.monotonic() - self._started


def _start_child(complaints: IO[bytes]) -> subprocess.Popen[bytes]:
    """A Python that imports what we import, in a session of its own, out of reach of the terminal's Ctrl-C.

    Not multiprocessing: its children import the main script again, which breaks scripts without a __main__ guard.
    """
    code = f"import sys; sys.path[:] = {sys.path!r}; from reluplan.solvers.isolated_worker import main; main()"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints,
        start_new_session=True,
    )


def as_error(failure: Failure) -> ReluplanError:
    """The exception that a child met, as one of ours."""
    kind: Any = getattr(errors, failure.kind, SolverError)
    error: ReluplanError = kind.__new__(kind, failure.message)  # not its __init__, which may want other arguments
    error.add_note(f"In the child process:\n{failure.traceback}")
    return error


def _pipe(stream: IO[bytes] | None) -> Any:
    assert stream is not None
    return stream
