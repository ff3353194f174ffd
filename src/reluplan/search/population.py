"""Populations of plans: sampled from a normal distribution that moves to where the best of them are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.merit import Score
from reluplan.search.noise import coloured
from reluplan.search.settings import PopulationSettings
from reluplan.search.time_slice import Paused

Array = NDArray[np.float64]
Update = Callable[["Population", "Sample", PopulationSettings], "Population"]
"""The next population, from a sample of the last one."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Plans as shares of their boxes, how smooth the noise was that made each (B,), their scores, and what violations
    cost."""

    shares: Decisions
    exponents: Array
    score: Score
    penalty: float

    @cached_property
    def merits(self) -> Array:
        """Of each plan, (B,)."""
        return self.score.merit(self.penalty)

    @property
    def order(self) -> NDArray[np.int64]:
        """Best first."""
        return np.argsort(-self.merits, kind="stable")

    def take(self, which: NDArray[np.int64]) -> Sample:
        return Sample(self.shares.take(which), self.exponents[which], self.score.take(which), self.penalty)

    def joined(self, other: Sample) -> Sample:
        """The plans of both, at the penalty of this one."""
        return Sample(
            Decisions.join([self.shares, other.shares]),
            np.concatenate([self.exponents, other.exponents]),
            Score.join([self.score, other.score]),
            self.penalty,
        )

    def at_penalty(self, penalty: float) -> Sample:
        """The same plans where violations cost something else."""
        return Sample(self.shares, self.exponents, self.score, penalty)


@dataclass(frozen=True, eq=False)
class Population:
    """Normally distributed plans: mean and spread of each decision, in shares of its box (batches of one).

    exponents: of the noise (`noise.coloured`) that made good plans last time, from which new ones are drawn.
    """

    mean: Decisions
    spread: Decisions
    exponents: Array

    @classmethod
    def everywhere(cls, context: Context) -> Population:
        """Over the whole box."""
        middle = [np.full(part.shape, 0.5) for part in context.box.lower.parts]
        return cls(Decisions(*middle), Decisions(*middle), _first_exponents(context))

    @classmethod
    def around(cls, context: Context, plan: Decisions, spread: float) -> Population:
        """Around one plan."""
        shares = context.box.shares(plan)
        parts = [np.full(part.shape, spread) for part in shares.parts]
        return cls(shares, Decisions(*parts), _first_exponents(context))

    def draw(self, context: Context, count: int) -> tuple[Decisions, Array]:
        """Plans of the population as shares, the first of them its mean; and the exponents of their noise."""
        rng = context.rng
        settings = context.settings.population
        exponents = rng.choice(self.exponents, count) + settings.exponent_noise * rng.standard_normal(count)
        exponents = np.clip(exponents, 0.0, settings.largest_exponent)
        _, horizon, actions = self.mean.actions.shape
        noise = Decisions(
            rng.standard_normal((count, self.mean.initial.shape[1])),
            coloured(rng, exponents, horizon, actions),
            coloured(rng, exponents, horizon + 1, self.mean.auxiliaries.shape[2]),
        )
        pairs = zip(self.mean.parts, self.spread.parts, noise.parts, strict=True)
        parts = [mean + spread * part for mean, spread, part in pairs]
        for part, mean in zip(parts, self.mean.parts, strict=True):
            part[:1] = mean
        return context.box.clipped_shares(Decisions(*parts)), exponents


def evolve(
    context: Context, population: Population, update: Update, source: str, first_share: float = 1.0
) -> Paused[Sample | None]:
    """Sample, keep the best, move the population to them, until that no longer helps; the best of all, best first.

    first_share: of the penalty of violations, p, that they cost in the first generation. It rises by a constant factor
    in each of the first G generations, p_g = p · first_share^(1 − g/G): a homotopy from a problem nearly without
    constraints, along which the population is led out of what may not be entered. None where even a small sample would
    take too long.
    """
    settings = context.settings.population
    count = min(_size(context), int(settings.operations / context.operations(1)))
    if count < settings.fewest:
        return None
    kept: Sample | None = None
    stale = 0
    for generation in range(settings.generations):
        share = first_share ** max(0.0, 1.0 - generation / settings.rising)
        penalty = share * context.merit.penalty
        kept = None if kept is None else kept.at_penalty(penalty)
        before = -np.inf if kept is None else kept.merits.max()
        sample = yield from _sampled(context, *population.draw(context, count), source, penalty)
        sample = sample if kept is None else sample.joined(kept)
        population = update(population, sample, settings)
        kept = sample.take(sample.order[: settings.kept])
        worthwhile = settings.worthwhile * max(abs(kept.merits[0]), settings.worthwhile)
        is_eased = share < 1.0 and bool((kept.score.violation > 0.0).any())
        stale = 0 if is_eased or kept.merits[0] > before + worthwhile else stale + 1
        if stale >= settings.patience or not np.isfinite(kept.merits[0]):
            break
    return kept


def _size(context: Context) -> int:
    """Of the generations of one run: small ones are quick, large ones thorough."""
    settings = context.settings.population
    return int(settings.smallest * (settings.plans / settings.smallest) ** context.rng.random())


def _sampled(context: Context, shares: Decisions, exponents: Array, source: str, penalty: float) -> Paused[Sample]:
    """Score plans in float32, and offer those that promise to be better than the best."""
    plans = context.box.at(shares)
    score = yield from context.sample(plans)
    merits = score.merit(context.merit.penalty)
    for which in {int(np.argmax(merits)), int(np.argmax(np.where(score.feasible, merits, -np.inf)))}:
        if merits[which] > context.best_merit or (score.feasible[which] and not context.found):
            context.offer(plans.take(np.array([which])), source)
    return Sample(shares, exponents, score, penalty)


def _first_exponents(context: Context) -> Array:
    return np.array(context.settings.population.first_exponents)


def moments(sample: Sample, weights: Array) -> tuple[Decisions, Decisions]:
    """Mean and standard deviation of each decision under weights (B,) that sum to one."""
    means, spreads = [], []
    for part in sample.shares.parts:
        mean = np.tensordot(weights, part, axes=1)[None]
        means.append(mean)
        spreads.append(np.sqrt(np.tensordot(weights, (part - mean) ** 2, axes=1))[None])
    return Decisions(*means), Decisions(*spreads)
