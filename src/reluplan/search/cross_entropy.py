"""The cross-entropy method: the next population is fitted to the best plans of the last."""

from __future__ import annotations

import numpy as np

from reluplan.search.context import Context
from reluplan.search.population import Population, Sample, moments
from reluplan.search.restarts import refine, start
from reluplan.search.settings import PopulationSettings
from reluplan.search.time_slice import Paused


def cross_entropy(context: Context) -> Paused[None]:
    """One run to the end, from everywhere or around the best plan, and local search from where it ends."""
    population = start(context)
    yield from refine(context, population, fitted, "cross-entropy")


def fitted(population: Population, sample: Sample, settings: PopulationSettings) -> Population:
    """Mean and spread of the elite, the rest of them as they were: μ' = (1 − α) μ + α μ_elite, σ likewise.

    The spread stays above a floor, so that the population does not freeze before its mean is good.
    """
    elite = sample.take(sample.order[: max(settings.fewest_elite, int(settings.elite * len(sample.merits)))])
    mean, spread = moments(elite, np.full(len(elite.merits), 1.0 / len(elite.merits)))
    rate = settings.rate
    return Population(
        mean.plus(population.mean.minus(mean), np.array([1.0 - rate])),
        spread.plus(population.spread.minus(spread), np.array([1.0 - rate])).at_least(settings.smallest_spread),
        elite.exponents,
    )
