"""What a planning run tells while it goes on, and what its result says about how it went."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from reluplan import clock
from reluplan.clock import Clock

STAGES = ("bounds", "potentials", "search", "milp")
"""Stages that every result lists, run or not."""


@dataclass(frozen=True)
class Event:
    """Something worth telling: a stage began, a plan or a bound improved."""

    seconds: float
    stage: str
    message: str
    reward: float | None
    bound: float | None


@dataclass(frozen=True)
class HistoryEntry:
    """The best plan and bound at some moment, and how many nodes solvers had looked at."""

    seconds: float
    reward: float | None
    bound: float | None
    nodes: int


@dataclass(frozen=True)
class NodeCount:
    """Of the branch and bound of the last MILP over the whole horizon."""

    open: int = 0
    closed: int = 0


@dataclass(frozen=True)
class Share:
    """A stage's turns in a portfolio, their seconds together, and how many times they halved the gap."""

    stage: str
    turns: int
    seconds: float
    halvings: float


@dataclass(eq=False)
class RunLog:
    """Stages and their seconds, notes, history; events go to whoever listens.

    reward, bound: of the incumbent, as it last said.
    """

    clock: Clock
    on_event: Callable[[Event], None] | None = None
    stage_name: str = "start"
    stage_seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    notes: list[str] = field(default_factory=list)
    history: list[HistoryEntry] = field(default_factory=list)
    nodes: NodeCount = NodeCount()
    shares: tuple[Share, ...] = ()
    reward: float | None = None
    bound: float | None = None
    _running: str | None = None
    _since: float = 0.0

    @contextmanager
    def stage(self, name: str, goes_on: bool = False) -> Iterator[None]:
        """Times a stage; stages of the same name add up, and one inside another is not counted in that. goes_on: it has
        begun before."""
        outer = self._running
        self._switch_to(name)
        self.stage_name = name
        if not goes_on:
            self.tell("begins")
        try:
            yield
        finally:
            self._switch_to(outer)
            self.stage_name = outer or name

    def _switch_to(self, name: str | None) -> None:
        """The seconds since the last switch belong to the stage that was running."""
        now = clock.now()
        if self._running is not None:
            spent = now - self._since
            self.stage_seconds[self._running] = self.stage_seconds.get(self._running, 0.0) + spent
        self._running = name
        self._since = now

    def count(self, name: str, seconds: float) -> None:
        """Seconds of a stage that ran beside others."""
        self.stage_seconds[name] = self.stage_seconds.get(name, 0.0) + seconds

    def tell(self, message: str) -> None:
        """Report progress to whoever listens; a listener that fails is not told again, and loses us nothing."""
        if self.on_event is None:
            return
        try:
            self.on_event(Event(self.clock.elapsed, self.stage_name, message, self.reward, self.bound))
        except Exception as error:
            self.on_event = None
            self.note(f"progress is no longer shown: {type(error).__name__}: {error}")

    def note(self, text: str) -> None:
        """Something that the result must say, once."""
        if text not in self.notes:
            self.notes.append(text)
            self.tell(text)

    def update(self, reward: float | None, bound: float) -> None:
        """What the incumbent's reward and bound are now."""
        self.reward = reward
        self.bound = None if math.isinf(bound) else bound

    def record(self) -> None:
        """An entry of the history."""
        nodes = self.nodes.open + self.nodes.closed
        self.history.append(HistoryEntry(round(self.clock.elapsed, 3), self.reward, self.bound, nodes))

    def record_unless_creeping(self) -> None:
        """The same, unless the history already has about this bound, from a moment ago."""
        last = self.history[-1] if self.history else None
        if last is not None and last.bound is not None and self.bound is not None:
            change = abs(self.bound - last.bound) / max(1.0, abs(self.bound))
            if change < 1e-3 and self.clock.elapsed < last.seconds + 5.0:
                return
        self.record()

    def close(self) -> None:
        """The last entry of the history is how the run ended."""
        if not self.history or (self.history[-1].reward, self.history[-1].bound) != (self.reward, self.bound):
            self.record()
