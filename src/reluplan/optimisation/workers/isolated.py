"""A solver in a process of its own, which can be stopped, killed or crash without harm to ours."""

from __future__ import annotations

import atexit
import math
import os
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
from reluplan.interrupts import held
from reluplan.optimisation.model import Model
from reluplan.optimisation.solvers import get_solver
from reluplan.optimisation.solvers.adapter import status_of
from reluplan.optimisation.solvers.base import Progress, SolveOptions, SolveResult
from reluplan.optimisation.solvers.monitor import INTERRUPTED, STOPPED, TIME_LIMIT
from reluplan.optimisation.workers.worker import BEGUN, STOP, Failure, Task, receive, send

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
    "interrupted" in the result; a second Ctrl-C does not wait for the child. A child that did its work well is kept for
    the next solve of this process, which saves half a second of imports.
    """

    def __init__(self, inner_name: str) -> None:
        self.name = get_solver(inner_name).name

    def version(self) -> str:
        return get_solver(self.name).version()

    def solve(self, model: Model, options: SolveOptions) -> SolveResult:
        supervisor = Supervisor(take_child(), self.name, model, options)
        try:
            return supervisor.run()
        finally:
            give_back(supervisor.child, supervisor.is_free)


class Child:
    """A process that solves one model after another; what it sends waits in `messages`, an EOFError at its end.

    surroundings: what it has inherited from us. is_used: whether it has had a task before. is_whole: whether all that
    was sent to it was sent to the end; Ctrl-C may cut a message short, after which it understands nothing more.
    """

    def __init__(self) -> None:
        self.surroundings = _surroundings()
        self.is_used, self.is_whole = False, True
        self.messages: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._complaints = _file_for_complaints()
        self._complaints_before = 0
        self._process = _start_child(self._complaints)
        self._reader = threading.Thread(target=self._read_messages, daemon=True)
        self._reader.start()

    def send(self, message: object) -> None:
        """To a child that may be dead already; the reader finds that out."""
        was_whole, self.is_whole = self.is_whole, False
        with suppress(OSError, ValueError):  # the other end is gone, or ours is closed
            send(_pipe(self._process.stdin), message)
            self.is_whole = was_whole

    def is_ready(self) -> bool:
        """Whether it lives, understands us, has nothing left to say, and inherited what a new one would inherit."""
        silent = self._process.poll() is None and self.messages.empty()
        return silent and self.is_whole and self.surroundings == _surroundings()

    def rest(self) -> None:
        """Its task is done; what it complained about so far has nothing to do with the next."""
        self.is_used = True
        self._complaints_before = os.fstat(self._complaints.fileno()).st_size

    def cause_of_death(self) -> str:
        code = self._process.wait()
        cause = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        self._complaints.seek(self._complaints_before)
        last_words = self._complaints.read().decode(errors="replace").strip().splitlines()[-1:]
        return ": ".join([cause, *last_words])

    def end(self) -> None:
        """Kill it; it has nothing to lose."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._close()

    def disown(self) -> None:
        """In a process that was forked: the child is our parent's, and must end with it, so we let go of its pipes."""
        self._process.returncode = 0  # not ours to wait for
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
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
    """One task of a child, and what the child has told so far. is_free: whether it can take another task after it.

    A used child that turns out to be dead before it has begun is replaced by a new one.
    """

    def __init__(self, child: Child, solver_name: str, model: Model, options: SolveOptions) -> None:
        self.is_free = False
        self.child = child
        self._has_begun = False
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
            return replace(result, message=INTERRUPTED)
        if self._stop_reason == INTERRUPTED:
            return self._give_up()
        self._ask_to_stop(INTERRUPTED)
        return None

    def _step(self) -> SolveResult | None:
        """Take one message, if there is one, then look at the clock and the hooks."""
        try:
            message = self.child.messages.get(timeout=POLL_SECONDS)
        except queue.Empty:
            message = None
        match message:
            case str():
                self._has_begun = self._has_begun or message == BEGUN
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
        self.child.send(STOP)

    def _final(self, result: SolveResult) -> SolveResult:
        self.is_free = self.child.is_whole
        return replace(result, seconds=self._seconds(), message=self._stop_reason or result.message)

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
            margin=best.margin,
        )

    def _after_failure(self, failure: Failure) -> SolveResult:
        """The child ended with an error instead of a result."""
        if not self._has_reported():
            raise as_error(failure)
        story = f"The {self._solver_name} process failed; this is what it had found. {failure.message}"
        return replace(self._result_so_far(), message=INTERRUPTED if self._stop_reason == INTERRUPTED else story)

    def _after_death(self) -> SolveResult | None:
        """The child is gone without a result."""
        if self._stop_reason:
            return self._result_so_far()
        if self.child.is_used and not self._has_begun:  # it died of something else, while it was waiting for us
            self.child.end()
            self.child = Child()
            return self._hand_over()
        story = f"The {self._solver_name} process died ({self.child.cause_of_death()})"
        if not self._has_reported():
            raise SolverError(f"{story} before it found a solution or a bound. Try another solver with --solver.")
        return replace(self._result_so_far(), message=f"{story}; this is what it had found.")

    def _has_reported(self) -> bool:
        return self._best.solution is not None or self._best.bound is not None

    def _hand_over(self) -> SolveResult | None:
        options = self._options
        deadline = time.time() + options.time_limit - self._seconds()
        self.child.send(
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


def _file_for_complaints() -> IO[bytes]:
    """A temporary file, which needs no reader as a pipe does; where there is no room for one, nothing is kept."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "w+b")  # noqa: PTH123  (closed by its owner)


def _start_child(complaints: IO[bytes]) -> subprocess.Popen[bytes]:
    """A Python that imports what we import, in a session of its own, out of reach of the terminal's Ctrl-C.

    Not multiprocessing: its children import the main script again, which breaks scripts without a __main__ guard.
    """
    code = f"import sys; sys.path[:] = {sys.path!r}; from reluplan.optimisation.workers.worker import main; main()"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,  # a buffer has a lock, which a fork would copy while our reader holds it
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


_idle: list[Child] = []
"""At most one child that waits for the next task of this process."""

_idle_lock = threading.Lock()


def take_child() -> Child:
    """The idle child if there is one that is as good as new, or else a new one."""
    with _idle_lock:
        child = _idle.pop() if _idle else None
    if child is not None and child.is_ready():
        return child
    if child is not None:
        child.end()
    return Child()


def give_back(child: Child, is_free: bool) -> None:
    """Keep a child that is free for the next `take_child`, if there is none yet; or else end it."""
    if is_free:
        child.rest()
        with _idle_lock:
            if not _idle:
                _idle.append(child)
                return
    child.end()


def end_idle_child() -> None:
    """At our exit, where it would notice by itself, but later."""
    with _idle_lock:
        child = _idle.pop() if _idle else None
    if child is not None:
        child.end()


def _forget_idle_child() -> None:
    """After a fork, in the new process: the idle child is the old one's, and so is perhaps the lock."""
    global _idle_lock
    _idle_lock = threading.Lock()
    while _idle:
        _idle.pop().disown()


def _surroundings() -> tuple[list[str], dict[str, str], str]:
    """What a child inherits when it starts: where it looks for modules, the environment and the working folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    try:
        return list(sys.path), environment, os.getcwd()  # noqa: PTH109  (faster, and only compared)
    except FileNotFoundError:
        return list(sys.path), environment, ""


atexit.register(end_idle_child)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_idle_child)
