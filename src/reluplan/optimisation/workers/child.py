"""A child process that serves tasks, and the one that is kept idle for the next of them."""

from __future__ import annotations

import atexit
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import IO, Any

from reluplan.optimisation.workers.worker import receive, send
from reluplan.threads import one_matrix_thread


class Child:
    """A process that solves one model after another; what it sends waits in `messages`, an EOFError at its end.

    surroundings: what it has inherited from us. is_used: whether it has had a task before. is_whole: whether all that
    was sent to it was sent to the end; Ctrl-C may cut a message short, after which it understands nothing more.

    dies_with_us: also if it is paused when we are killed, and could not notice (on Linux). It is for children that are
    never kept: it would also die with the thread that started it.
    """

    def __init__(self, dies_with_us: bool = False) -> None:
        self.surroundings = _surroundings()
        self.is_used = False
        self.is_whole = True
        self.messages: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._errors = _file_for_errors()
        self._errors_before = 0
        self._process = _start_child(self._errors, dies_with_us)
        self._reader = threading.Thread(target=self._read_messages, daemon=True)
        self._reader.start()

    def send(self, message: object) -> None:
        """To a child that may be dead already; the reader finds that out."""
        was_whole = self.is_whole
        self.is_whole = False
        with suppress(OSError, ValueError):  # the other end is gone, or ours is closed
            send(_pipe(self._process.stdin), message)
            self.is_whole = was_whole

    def is_ready(self) -> bool:
        """Whether it lives, understands us, has nothing left to say, and inherited what a new one would inherit."""
        silent = self._process.poll() is None and self.messages.empty()
        return silent and self.is_whole and self.surroundings == _surroundings()

    def mark_idle(self) -> None:
        """Its task is done; what it wrote to stderr so far has nothing to do with the next."""
        self.is_used = True
        self._errors_before = os.fstat(self._errors.fileno()).st_size

    def how_it_ended(self) -> str:
        """Its exit code or signal, and the last line that it wrote to stderr during its task."""
        code = self._process.wait()
        cause = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        self._errors.seek(self._errors_before)
        last_line = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        return ": ".join([cause, *last_line])

    def pause(self) -> bool:
        """Let it stand still, if the system can do that; whether it does."""
        return self._signal("SIGSTOP")

    def resume(self) -> None:
        """Let it go on."""
        self._signal("SIGCONT")

    def _signal(self, name: str) -> bool:
        number = getattr(signal, name, None)
        if number is None or self._process.poll() is not None:
            return False
        self._process.send_signal(number)
        return True

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
        self._errors.close()

    def _read_messages(self) -> None:
        """Runs in a thread of its own, so that the main one can wait with a timeout on every platform."""
        stream = _pipe(self._process.stdout)
        try:
            while True:
                self.messages.put(receive(stream))
        except Exception as error:  # a closed pipe, or a pickle cut short by the child's death
            self.messages.put(EOFError(str(error)))


def _file_for_errors() -> IO[bytes]:
    """A temporary file, which needs no reader as a pipe does; where there is no room for one, nothing is kept."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "w+b")  # noqa: PTH123  (closed by its owner)


def _start_child(errors: IO[bytes], dies_with_us: bool) -> subprocess.Popen[bytes]:
    """A Python that imports what we import, in a session of its own, out of reach of the terminal's Ctrl-C.

    Not multiprocessing: its children import the main script again, which breaks scripts without a __main__ guard.
    """
    module = "reluplan.optimisation.workers.worker"
    code = f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; main({dies_with_us})"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,  # a buffer has a lock, which a fork would copy while our reader holds it
        stderr=errors,
        env=one_matrix_thread(),
        start_new_session=True,
    )


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
        child.mark_idle()
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
