"""Where a run of a population begins, and what becomes of the plans that it ends with."""

from __future__ import annotations

import numpy as np

from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.gradient_ascent import ascend
from reluplan.search.local_search import local_search
from reluplan.search.population import Population, Update, evolve
from reluplan.search.sliding_window import fits
from reluplan.search.time_slice import Paused, Stopwatch


def start(context: Context) -> Population:
    """Everywhere, or around the best plan, nearer or farther."""
    settings = context.settings.population
    if not context.optima.count or context.best is None or context.rng.random() >= settings.around:
        return Population.everywhere(context)
    spread = settings.near * (settings.far / settings.near) ** context.rng.random()
    return Population.around(context, Decisions.of(context.best), spread)


def refine(context: Context, population: Population, update: Update, source: str) -> Paused[None]:
    """Evolve a population, let gradients settle the best plans, and improve the best of them by local search, for as
    long as that took: what it leaves of a plan that has become the best is `improve_best`'s.

    In some runs, at random, violations cost the population little at first: where every way to a better plan leads
    through what may not be entered, it is found there, and led out while the penalty rises.
    A run that ends without a plan that keeps every constraint raises the penalty for those after it.
    """
    settings, watch = context.settings.population, Stopwatch()
    first_share = settings.eased_penalty if context.rng.random() < settings.eased else 1.0
    kept = yield from watch.of(evolve(context, population, update, source, first_share))
    if kept is None:
        return
    best = context.box.at(kept.shares.take(np.arange(min(settings.ascending, len(kept.merits)))))
    ascended, merits = yield from ascend(context, best, settings.ascent)
    plan = context.offer(ascended.take(np.array([int(np.argmax(merits))])), source)
    if fits(context):
        yield from watch.of(local_search(context, plan), watch.seconds)
    if not context.found:
        context.raise_penalty()
