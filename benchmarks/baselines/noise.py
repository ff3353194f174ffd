"""Random plans."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from .rollouts import Array

SMOOTHNESS = (0.0, 0.6, 0.9, 0.97)
"""Correlations of consecutive actions; a run takes the next one."""


def smooth(rng: Generator, shape: tuple[int, ...], correlation: float) -> Array:
    """Standard normal noise (P, H, m), e_t = c e_{t−1} + √(1 − c²) z_t along the steps."""
    noise = rng.standard_normal(shape)
    for t in range(1, shape[1]):
        noise[:, t] = correlation * noise[:, t - 1] + np.sqrt(1.0 - correlation**2) * noise[:, t]
    return noise
