"""Sampled steps of a domain, ranked by how much they violate given potentials."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.potentials.domain import StepDomain
from reluplan.potentials.features import PatternFeatures
from reluplan.potentials.settings import SamplingSettings
from reluplan.problem.steps import Steps, evaluate_steps

Array = NDArray[np.float64]
Entries = NDArray[np.int8]

PATTERN_OPERATIONS = 300.0
"""What a unit's entry costs in a sample, in operations of the clock: an estimate."""


@dataclass(eq=False)
class StepSamples:
    """Real steps of a domain: inputs (s, a, x), reward, and the entries that each unit may count for.

    A step on the edge of an interval, or with P = 0, belongs to several patterns; the one that violates potentials
    most takes each unit's smallest value. So a step's violation is R − Σ_u min over its possible entries of v_{u,i}:
    steps on many edges, such as optima of pattern LPs, say far more than random ones.
    """

    domain: StepDomain
    features: PatternFeatures
    rng: np.random.Generator
    settings: SamplingSettings = field(default_factory=SamplingSettings)
    inputs: Array = field(init=False)
    rewards: Array = field(init=False)
    possible: NDArray[np.bool_] = field(init=False)
    _best: dict[bytes, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inputs = np.zeros((0, self.domain.problem.layout.input_count))
        self.rewards = np.zeros(0)
        self.possible = np.zeros((0, *self.features.shape), dtype=bool)

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def pattern_count(self) -> int:
        """Patterns that samples were found in."""
        return len(self._best)

    def violations(self, values: Array) -> tuple[Array, Entries]:
        """For every step its largest violation of the potentials (K, N + 1), and the pattern that has it."""
        priced = np.where(self.possible, values, np.inf)
        entries = priced.argmin(axis=2).astype(np.int8)
        return self.rewards - priced.min(axis=2).sum(axis=1), entries

    def sample(self, count: int, deadline: float = math.inf) -> None:
        """Steps drawn uniformly from the domain's box, as far as they satisfy the constraints, until the deadline."""
        lower, upper = self.domain.input_box()
        if np.isfinite(lower).all() and np.isfinite(upper).all():
            self._take_samples(self.rng.uniform(lower, upper, (count, len(lower))), deadline)

    def sample_near(self, centres: Array, count: int, deadline: float = math.inf) -> None:
        """Steps around some points, at several distances: their neighbours in pattern space."""
        lower, upper = self.domain.input_box()
        spread = np.resize(self.settings.spreads, count)[:, None, None] * (upper - lower)
        noise = self.rng.normal(size=(count, *centres.shape)) * spread
        # half of the coordinates stay: the best points lie on edges of the box, and so do their best neighbours
        noise *= self.rng.random(noise.shape) < 0.5
        self._take_samples(np.clip(centres + noise, lower, upper).reshape(-1, len(lower)), deadline)

    def climb(self, values: Array, generations: int, deadline: float = math.inf) -> None:
        """Generations of samples around steps drawn from the tenth with the largest violations."""
        for _ in range(generations):
            violation, _ = self.violations(values)
            if not len(violation) or clock.now() >= deadline:
                return
            good = np.argsort(-violation)[: max(self.settings.centres, len(violation) // 10)]
            centres = self.inputs[self.rng.permutation(good)[: self.settings.centres]]
            self.sample_near(centres, self.settings.samples_per_centre, deadline)

    def add(self, inputs: Array, rewards: Array) -> None:
        """Take in steps (k, n) that are known to be feasible, such as optima of pattern LPs."""
        units = self.domain.problem.dynamics.preactivations(inputs)
        self.inputs = np.vstack([self.inputs, inputs])
        self.rewards = np.concatenate([self.rewards, rewards])
        self.possible = np.concatenate([self.possible, self.features.possible_entries(units)])

    def mean_entries(self) -> Array:
        """How often each entry occurs over the steps (shared out where several are possible), shape (K, N + 1)."""
        shares = self.possible / self.possible.sum(axis=2, keepdims=True)
        mean: Array = shares.mean(axis=0)
        return mean

    def _take_samples(self, inputs: Array, deadline: float) -> None:
        """In batches until the deadline (of clock.now): a network of any size evaluates one of them soon."""
        problem = self.domain.problem
        if problem.auxiliaries:
            return  # auxiliaries are tied to states by rows that random values do not satisfy
        operations = problem.dynamics.operations + PATTERN_OPERATIONS * self.features.unit_count
        size = max(1, int(clock.SAMPLE_WORK / max(1.0, operations)))
        for first in range(0, len(inputs), size):
            if clock.now() >= deadline:
                return
            self._take_batch(inputs[first : first + size])

    def _take_batch(self, inputs: Array) -> None:
        """Evaluate steps all at once; of those with one pattern keep the best, if it beats what is known of it."""
        problem = self.domain.problem
        clock.spend(PATTERN_OPERATIONS * self.features.unit_count * len(inputs))
        discrete = np.array([v.is_discrete for v in problem.input_variables], dtype=bool)
        inputs = np.where(discrete, np.round(inputs), inputs)
        steps = evaluate_steps(problem, inputs)
        steps = steps.take(self._feasible(steps))
        rewards = steps.rewards()
        patterns = np.ascontiguousarray(self.features.entries(steps.units))
        kept = []
        for at in np.argsort(-rewards, kind="stable").tolist():
            key = patterns[at].tobytes()
            if rewards[at] > self._best.get(key, -np.inf):
                self._best[key] = float(rewards[at])
                kept.append(at)
        self.add(steps.inputs[kept], rewards[kept])

    def _feasible(self, steps: Steps) -> NDArray[np.bool_]:
        """Also within the bounds of units, which may be smaller than what the box of the inputs allows."""
        bounds = self.domain.bounds
        inside = ((steps.units >= bounds.unit_lower[0]) & (steps.units <= bounds.unit_upper[0])).all(axis=1)
        ends = steps.end_within(bounds.state_lower[1], bounds.state_upper[1])
        return np.asarray(inside & ends & steps.satisfy())
