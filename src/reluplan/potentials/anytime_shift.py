"""The anytime shift: whatever ended the search, the bound that it proved makes potentials valid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.optimisation.margin import RELATIVE_MARGIN
from reluplan.potentials.features import PatternFeatures
from reluplan.potentials.potentials import RewardPotentials

Array = NDArray[np.float64]


def potential_size(values: Array) -> float:
    """The largest that |φ| could be, at least one: the scale of rounding errors in R − φ."""
    return max(1.0, float(np.abs(values).max(axis=1, initial=0.0).sum()))


def proven_potentials(
    features: PatternFeatures,
    values: Array,
    proof_bound: float,
    proof: str,
    first: int,
    last: int,
    proof_margin: float = 0.0,
) -> RewardPotentials:
    """Shift potentials by their proof bound, so that they hold whenever and however the search for them ended.

    Every unit counts with exactly one entry, so adding (max(0, D) + τ)/K to all entries adds max(0, D) + τ to φ;
    without units a constant D + τ remains. τ covers the tolerances of the solver that proved D: the margin of its
    proof, and at least 1e-6 of the largest that φ could be, or 1e-6.
    """
    margin = max(proof_margin, RELATIVE_MARGIN * max(abs(proof_bound), potential_size(values)))
    count = features.unit_count
    if count == 0:
        return RewardPotentials(features, values, proof_bound + margin, proof_bound, margin, proof, first, last)
    shifted = values + (max(0.0, proof_bound) + margin) / count
    return RewardPotentials(features, shifted, 0.0, proof_bound, margin, proof, first, last)
