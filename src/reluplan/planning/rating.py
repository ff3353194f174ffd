"""What stages gain per second, and the shares of the time that follow from it.

A turn of a stage gains ln(gap before / gap after), the gap being bound − reward and at least the target: halving it
counts alike whether much or little is left. A first plan, and a first bound, gain 1 each. Smaller boxes gain a share of
ln(looseness before / after), since all others are better with them; and a proof whose own bound follows behind that of
others gains a share of what it has caught up, a smaller one the farther behind it is.

The time is shared by stride scheduling (Waldspurger and Weihl 1995): each stage has a weight, its account grows by
seconds / weight, and the one is next whose account would be the smallest after its turn. So stages that always have
something to do get time in proportion to their weights, and what was gained lately decides about the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from reluplan.planning.settings import PortfolioSettings


@dataclass(frozen=True)
class Standing:
    """The incumbent's reward and bound at some moment; target: a gap that is small enough. looseness: of the
    boxes. own_bound: of the stage itself."""

    reward: float | None
    bound: float
    target: float
    looseness: float = 0.0
    own_bound: float = math.inf

    def gain_since(self, before: Standing, promise: float = 0.0) -> float:
        """What was gained since an earlier moment; never negative. promise: what smaller boxes count, and what the
        stage's own bound has gained while others have proven more."""
        gain = self.gap_gain_since(before)
        if 0.0 < self.looseness < before.looseness:
            gain += promise * math.log(before.looseness / self.looseness)
        own = [Standing(self.reward, each.own_bound, self.target) for each in (self, before)]
        caught_up = own[0].gap_gain_since(own[1]) if math.isfinite(before.own_bound) else 0.0
        return max(gain, promise * self._nearness(own[0]) * caught_up)

    def gap_gain_since(self, before: Standing) -> float:
        """The same without boxes."""
        gain = float(before.reward is None and self.reward is not None)
        gain += float(math.isinf(before.bound) and math.isfinite(self.bound))
        if before._gap is not None and self._gap is not None:
            gain += max(0.0, math.log(before._gap / self._gap))
        return gain

    def _nearness(self, own: Standing) -> float:
        """The gap as a share of that of a stage's own bound, at most one: how soon it may be the best."""
        return 1.0 if self._gap is None or own._gap is None else min(1.0, self._gap / own._gap)

    @property
    def _gap(self) -> float | None:
        """None while there is no plan or no bound."""
        if self.reward is None or math.isinf(self.bound):
            return None
        return max(self.bound - self.reward, self.target, 1e-300)


@dataclass
class Rating:
    """What a stage has gained, with earlier turns counting less and less.

    patience: seconds in vain that halve its weight; least: which never falls below this. vain: seconds since it last
    gained anything. account: of the stride scheduling. seconds, turns, gained: of all turns.
    """

    settings: PortfolioSettings
    patience: float
    least: float = 0.0
    recent_gain: float = 0.0
    recent_gap_gain: float = 0.0
    recent_seconds: float = 0.0
    vain: float = 0.0
    account: float = 0.0
    seconds: float = 0.0
    turns: int = 0
    gained: float = 0.0

    @property
    def per_second(self) -> float:
        """What it gained lately, halved each time that it has spent its patience in vain since."""
        return self._faded(self.recent_gain)

    @property
    def gap_per_second(self) -> float:
        """The same of the gap alone, without boxes."""
        return self._faded(self.recent_gap_gain)

    def _faded(self, gain: float) -> float:
        return gain / max(self.recent_seconds, 1e-9) * math.exp2(-self.vain / self.patience) if self.turns else 0.0

    @property
    def halvings(self) -> float:
        """How many times it has halved the gap."""
        return self.gained / math.log(2.0)

    def weight(self, best: float) -> float:
        """Its share of what the best stage gains per second; what gains nothing waits longer each time."""
        if not self.turns:
            return self.settings.first_weight
        share = self.per_second / best if best > 0.0 else 0.0
        return max(share, self.settings.smallest_weight * math.exp2(-self.vain / self.patience), self.least, 1e-6)

    def record(self, seconds: float, gain: float, gap_gain: float) -> None:
        """A turn is over; gap_gain: what its gain is without boxes."""
        memory = self.settings.memory
        self.recent_gap_gain = memory * self.recent_gap_gain + gap_gain
        self.recent_gain = memory * self.recent_gain + gain
        self.recent_seconds = memory * self.recent_seconds + seconds
        self.vain = 0.0 if gain > 0.0 else self.vain + seconds
        self.seconds += seconds
        self.gained += gap_gain
        self.turns += 1
