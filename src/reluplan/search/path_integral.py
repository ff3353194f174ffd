"""Model predictive path integrals: the next mean is the mean of all plans, weighted by their merits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.population import Population, Sample, moments
from reluplan.search.restarts import refine, start
from reluplan.search.settings import PopulationSettings
from reluplan.search.time_slice import Paused

Array = NDArray[np.float64]


def path_integral(context: Context) -> Paused[None]:
    """One run to the end, from everywhere or around the best plan, and local search from where it ends."""
    population = start(context)
    yield from refine(context, population, weighted, "path integral")


def weighted(population: Population, sample: Sample, settings: PopulationSettings) -> Population:
    """μ' = Σ w_i x_i with w_i ∝ exp((merit_i − best) / λ); the spread falls by a factor, whatever the plans.

    The temperature λ is what the elite's worst plan is behind the best, so that scales of rewards do not matter.
    """
    weights = _weights(sample, max(settings.fewest_elite, int(settings.elite * len(sample.merits))))
    mean, _ = moments(sample, weights)
    smaller = Decisions(*(settings.cooling * part for part in population.spread.parts))
    likely = sample.exponents[sample.order[: settings.fewest_elite]]
    return Population(mean, smaller.at_least(settings.smallest_spread), likely)


def _weights(sample: Sample, elite: int) -> Array:
    """Of each plan, summing to one; plans that lead to no number have none."""
    merits = sample.merits
    best, worst = merits[sample.order[0]], merits[sample.order[min(elite, len(merits)) - 1]]
    temperature = max(best - worst, 1e-12) if np.isfinite(worst) else max(1.0, abs(best))
    weights = np.exp((merits - best) / temperature)
    return np.asarray(weights / weights.sum())
