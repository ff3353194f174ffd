"""Reward potentials with their proof."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.potentials.features import PatternFeatures

Array = NDArray[np.float64]

LARGEST_POTENTIAL = 1e12
"""Beyond this size no solver's tolerance leaves anything of a reward."""


@dataclass(frozen=True, eq=False)
class RewardPotentials:
    """φ(pattern) = constant + Σ_u values[u, entry_u] >= R for every feasible step of the steps first..last (from 0).

    values: (K, N + 1), column 0 for off, column i for interval i. proof_bound: D >= max(R − φ) of the values before
    the shift by (max(0, D) + margin) / K that made them valid. proof: what proved D. constant: only without units.
    """

    features: PatternFeatures
    values: Array
    constant: float
    proof_bound: float
    margin: float
    proof: str
    first: int
    last: int

    def value(self, preactivations: Array) -> Array:
        """φ of the patterns of pre-activations (..., relu_count)."""
        entries = self.features.entries(preactivations)
        return np.asarray(self.constant + self.features.sum_values(self.values, entries))
