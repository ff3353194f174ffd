"""The cross-entropy method: draw plans around a mean, move mean and spread to the best of them, again and again."""

from __future__ import annotations

import numpy as np

from .best import Best
from .noise import SMOOTHNESS, smooth
from .rollouts import Array, Rollouts

POPULATION = 600
ELITES = 60
KEPT = 20
"""Elites that stay in the next population."""
INERTIA = 0.2
NARROW = 1e-3
"""Of the range of an action: a run whose spread is smaller has converged."""
LONGEST = 300


def cem(rollouts: Rollouts, deadline: float, seed: int = 0) -> Best:
    """Runs until the deadline: every other one from the middle, the others from the best plan with a smaller spread."""
    rng = np.random.default_rng(seed)
    best = Best(rollouts, deadline)
    side = rollouts.upper - rollouts.lower
    middle = np.tile((rollouts.lower + rollouts.upper) / 2, (rollouts.problem.horizon, 1))
    number = 0
    while not best.is_late:
        again = best.actions is not None and number % 2 == 1
        mean = best.actions if again and best.actions is not None else middle
        spread = np.tile((0.1 if again else 0.5) * side, (len(mean), 1))
        _run(best, rng, mean, spread, SMOOTHNESS[number // 2 % len(SMOOTHNESS)])
        best.charge_more()
        number += 1
    return best


def _run(best: Best, rng: np.random.Generator, mean: Array, spread: Array, correlation: float) -> None:
    """One run, until it has converged or the time is up."""
    narrow = NARROW * (best.rollouts.upper - best.rollouts.lower)
    kept = mean[None]
    for _ in range(LONGEST):
        drawn = mean + spread * smooth(rng, (POPULATION, *mean.shape), correlation)
        plans = best.rollouts.fitting(np.concatenate([drawn, kept]))
        scores = best.scores(plans)
        elites = plans[np.argsort(-scores)[:ELITES]]
        mean = INERTIA * mean + (1.0 - INERTIA) * elites.mean(axis=0)
        spread = INERTIA * spread + (1.0 - INERTIA) * elites.std(axis=0)
        kept = elites[:KEPT]
        if best.is_late or (spread < narrow).all():
            return
