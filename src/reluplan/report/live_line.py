"""One line on a terminal that follows what goes on; nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text


class LiveLine:
    """Shows `line()` several times a second between start and stop, if the console is a terminal and not quiet."""

    def __init__(self, line: Callable[[], Text], console: Console, quiet: bool) -> None:
        self._live: Live | None = None
        if not quiet and console.is_terminal:
            self._live = Live(get_renderable=line, console=console, refresh_per_second=4, transient=True)

    @property
    def is_shown(self) -> bool:
        return self._live is not None

    def start(self) -> None:
        if self._live is not None:
            self._live.start()

    def stop(self) -> None:
        """Take it down again; a screen that is gone is no error."""
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
