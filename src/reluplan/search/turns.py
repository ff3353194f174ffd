"""Heuristics that take turns: whoever gains gets more of the time, and nobody is forgotten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from reluplan import clock
from reluplan.errors import OutOfTimeError
from reluplan.search.context import Context
from reluplan.search.heuristics import Heuristic, Phase, Scope
from reluplan.search.time_slice import Paused


@dataclass
class Contender:
    """A heuristic in the turns, and what it was worth lately.

    work: what it is in the middle of. seconds, gain: of its last turns, old ones fading. vain: how often in a row it
    ended without having improved the best plan. done: it will not be called again.
    """

    heuristic: Heuristic
    work: Paused[None] | None = None
    seconds: float = 0.0
    gain: float = 0.0
    vain: int = 0
    done: bool = False
    helped: bool = False

    @property
    def repeated(self) -> bool:
        return self.heuristic.phase is Phase.REPEATED

    @property
    def weight(self) -> float:
        """Of its share, before gains are counted in."""
        return self.heuristic.weight

    def patience(self, context: Context) -> int:
        """How often in vain is enough; a population has tried much more than a local search."""
        local = self.heuristic.scope is Scope.LOCAL
        return context.settings.patience if local else context.settings.population.runs

    def advance(self, context: Context) -> float:
        """Work until the slice is over or the heuristic ends, and say what that gained; one that outlasts its slice by
        far begins anew."""
        before = Standing.of(context)
        began = clock.now()
        try:
            self._continue(context)
        except OutOfTimeError:
            self._end()
        gain = Standing.of(context).gain_over(before)
        self.helped = self.helped or gain > 0.0
        self.seconds += max(clock.now() - began, context.settings.turns.least_charge)
        self.gain += gain
        return gain

    def _continue(self, context: Context) -> None:
        if self.work is None:
            self.work = self.heuristic.begin(context)
        try:
            next(self.work)
        except StopIteration:
            self._end()
            self.done = not self.repeated

    def _end(self) -> None:
        self.work = None
        self.vain = 0 if self.helped else self.vain + 1
        self.helped = False


@dataclass(frozen=True)
class Standing:
    """How good the best plan is."""

    found: bool
    value: float

    @classmethod
    def of(cls, context: Context) -> Standing:
        return cls(context.found, context.best_merit)

    def gain_over(self, before: Standing) -> float:
        """The relative gain; the first plan that keeps every constraint counts as one."""
        if self.found and not before.found:
            return 1.0
        if not math.isfinite(before.value) or not self.value > before.value:
            return 0.0
        return (self.value - before.value) / max(abs(before.value), abs(self.value), 1e-9)


@dataclass
class Turns:
    """Contenders share the time in proportion to weight + boost · (their part of the recent gains)."""

    contenders: Sequence[Contender]
    turns: int = 0
    began: float = field(default_factory=clock.now)

    def run(self, context: Context) -> Paused[None]:
        """Turn after turn, until nobody is left or all is settled."""
        while not self.settled(context):
            yield from context.pause()
            contender = self._next(context)
            if contender is None:
                return
            with context.time.at_most(self._length(context)):
                gained = contender.advance(context) > 0.0
            self._fade(context)
            for other in self.contenders if gained else ():
                other.vain = 0

    def _next(self, context: Context) -> Contender | None:
        """Whoever would be least ahead of his share after a turn, in the order of registration if several are."""
        settings = context.settings.turns
        total = sum(contender.gain for contender in self.contenders) or 1.0
        waiting = [contender for contender in self.contenders if self._may_run(contender, context)]
        if context.best is None:  # others begin with a plan
            waiting = [c for c in waiting if c.heuristic.phase is Phase.CONSTRUCTION] or waiting

        def ahead(contender: Contender) -> float:
            share = contender.weight + settings.boost * contender.gain / total
            return (contender.seconds + settings.shortest) / share

        return min(waiting, key=ahead, default=None)

    def _may_run(self, contender: Contender, context: Context) -> bool:
        """Whoever was in vain for long rests until another gains. Repairs wait until all else has been tried once, and
        are for those who have nothing."""
        if contender.heuristic.phase is Phase.REPAIR:
            return not (contender.done or context.found) and self._once_done
        return not contender.done and contender.vain < contender.patience(context)

    @property
    def _once_done(self) -> bool:
        return all(c.done for c in self.contenders if c.heuristic.phase in (Phase.CONSTRUCTION, Phase.ONCE))

    def _length(self, context: Context) -> float:
        """Of a turn: a share of the time so far, so that there are not ever more of them."""
        settings = context.settings.turns
        return max(settings.shortest, settings.share * (clock.now() - self.began))

    def _fade(self, context: Context) -> None:
        for contender in self.contenders:
            contender.seconds *= context.settings.turns.fading
            contender.gain *= context.settings.turns.fading

    def settled(self, context: Context) -> bool:
        """Whether everything was tried, and what is repeated was in vain for long or is unlikely to help."""
        if not self._once_done:
            return False
        vain = all(c.vain >= c.patience(context) for c in self.contenders if c.repeated)
        return vain or (context.found and context.settled)
