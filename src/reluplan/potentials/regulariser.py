"""The regulariser λ: by default, potentials without cuts have the size of the rewards that matter."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from reluplan.potentials.domain import StepDomain
from reluplan.potentials.features import PatternFeatures
from reluplan.potentials.settings import PAPER_REGULARISER, PotentialSettings
from reluplan.potentials.step_samples import StepSamples

Array = NDArray[np.float64]

SMALLEST_SIZE = 1e-6
"""Of rewards, absolute and relative to the sampled ones: rewards that are all zero must not make λ infinite."""


def sampled_reward_size(
    domain: StepDomain, features: PatternFeatures, settings: PotentialSettings, deadline: float
) -> float:
    """The mean |R| of random steps; inf if none is found by the deadline."""
    samples = StepSamples(domain, features, np.random.default_rng(settings.seed), settings.sampling)
    samples.sample(settings.samples, deadline)
    return float(np.abs(samples.rewards).mean()) if len(samples) else math.inf


def default_regulariser(sampled_size: float, plan_rewards: Array, unit_count: int, reward_scale: float) -> float:
    """λ = max(1/√M, K/(2S)), so that φ = −S without cuts.

    S = min(reward_scale · median |R| of greedy plans, mean |R| of samples): sampled steps are of another size where
    most of the box is of no interest. Without plans, S is the sampled size.
    """
    size = sampled_size
    if len(plan_rewards):
        size = max(min(size, reward_scale * float(np.median(np.abs(plan_rewards)))), SMALLEST_SIZE * size)
    return max(PAPER_REGULARISER, unit_count / (2.0 * max(size, SMALLEST_SIZE)))
