"""The child process of `IsolatedSolver` and `WorkerPool`: tasks come in on stdin, for each of them progress and one
result go out on stdout.

Messages are pickles, each after its length. The real stdin and stdout are moved out of the way first, so that nothing
a solver prints or reads can disturb them. The process ends when its stdin closes, that is, when its parent is gone.
"""

from __future__ import annotations

import ctypes
import math
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, BinaryIO

from reluplan.errors import ReluplanError, SolverError
from reluplan.optimisation.model import Model
from reluplan.optimisation.solvers import solver_at
from reluplan.optimisation.solvers.base import Array, SolveOptions, SolveResult


class Signal(Enum):
    """Messages without content."""

    STOP = "stop"
    BEGUN = "begun"
    """The first answer to each task: whoever dies before it has not died of the task."""


_LENGTH = struct.Struct("!Q")
_SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


@dataclass(frozen=True, eq=False)
class Task:
    """What to solve. `deadline` is in time.time(), so that the start-up of the child counts.

    solver_location: "module:attribute" of the solver, which may have been registered in the parent alone.
    """

    solver_name: str
    solver_location: str
    model: Model
    deadline: float
    gap: float
    threads: int
    seed: int
    warm_start: Array | None
    report_interval: float


@dataclass(frozen=True, eq=False)
class Call:
    """A function of ours to call; it is found by its name, as pickle does."""

    function: Callable[..., object]
    arguments: tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Answer:
    """What a call returned."""

    value: Any


@dataclass(frozen=True)
class Failure:
    """An error of the child, as text: exceptions with arguments of their own do not survive pickling."""

    kind: str
    message: str
    traceback: str


def send(stream: BinaryIO, message: object) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:  # an unbuffered stream may take a part at a time
        rest = rest[stream.write(rest) :]
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message; EOFError if the other side is gone, even in the middle of one."""
    (length,) = _LENGTH.unpack(_read(stream, _LENGTH.size))
    return pickle.loads(_read(stream, length))


def main(dies_with_parent: bool = False) -> None:
    """Serve one task after another, until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    if dies_with_parent:
        _die_with_parent()
    inbox, outbox = _claim_pipes()
    tasks: queue.SimpleQueue[Task | Call] = queue.SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(inbox, tasks, stop), daemon=True).start()
    with suppress(BrokenPipeError):
        while True:
            task = tasks.get()
            send(outbox, _call(task) if isinstance(task, Call) else _solve(task, outbox, stop))
    os._exit(0)  # not sys.exit: tearing a big solver down takes time that nobody needs


def _solve(task: Task, outbox: BinaryIO, stop: threading.Event) -> SolveResult | Failure:
    options = SolveOptions(
        time_limit=max(0.0, task.deadline - time.time()) if task.deadline < math.inf else math.inf,
        gap=task.gap,
        threads=task.threads,
        seed=task.seed,
        warm_start=task.warm_start,
        on_progress=lambda progress: send(outbox, progress),
        should_stop=stop.is_set,
        report_interval=task.report_interval,
    )
    send(outbox, Signal.BEGUN)
    try:
        return solver_at(task.solver_location).solve(task.model, options)
    except BrokenPipeError:
        raise
    except Exception as error:
        return _failure(error, f"The {task.solver_name} process failed")


def _call(call: Call) -> Answer | Failure:
    try:
        return Answer(call.function(*call.arguments))
    except Exception as error:
        return _failure(error, "A worker process failed")


def _failure(error: Exception, story: str) -> Failure:
    if isinstance(error, ReluplanError):
        return Failure(type(error).__name__, str(error), traceback.format_exc())
    return Failure(SolverError.__name__, f"{story}: {error!r}", traceback.format_exc())


def _die_with_parent() -> None:
    """Ask Linux to kill us when our parent is gone; a process that is paused cannot see that its pipe was closed."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _claim_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Our ends of the two pipes; afterwards stdin is empty and stdout goes where stderr goes."""
    inbox = os.fdopen(os.dup(0), "rb")
    outbox = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return inbox, outbox


def _listen(inbox: BinaryIO, tasks: queue.SimpleQueue[Task | Call], stop: threading.Event) -> None:
    """A stop is for the task before it; one that comes too late must not stop the next.

    At the end of the pipe, or if a message was cut short, nobody can tell us anything any more.
    """
    try:
        while True:
            message = receive(inbox)
            if message is Signal.STOP:
                stop.set()
            else:
                stop.clear()
                tasks.put(message)
    finally:
        os._exit(1)


def _read(stream: BinaryIO, length: int) -> bytes:
    """Exactly so many bytes; an unbuffered stream may give a part at a time."""
    parts = []
    while length > 0:
        part = stream.read(length)
        if not part:
            raise EOFError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
