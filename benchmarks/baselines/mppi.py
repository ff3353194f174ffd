"""Model-predictive path integrals: the mean of random plans, weighted by the exponential of their rewards."""

from __future__ import annotations

import numpy as np

from .best import Best
from .noise import SMOOTHNESS, smooth
from .rollouts import Array, Rollouts

POPULATION = 600
STEPS = 60
TEMPERATURE = 0.1
"""In standard deviations of the better half's scores."""
NARROWING = 0.95


def mppi(rollouts: Rollouts, deadline: float, seed: int = 0) -> Best:
    """Runs until the deadline, every other one from the best plan."""
    rng = np.random.default_rng(seed)
    best = Best(rollouts, deadline)
    middle = np.tile((rollouts.lower + rollouts.upper) / 2, (rollouts.problem.horizon, 1))
    number = 0
    while not best.is_late:
        mean = best.actions if best.actions is not None and number % 2 == 1 else middle
        _run(best, rng, mean, 0.1 if number % 2 == 1 else 0.5, SMOOTHNESS[number // 2 % len(SMOOTHNESS)])
        best.charge_more()
        number += 1
    return best


def _run(best: Best, rng: np.random.Generator, mean: Array, share: float, correlation: float) -> None:
    """u ← Σ_k softmax(score_k / λ) u_k; the noise, a share of each action's range, gets smaller."""
    spread = share * (best.rollouts.upper - best.rollouts.lower)
    for _ in range(STEPS):
        drawn = mean + spread * smooth(rng, (POPULATION, *mean.shape), correlation)
        plans = best.rollouts.fitting(np.concatenate([drawn, mean[None]]))
        scores = best.scores(plans)
        if best.is_late or not np.isfinite(scores).any():
            return
        better = scores[scores >= np.median(scores)]
        power = (scores - scores.max()) / max(TEMPERATURE * float(better.std()), 1e-12)
        weights = np.exp(np.maximum(power, -700.0))
        mean = np.tensordot(weights / weights.sum(), plans, axes=1)
        spread = spread * NARROWING
