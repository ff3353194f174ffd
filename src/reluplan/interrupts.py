"""Ctrl-C and SIGTERM while there is something to keep: the work ends, and what it found is written and shown.

A command installs a `SignalHandler`. From then on a signal raises KeyboardInterrupt only inside `interruptible()`,
which the long loops of the library enter and which stands inside the `try` that catches it; everywhere else a signal
waits. So one that comes while the result is put together, written or shown does no harm, however often it comes.

Without one, as in a user's own script, all of this does nothing and Python's own handler is in charge.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

RAISE_AGAIN_AFTER = 3.0
"""Seconds after which another signal is raised anew: stopping takes a moment, but nothing may take for ever."""

IGNORED_AFTER_WRITING = 1.0
"""Seconds after the files are written in which signals are ignored, so that the result is shown."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Hold:
    """Whether a signal came while signals were held back."""

    interrupted: bool = False


@dataclass
class SignalHandler:
    """Answers both signals. depth: how many `interruptible` blocks we are in; pending: a signal waits for one."""

    depth: int = 0
    pending: bool = False
    hold: Hold | None = None
    raised_at: float | None = None
    written_at: float | None = None
    done: bool = False
    _noticed: bool = field(default=False, repr=False)

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        """Answer a signal."""
        if not self._is_due():
            self.pending = self.pending or self.depth == 0
            self._notice()
            return
        self.raised_at = time.monotonic()
        if self.hold is not None:
            self.hold.interrupted = True
        else:
            raise KeyboardInterrupt

    def files_written(self) -> None:
        """The files are written: what is left is to show them, which may hang in a pipe that nobody reads."""
        self.written_at = time.monotonic()

    def finished(self) -> None:
        """All is done but leaving, which takes a moment and must not change the exit code."""
        self.done = True

    def _is_due(self) -> bool:
        now = time.monotonic()
        if self.done:
            return False
        if self.written_at is not None:
            return now >= self.written_at + IGNORED_AFTER_WRITING
        return self.depth > 0 and (self.raised_at is None or now >= self.raised_at + RAISE_AGAIN_AFTER)

    def _notice(self) -> None:
        """Once, to whoever is pressing the keys; not with print, which may be what was interrupted."""
        if not self._noticed and sys.stderr is not None and sys.stderr.isatty():
            self._noticed = True
            os.write(2, b"\nreluplan: stopping; what was found will be written\n")


_handlers: list[SignalHandler] = []
"""The handler in charge, if there is one."""


@contextmanager
def handling_signals() -> Iterator[SignalHandler]:
    """Put a handler in charge of both signals, but of none that we were started to ignore, as under nohup.

    For commands: once the result is shown the signals stay ignored, since there is nothing left but to exit.
    """
    handler = SignalHandler()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    heard = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]
    _handlers.append(handler)
    try:
        for number in heard:
            signal.signal(number, handler)
        yield handler
    finally:
        _handlers.remove(handler)
        for number in heard:
            signal.signal(number, signal.SIG_IGN if handler.done else before[number])


@contextmanager
def interruptible() -> Iterator[None]:
    """Here a signal raises KeyboardInterrupt, and at the beginning one that came before; catch it outside.

    >>> with handling_signals():
    ...     try:
    ...         with interruptible():
    ...             signal.raise_signal(signal.SIGINT)
    ...     except KeyboardInterrupt:
    ...         signal.raise_signal(signal.SIGINT)  # while the result is put together: waits
    ...         print("kept")
    kept
    """
    handler = _handler_here()
    if handler is None:
        yield
        return
    depth = handler.depth
    try:
        handler.depth = depth + 1
        if handler.pending:
            handler.pending = False
            handler.raised_at = time.monotonic()
            raise KeyboardInterrupt
        yield
    finally:
        handler.depth = depth


@contextmanager
def held() -> Iterator[Hold]:
    """Here a signal that would be raised is only noted, for a moment that must not be cut in two."""
    handler = _handler_here()
    hold = Hold()
    if handler is None or handler.hold is not None:
        yield hold if handler is None or handler.hold is None else handler.hold
        return
    handler.hold = hold
    try:
        yield hold
    finally:
        handler.hold = None


def _handler_here() -> SignalHandler | None:
    """Signals reach the main thread only."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    return _handlers[-1] if _handlers and in_main_thread else None
