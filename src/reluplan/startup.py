"""The ends of a command: Ctrl-C while it is still importing, in one line instead of a traceback, and leaving quickly.

Imports must not be interrupted by an exception, which some of them swallow and others turn into errors of their own.
Only the standard library is imported here, since this comes before everything else.
"""

from __future__ import annotations

import atexit
import math
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import NoReturn

INTERRUPTED_MESSAGE = "interrupted before there was anything to keep"
EXIT_INTERRUPTED = 3

BURST = 1.0
"""Signals within so many seconds after one are part of it."""


def exit_on_signals_during_imports() -> None:
    """Answer signals until `raise_on_signals`, if this process is the command `reluplan` and no one else's program."""
    if _IS_COMMAND:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means what it says
                signal.signal(number, _leave)


def raise_on_signals() -> None:
    """Everything is imported: from now on there may be something to clean up or to keep."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _leave:
            signal.signal(number, _interrupt)


def ignore_signals() -> None:
    """We are leaving: Python resets its handlers on the way out, and a signal then would change the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_IGN)


def leave_at_once(code: object) -> None:
    """End the process if it is the command, without taking apart a few thousand modules, which the user would wait for.

    What is to be done at the end is done: exit handlers run and streams are flushed. If a thread is still at work, or
    the streams cannot be flushed, this returns, and Python ends as usual.
    """
    if not (_IS_COMMAND and isinstance(code, int) and threading.active_count() == 1):
        return
    ignore_signals()
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    os.write(2, f"reluplan: {INTERRUPTED_MESSAGE}\n".encode())
    os._exit(EXIT_INTERRUPTED)


_interrupted_at = [-math.inf]


def _interrupt(number: int, frame: FrameType | None) -> None:
    """As Python does, but a burst of signals is one: the second must not hit whoever answers the first.

    Commands import what they need when they need it, and then there is nothing to keep yet either.
    """
    if _is_importing(frame):
        _leave(number, frame)
    now = time.monotonic()
    if now >= _interrupted_at[0] + BURST:
        _interrupted_at[0] = now
        raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__") != "importlib._bootstrap":
        frame = frame.f_back
    return frame is not None


def _is_command() -> bool:
    """Whether we were started as `reluplan ...` or `python -m reluplan ...`."""
    started = sys.orig_argv
    as_module = "-m" in started and started[started.index("-m") + 1 :][:1] == ["reluplan"]
    return as_module or os.path.basename(sys.argv[0] if sys.argv else "") in ("reluplan", "reluplan.exe")  # noqa: PTH119


_IS_COMMAND = _is_command()
"""Of the moment when the package was imported: a program that calls `main` may have put anything into sys.argv."""
