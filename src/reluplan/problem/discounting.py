"""Discounting: what rewards of later steps count today."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


SMALLEST_FACTOR = 1e-9
"""Nothing is divided by a factor below this, which would leave rounding alone: such steps decide nothing."""


def discount_factors(discount: float, count: int) -> Array:
    """γ^0, ..., γ^(count−1), shape (count,)."""
    return np.asarray(discount ** np.arange(count, dtype=np.float64))


def present_value(rewards: Array, final_reward: Array | float, discount: float) -> Array:
    """Σ_t γ^t rewards_t + γ^H final_reward for rewards of shape (..., H) and final rewards of shape (...).

    >>> float(present_value(np.array([1.0, 1.0]), 4.0, 0.5))
    2.5
    """
    if discount == 1.0:
        return np.asarray(rewards.sum(axis=-1) + final_reward)
    factors = discount_factors(discount, rewards.shape[-1] + 1)
    return np.asarray(rewards @ factors[:-1] + factors[-1] * final_reward)
