"""Showing a run while it goes on: a live line on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import math
from types import TracebackType

from rich.console import Console
from rich.text import Text

from reluplan.clock import Clock
from reluplan.planning.log import Event
from reluplan.report.live_line import LiveLine
from reluplan.report.settings import DEFAULT_TERMINAL, TerminalSettings


class ProgressView:
    """Listens to a run's events; a context manager, since the live line must be taken down again.

    `log` tells the story line by line: seconds, stage, what happened. A bound that creeps, as solvers' bounds do for
    hours, is told now and then. On a terminal one line shows stage, elapsed time, plan, bound and gap; without one, the
    lines of the log go to stderr.
    """

    def __init__(
        self,
        clock: Clock,
        quiet: bool,
        console: Console | None = None,
        settings: TerminalSettings = DEFAULT_TERMINAL,
    ) -> None:
        self._clock = clock
        self._quiet = quiet
        self._settings = settings
        self._console = console or Console(stderr=True)
        self._last: Event | None = None
        self._told: Event | None = None
        self._lines: list[str] = []
        self._live = LiveLine(self._line, self._console, quiet)

    @property
    def log(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    def __enter__(self) -> ProgressView:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        self._tell_last()

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        creeping = self._is_creeping(event)
        if not creeping:
            self._tell_last()
        self._last = event
        if not creeping:
            self._tell_last()

    def _is_creeping(self, event: Event) -> bool:
        """Whether nothing but the bound has changed, by little, and a line was told a short while ago."""
        told = self._told
        last = self._last
        if told is None or last is None or told.bound is None or event.bound is None or last.bound == event.bound:
            return False
        same = (event.stage, event.reward) == (told.stage, told.reward)
        step = abs(event.bound - told.bound) / max(1.0, abs(event.bound))
        soon = event.seconds < told.seconds + self._settings.quiet_seconds
        return same and soon and step < self._settings.small_step

    def _tell_last(self) -> None:
        """Write the line of the latest event, unless that was done."""
        event = self._last
        if event is None or event is self._told:
            return
        self._told = event
        # File names may hold bytes that are no text; a log is text.
        message = event.message.encode("utf-8", "backslashreplace").decode("utf-8")
        line = f"{event.seconds:8.1f} s  {event.stage:<10} {message}"
        self._lines.append(line)
        if not self._live.is_shown and not self._quiet:
            self._show(line)

    def _show(self, line: str) -> None:
        """A screen that takes no more, as on a full disk, is given up; the log goes on."""
        try:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
        except OSError:
            self._quiet = True

    def _line(self) -> Text:
        stage = self._last.stage if self._last else "start"
        text = Text(f"{stage:<10}", style="bold cyan", no_wrap=True, overflow="ellipsis")
        text.append(f"{self._clock.elapsed:7.1f} s", style="default not bold")
        if math.isfinite(self._clock.time_limit):
            text.append(f" of {self._clock.time_limit:g}", style="dim not bold")
        text.append(describe(self._last.reward, self._last.bound) if self._last else "", style="default not bold")
        return text


def describe(reward: float | None, bound: float | None) -> str:
    """Reward, bound and gap in a few words."""
    parts = f"   plan {reward:,.4f}" if reward is not None else "   no plan yet"
    if bound is not None:
        parts += f"   bound {bound:,.4f}"
    if reward is not None and bound is not None:
        parts += f"   gap {max(0.0, bound - reward) / max(1.0, abs(reward)):.2%}"
    return parts
