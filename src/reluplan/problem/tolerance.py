"""How much a constraint may be violated by a plan that is still called one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

TOLERANCE = 1e-6
"""For data of size one to a million, absolute; smaller data have it relative to their size."""
ROUNDING = 1e-12
"""Relative to data of any size: a rollout in floating point cannot do much better."""


@dataclass(frozen=True, eq=False)
class Tolerances:
    """Of every variable's bounds and of every row of C, I and G, each an array."""

    states: Array
    actions: Array
    auxiliaries: Array
    constraints: Array
    initial_constraints: Array
    goal: Array


def tolerance_for(size: ArrayLike) -> Array:
    """max(1e-6 · min(1, size), 1e-12 · size); a size that is unknown (infinite) or zero counts as one.

    An absolute tolerance of 1e-6 would be as large as data of millionths: plans gained by violations within it.
    """
    known = np.asarray(size, dtype=np.float64)
    known = np.where(np.isfinite(known) & (known > 0.0), known, 1.0)
    return np.maximum(TOLERANCE * np.minimum(1.0, known), ROUNDING * known)


def largest_size(lower: Array, upper: Array) -> Array:
    """The larger of |lower| and |upper| as far as they are finite, infinite if neither is."""
    low, high = np.abs(lower), np.abs(upper)
    known = np.maximum(np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0))
    return np.where(np.isfinite(low) | np.isfinite(high), known, np.inf)
