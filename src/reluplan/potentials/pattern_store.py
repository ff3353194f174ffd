"""Patterns whose best reward is known: the cuts of the master problem, and candidates for more."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.potentials.features import PatternFeatures
from reluplan.potentials.subproblem import Subproblem

Array = NDArray[np.float64]
Entries = NDArray[np.int8]


@dataclass(eq=False)
class PatternStore:
    """Solved patterns: entries, R*(pattern) and a step that attains it.

    cuts: K, the positions of those in the master. is_complete: whether every pattern of the domain is here.
    """

    features: PatternFeatures
    subproblem: Subproblem
    entries: list[Entries] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    points: list[Array] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    is_complete: bool = False
    _position: dict[bytes, int | None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, entries: Entries) -> bool:
        return entries.tobytes() in self._position

    @property
    def lp_count(self) -> int:
        """Pattern LPs solved so far, those of empty patterns included."""
        return len(self._position)

    def solve(self, entries: Entries, deadline: float = math.inf) -> int | None:
        """The position of a pattern, its LP solved if it is new; None if no step has this pattern, or if that is not
        known by the deadline (of clock.now)."""
        key = entries.tobytes()
        if key not in self._position:
            if clock.now() > deadline:
                return None
            outcome = self.subproblem.best_reward(entries, deadline)
            if outcome is None and clock.now() > deadline:
                return None  # the LP may have been cut short: the pattern stays unknown
            self._position[key] = None if outcome is None else len(self.entries)
            if outcome is not None:
                self.entries.append(entries.copy())
                self.rewards.append(outcome[0])
                self.points.append(outcome[1])
        return self._position[key]

    def violations(self, values: Array) -> Array:
        """R* − φ of every stored pattern."""
        if not self.entries:
            return np.zeros(0)
        return np.array(self.rewards) - self.features.sum_values(values, np.array(self.entries))

    def add_cuts(self, values: Array, tolerance: float, limit: int) -> int:
        """Make cuts of the most violated stored patterns; returns how many."""
        violation = self.violations(values)
        order = np.argsort(-violation)[:limit]
        known = set(self.cuts)
        new = [at for at in order.tolist() if violation[at] > tolerance and at not in known]
        self.cuts.extend(new)
        return len(new)

    def cut_rows(self) -> tuple[Array, Array]:
        """The cuts as rows (k, K (N + 1)) and right-hand sides (k,)."""
        entries = np.array([self.entries[at] for at in self.cuts], dtype=np.int8)
        rows = self.features.one_hot(entries.reshape(len(self.cuts), self.features.unit_count))
        return rows, np.array([self.rewards[at] for at in self.cuts])
