"""Plans by sampling: uniform, then cross-entropy, then changes of a few coordinates at every scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fuzz.problem import Array, Variable
from fuzz.simulate import Machine, Plan

FARTHEST = 1e9
"""Where a variable without bounds is sampled."""

CLEARLY = -1e-10
"""A relative slack that rounding does not undo."""

SAMPLES, POPULATION, ELITES, ROUNDS, CHANGES = 192, 96, 12, 5, 10


@dataclass(eq=False)
class Search:
    """Keeps the best plan that holds in float64, and the best one that holds with room for rounding."""

    machine: Machine
    rng: Generator
    best: Plan | None = None
    best_reward: float = -np.inf
    clear: Plan | None = None
    clear_reward: float = -np.inf
    _elite: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        problem = self.machine.problem
        first = [Variable(v.name, v.kind, *v.start) for v in problem.states]
        variables = [*first, *problem.actions * problem.horizon, *problem.auxiliaries * (problem.horizon + 1)]
        steps, states = range(problem.horizon), range(problem.horizon + 1)
        boxes = [v.domain for v in first]
        boxes += [problem.box(v, t) for t in steps for v in problem.actions]
        boxes += [problem.box(v, t) for t in states for v in problem.auxiliaries]
        lower = np.maximum([low for low, _ in boxes], -FARTHEST)
        upper = np.minimum([high for _, high in boxes], FARTHEST)
        self.lower, self.upper = lower, np.maximum(upper, lower)
        self.discrete: NDArray[np.bool_] = np.array([v.is_discrete for v in variables], dtype=bool)
        self.merits = np.zeros(0)

    def run(self, starts: Sequence[Plan] = ()) -> None:
        """Sample, concentrate, polish."""
        self._try(self._uniform(SAMPLES))
        if starts:
            self._try(np.array([self._flat(plan) for plan in starts]))
        for _ in range(ROUNDS):
            mean, spread = self._elite.mean(axis=0), self._elite.std(axis=0) + 0.02 * (self.upper - self.lower)
            self._try(mean + spread * self.rng.normal(size=(POPULATION, len(mean))))
        self.polish(CHANGES)

    def polish(self, rounds: int, starts: Sequence[Plan] = ()) -> None:
        """Change one to three coordinates of the best, from the whole range down to 1e-9 of it."""
        if starts:
            self._try(np.array([self._flat(plan) for plan in starts]))
        for _ in range(rounds):
            base = self._elite[self.rng.integers(0, min(3, len(self._elite)), POPULATION)]
            self._try(self._changed(base))

    def plans(self) -> Iterator[Plan]:
        """What was found, best first."""
        for plan in (self.best, self.clear):
            if plan is not None:
                yield plan

    def _uniform(self, count: int) -> Array:
        z = self.rng.uniform(self.lower, self.upper, size=(count, len(self.lower)))
        corner = self.rng.random(z.shape)
        z = np.where(corner < 0.12, self.lower, z)
        z = np.where(corner > 0.88, self.upper, z)
        return np.where((corner > 0.45) & (corner < 0.5), 0.0, z)

    def _changed(self, base: Array) -> Array:
        width = base.shape[1]
        chosen = self.rng.random(base.shape) < self.rng.choice([1.0, 2.0, 3.0], (len(base), 1)) / width
        scale = (self.upper - self.lower) * 10.0 ** self.rng.uniform(-9.0, 0.0, (len(base), 1))
        step = np.where(self.discrete, np.sign(self.rng.normal(size=base.shape)) * np.ceil(scale), 0.0)
        step = np.where(self.discrete, step, scale * self.rng.normal(size=base.shape))
        moved = base + np.where(chosen, step, 0.0)
        corner = self.rng.random(base.shape)
        moved = np.where(chosen & (corner < 0.08), self.lower, moved)
        return np.where(chosen & (corner > 0.92), self.upper, moved)

    def _try(self, z: Array) -> None:
        z = np.clip(np.where(self.discrete, np.round(z), z), self.lower, self.upper)
        problem = self.machine.problem
        n, m, k, horizon = len(problem.states), len(problem.actions), len(problem.auxiliaries), problem.horizon
        edges = n, n + horizon * m
        parts = z[:, : edges[0]], z[:, edges[0] : edges[1]], z[:, edges[1] :]
        runs = self.machine.rollout(
            parts[0], parts[1].reshape(len(z), horizon, m), parts[2].reshape(len(z), horizon + 1, k)
        )
        holds = (runs.violations <= 0.0) & runs.clear
        rewards = np.where(holds, runs.rewards, -np.inf)
        top = int(np.argmax(rewards))
        if rewards[top] > self.best_reward:
            self.best, self.best_reward = runs.plan(top), float(rewards[top])
        rewards = np.where(holds & (runs.violations <= CLEARLY), runs.rewards, -np.inf)
        top = int(np.argmax(rewards))
        if rewards[top] > self.clear_reward:
            self.clear, self.clear_reward = runs.plan(top), float(rewards[top])
        self._select(z, np.where(holds, runs.rewards, -np.inf), runs.violations + ~runs.clear)

    def _select(self, z: Array, rewards: Array, violations: Array) -> None:
        """Elites: plans that hold by reward, then the others by violation."""
        merits = np.stack([rewards, -violations], axis=1)
        if len(self.merits):
            z, merits = np.vstack([self._elite, z]), np.vstack([self.merits, merits])
        order = np.lexsort((-merits[:, 1], -merits[:, 0]))[:ELITES]
        self._elite, self.merits = z[order], merits[order]

    def _flat(self, plan: Plan) -> Array:
        return np.concatenate([plan.initial, plan.actions.ravel(), plan.auxiliaries.ravel()])
