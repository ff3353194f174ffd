"""What stages gain per second, and the shares of the time that follow from it.

A turn of a stage gains ln(gap before / gap after), the gap being bound − reward and at least the target: halving it
counts alike whether much or little is left. A first plan, and a first bound, gain 1 each. Smaller boxes gain a share of
ln(looseness before / after), since all others are better with them; and a proof whose own bound follows behind that of
others gains a share of what it has caught up, a smaller one the farther behind it is.

The time is shared by stride scheduling (Waldspurger and Weihl 1995): each stage has a weight, its account grows by
seconds / weight, and the one is next whose account would be the smallest after its turn. So stages that always have
something to do get time in proportion to their weights, and what was gained lately decides about these (`weights`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.planning.settings import PortfolioSettings

Array = NDArray[np.float64]


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
        caught_up = own[0].gap_gain_since(own[1])
        return max(gain, promise * self.nearness * caught_up)

    def gap_gain_since(self, before: Standing) -> float:
        """The same without boxes."""
        gain = float(before.reward is None and self.reward is not None)
        gain += float(math.isinf(before.bound) and math.isfinite(self.bound))
        if before._gap is not None and self._gap is not None:
            gain += max(0.0, math.log(before._gap / self._gap))
        return gain

    @property
    def nearness(self) -> float:
        """The gap as a share of that of a stage's own bound, at most one: how soon it may be the best."""
        own = Standing(self.reward, self.own_bound, self.target)
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

    patience: seconds in vain that halve its hope; least: its weight never falls below this. vain: seconds since it last
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
        return gain / max(self.recent_seconds, 1e-9) * self.hope if self.turns else 0.0

    @property
    def halvings(self) -> float:
        """How many times it has halved the gap."""
        return self.gained / math.log(2.0)

    @property
    def hope(self) -> float:
        """Of a stage that gains nothing, halved each time that it has spent its patience in vain."""
        return math.exp2(-self.vain / self.patience)

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


def weights(ratings: Sequence[Rating], settings: PortfolioSettings) -> Array:
    """Of stages that take turns: w_i = max(g_i / max(max_j g_j, g), e h_i / Σ_j h_j), where g_i is what a stage gains
    per second, g what is little in that time, h_i its hope and e the weight of exploration. In place of the second,
    stages that had no turn yet have first_weight, and those with a least weight of their own that times their hope,
    which is no less than `search_hope`.

    Exploration has the same weight in all, however little hope is left: where nobody gains, all have their turns, and a
    proof that needs many seconds before its bound is the best gets them.
    """
    gains = np.array([rating.per_second for rating in ratings])
    hopes = np.array([max(rating.hope, 1e-6) for rating in ratings])
    least = np.array([rating.least for rating in ratings]) * np.maximum(hopes, settings.search_hope)
    has_least, is_new = least > 0.0, np.array([rating.turns == 0 for rating in ratings])
    explored = settings.exploration * hopes / max(hopes[~has_least].sum(), 1e-6)
    others = np.where(has_least, least, np.where(is_new, settings.first_weight, explored))
    little = settings.little / min([rating.patience for rating in ratings], default=1.0)
    return np.asarray(np.maximum(gains / max(gains.max(initial=0.0), little), others))
