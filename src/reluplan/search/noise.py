"""Random noise over the steps of a plan: plans that hold a direction for a while reach what jitter never does."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]


def coloured(rng: Generator, exponents: Array, length: int, width: int) -> Array:
    """Gaussian noise of variance one with a power spectrum 1 / f^β, β of each plan its own: shape (B, length, width).

    β = 0 is white noise, larger ones are smoother (Pinneri et al., 2020). The frequency zero counts as the lowest one.
    """
    frequencies = np.fft.rfftfreq(length)
    frequencies[0] = 1.0 / length
    amplitude = frequencies[None, :, None] ** (-exponents[:, None, None] / 2.0)
    shape = (len(exponents), len(frequencies), width)
    spectrum = amplitude * (rng.standard_normal(shape) + 1j * rng.standard_normal(shape))
    spectrum[:, 0].imag = 0.0
    spectrum[:, 0].real *= np.sqrt(2.0)
    if length % 2 == 0:
        spectrum[:, -1].imag = 0.0
        spectrum[:, -1].real *= np.sqrt(2.0)
    power = np.full((len(frequencies), 1), 2.0)
    power[0] = 1.0
    if length % 2 == 0:
        power[-1] = 1.0
    variance = 2.0 * (amplitude**2 * power).sum(axis=1, keepdims=True) / length**2
    return np.asarray(np.fft.irfft(spectrum, n=length, axis=1) / np.sqrt(variance))
