"""Annealing: a population of steps that moves to where given potentials are violated, all of it at once in numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.potentials.domain import StepDomain
from reluplan.potentials.features import PatternFeatures
from reluplan.potentials.settings import DEFAULT_ANNEALING, AnnealingSettings
from reluplan.potentials.step_samples import StepSamples
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.steps import evaluate_steps

Array = NDArray[np.float64]
Entries = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Annealing:
    """Looks for steps with R − φ > tolerance by differential-evolution Markov chains (ter Braak, 2006).

    A chain at x proposes x + γ (y − z) on some coordinates, y and z two other chains, and accepts with probability
    min(1, exp(Δ/T)) for Δ the change of R − φ: differences of chains know the thin ridges along which rewards are good,
    and single patterns, which are far from each other, are found from far away.
    """

    domain: StepDomain
    features: PatternFeatures
    rng: np.random.Generator
    settings: AnnealingSettings = field(default_factory=AnnealingSettings)

    def search(self, start: Array, values: Array, tolerance: float, deadline: float = math.inf) -> tuple[Array, Array]:
        """The best step of every chain from inputs (n, inputs), and its violation, while the temperature falls; until
        the deadline (of clock.now)."""
        x = start.copy()
        score = self.violations(start, values)
        best = x.copy()
        best_score = score.copy()
        for temperature in tolerance * np.geomspace(self.settings.hottest, 1.0, self.settings.generations):
            if clock.now() >= deadline:
                break
            proposal = self._propose(x)
            proposed = self.violations(proposal, values)
            taken = proposed > score + temperature * np.log(self.rng.random(len(x)))
            x[taken] = proposal[taken]
            score[taken] = proposed[taken]
            better = score > best_score
            best[better] = x[better]
            best_score[better] = score[better]
        return best, best_score

    def violations(self, inputs: Array, values: Array) -> Array:
        """R − φ of steps, −inf where they are outside the domain."""
        bounds = self.domain.bounds
        steps = evaluate_steps(self.domain.problem, inputs)
        whole = self.domain.whole  # without the reward cutoff, which is costly
        kept = steps.satisfy(whole.constraints, whole.tolerances.constraints)
        kept &= steps.end_within(bounds.state_lower[1], bounds.state_upper[1])
        potential = self.features.sum_values(values, self.features.entries(steps.units))
        return np.where(kept, self._reward.evaluate(steps.w) - potential, -np.inf)

    @cached_property
    def _reward(self) -> _Stacked | PiecewiseLinear:
        reward = self.domain.problem.reward
        nested = any(argument.terms for term in reward.terms for argument in term.arguments)
        return reward if nested or not reward.terms else _Stacked(reward)

    def _propose(self, x: Array) -> Array:
        lower, upper = self.domain.input_box()
        count = len(x)
        first, second = self.rng.integers(count, size=(2, count))
        stretch = self.rng.choice(self.settings.stretches, count)[:, None]
        moved = self.rng.random(x.shape) < self.rng.choice(self.settings.shares_moved, count)[:, None]
        jitter = self.settings.jitter * (upper - lower) * self.rng.normal(size=x.shape)
        y = np.clip(x + moved * (stretch * (x[first] - x[second]) + jitter), lower, upper)
        discrete = np.array([v.is_discrete for v in self.domain.problem.input_variables], dtype=bool)
        return np.asarray(np.where(discrete, np.round(y), y))


class _Stacked:
    """A function whose maxima are all of affine functions, with these in one matrix: several times faster."""

    def __init__(self, function: PiecewiseLinear) -> None:
        self._affine = PiecewiseLinear(function.coefficients, function.constant)
        arguments = [argument for term in function.terms for argument in term.arguments]
        self._matrix = np.array([argument.coefficients for argument in arguments])
        self._constants = np.array([argument.constant for argument in arguments])[:, None]
        self._starts = np.cumsum([0, *(len(term.arguments) for term in function.terms[:-1])])
        self._weights = np.array([term.weight for term in function.terms])

    def evaluate(self, w: Array) -> Array:
        """The function at every row of w."""
        arguments = self._matrix @ w.T + self._constants
        value: Array = self._affine.evaluate(w) + self._weights @ np.maximum.reduceat(arguments, self._starts, axis=0)
        return value


def annealed_patterns(
    samples: StepSamples,
    values: Array,
    tolerance: float,
    deadline: float = math.inf,
    settings: AnnealingSettings = DEFAULT_ANNEALING,
) -> tuple[Array, Entries]:
    """Steps with large violations, found from far away: violations and patterns, the best of each chain."""
    if not len(samples) or samples.domain.problem.auxiliaries:
        return np.zeros(0), np.zeros((0, samples.features.unit_count), dtype=np.int8)
    annealing = Annealing(samples.domain, samples.features, samples.rng, settings)
    start = samples.inputs[samples.rng.integers(len(samples), size=settings.population)]
    inputs, violation = annealing.search(start, values, tolerance, deadline)
    return violation, samples.features.entries(samples.domain.problem.dynamics.preactivations(inputs))
