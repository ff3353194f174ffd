"""Finding violated patterns, cheapest way first; only the MILP can prove that there are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.potentials.enumeration import neighbours
from reluplan.potentials.pool import StepPool
from reluplan.potentials.store import PatternStore

Array = NDArray[np.float64]
Entries = NDArray[np.int8]

WALKS = 20
WALK_STEPS = 20
FLIP_CENTRES = 60
FLIPS_PER_CENTRE = 12
FLIPS = 100
ANNEALED_WALKS = 40

FEWEST_TO_ANNEAL = 12


@dataclass(frozen=True, eq=False)
class HeuristicSeparation:
    """Solves pattern LPs where a violation is likely; what it finds goes into the store."""

    store: PatternStore
    pool: StepPool
    tolerance: float
    deadline: float

    def search(self, values: Array) -> bool:
        """Run the searches in order until one leaves a violated pattern in the store."""
        for search in (self._walks, self._flips, self._annealed):
            if clock.now() <= self.deadline:
                search(values)
            if self.any_violated(values):
                return True
        return False

    def any_violated(self, values: Array) -> bool:
        violations = self.store.violations(values)
        return bool(violations.size and violations.max() > self.tolerance)

    def _walks(self, values: Array) -> None:
        """Alternate between a pattern's best step and that step's most violated pattern, from the worst steps."""
        violation, entries = self.pool.violations(values)
        started = 0
        for at in np.argsort(-violation).tolist():
            if violation[at] <= self.tolerance or started == WALKS or clock.now() > self.deadline:
                return
            if entries[at] not in self.store:
                self.walk(values, entries[at])
                started += 1

    def walk(self, values: Array, entries: Entries) -> None:
        """max over steps of the pattern, then max over patterns of the step: R − φ never falls on the way."""
        features = self.store.features
        best = -np.inf
        for _ in range(WALK_STEPS):
            new = entries not in self.store
            at = self.store.solve(entries, self.deadline)
            if at is None:
                return
            point, reward = self.store.points[at][None], self.store.rewards[at]
            if new:
                self.pool.add(point, np.array([reward]))
            violation = reward - float(features.sum_values(values, entries))
            if violation <= best:
                return
            best = violation
            possible = features.possible_entries(self.pool.domain.problem.dynamics.preactivations(point))[0]
            entries = np.where(possible, values, np.inf).argmin(axis=1).astype(np.int8)

    def _flips(self, values: Array) -> None:
        """Neighbours of the tightest patterns: one unit moved to the entry beside, if that lowers φ and is near."""
        violation = self.store.violations(values)
        solved = 0
        for at in np.argsort(-violation)[:FLIP_CENTRES].tolist():
            for neighbour in self._neighbours(at, values):
                if neighbour not in self.store:
                    self.store.solve(neighbour, self.deadline)
                    solved += 1
            if clock.now() > self.deadline or (solved >= FLIPS and self.any_violated(values)):
                return

    def surround(self, entries: Entries) -> None:
        """Solve all neighbours of a pattern that the MILP found: others that violate are often beside it."""
        for neighbour in neighbours(entries, self.store.features.interval_count):
            self.store.solve(neighbour, self.deadline)

    def _neighbours(self, at: int, values: Array) -> Entries:
        """The nearest neighbours of a pattern, seen from its best step, over whose edge φ falls."""
        features, entries = self.store.features, self.store.entries[at]
        pre = self.pool.domain.problem.dynamics.preactivations(self.store.points[at])[features.units]
        units = np.arange(features.unit_count)
        edges = np.hstack([np.full((features.unit_count, 1), -np.inf), features.breakpoints()])
        moves = []
        for step in (-1, 1):
            target = entries.astype(np.int64) + step
            inside = (target >= 0) & (target <= features.interval_count)
            target = np.clip(target, 0, features.interval_count)
            falls = values[units, target] < values[units, entries]
            edge = edges[units, entries + (step > 0)]
            distance = np.where(inside & falls, np.abs(pre - edge) / np.maximum(features.ceilings, 1e-9), np.inf)
            moves += [(d, u, step) for u, d in enumerate(distance.tolist()) if d < np.inf]
        nearest = sorted(moves)[:FLIPS_PER_CENTRE]
        moved = np.repeat(entries[None], len(nearest), axis=0)
        for row, (_, unit, step) in zip(moved, nearest, strict=True):
            row[unit] += step
        return moved

    def _annealed(self, values: Array) -> None:
        """Walks from what a population of steps found while it was cooled down; flips reach all of few patterns."""
        if self.store.features.unit_count < FEWEST_TO_ANNEAL:
            return
        violation, entries = self.pool.anneal(values, self.tolerance, self.deadline)
        started: set[bytes] = set()
        for at in np.argsort(-violation).tolist():
            if entries[at].tobytes() not in started:
                started.add(entries[at].tobytes())
                self.walk(values, entries[at])
            if len(started) == ANNEALED_WALKS or clock.now() > self.deadline:
                return
