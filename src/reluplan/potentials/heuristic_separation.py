"""Violated patterns without a MILP, cheapest way first; only the MILP can prove that there are none."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.potentials.annealing import annealed_patterns
from reluplan.potentials.features import neighbours
from reluplan.potentials.pattern_store import PatternStore
from reluplan.potentials.settings import SeparationSettings
from reluplan.potentials.step_samples import StepSamples

Array = NDArray[np.float64]
Entries = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class HeuristicSeparation:
    """Solves pattern LPs where a violation is likely; what it finds goes into the store."""

    store: PatternStore
    samples: StepSamples
    tolerance: float
    deadline: float
    settings: SeparationSettings = field(default_factory=SeparationSettings)

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
        violation, entries = self.samples.violations(values)
        started = 0
        for at in np.argsort(-violation).tolist():
            if violation[at] <= self.tolerance or started == self.settings.walks or clock.now() > self.deadline:
                return
            if entries[at] not in self.store:
                self.walk(values, entries[at])
                started += 1

    def walk(self, values: Array, entries: Entries) -> None:
        """max over steps of the pattern, then max over patterns of the step: R − φ never falls on the way."""
        features = self.store.features
        best = -np.inf
        for _ in range(self.settings.walk_steps):
            new = entries not in self.store
            at = self.store.solve(entries, self.deadline)
            if at is None:
                return
            point = self.store.points[at][None]
            reward = self.store.rewards[at]
            if new:
                self.samples.add(point, np.array([reward]))
            violation = reward - float(features.sum_values(values, entries))
            if violation <= best:
                return
            best = violation
            possible = features.possible_entries(self.samples.domain.problem.dynamics.preactivations(point))[0]
            entries = np.where(possible, values, np.inf).argmin(axis=1).astype(np.int8)

    def _flips(self, values: Array) -> None:
        """Neighbours of the tightest patterns: one unit moved to the entry beside, if that lowers φ and is near."""
        violation = self.store.violations(values)
        solved = 0
        for at in np.argsort(-violation)[: self.settings.flip_centres].tolist():
            for neighbour in self._neighbours(at, values):
                if neighbour not in self.store:
                    self.store.solve(neighbour, self.deadline)
                    solved += 1
            if clock.now() > self.deadline or (solved >= self.settings.flips and self.any_violated(values)):
                return

    def surround(self, entries: Entries) -> None:
        """Solve all neighbours of a pattern that the MILP found: others that violate are often beside it."""
        for neighbour in neighbours(entries, self.store.features.interval_count):
            self.store.solve(neighbour, self.deadline)

    def _neighbours(self, at: int, values: Array) -> Entries:
        """The nearest neighbours of a pattern, seen from its best step, over whose edge φ falls."""
        features = self.store.features
        entries = self.store.entries[at]
        pre = self.samples.domain.problem.dynamics.preactivations(self.store.points[at])[features.units]
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
        nearest = sorted(moves)[: self.settings.flips_per_centre]
        moved = np.repeat(entries[None], len(nearest), axis=0)
        for row, (_, unit, step) in zip(moved, nearest, strict=True):
            row[unit] += step
        return moved

    def _annealed(self, values: Array) -> None:
        """Walks from what a population of steps found while it was cooled down; flips reach all of few patterns."""
        settings = self.settings.annealing
        if self.store.features.unit_count < settings.fewest_units:
            return
        violation, entries = annealed_patterns(self.samples, values, self.tolerance, self.deadline, settings)
        started: set[bytes] = set()
        for at in np.argsort(-violation).tolist():
            if entries[at].tobytes() not in started:
                started.add(entries[at].tobytes())
                self.walk(values, entries[at])
            if len(started) == settings.walks or clock.now() > self.deadline:
                return
