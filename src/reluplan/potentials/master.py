"""The master problem (the leader's QP): the smallest potentials that satisfy all cuts found so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import NumericalError
from reluplan.potentials.pattern_store import PatternStore
from reluplan.potentials.potentials import LARGEST_POTENTIAL

Array = NDArray[np.float64]


def master_potentials(store: PatternStore, weights: Array, regulariser: float) -> Array:
    """The values (K, N + 1) that are smallest at the weights (K, N + 1) and satisfy the cuts of a store."""
    rows, rewards = store.cut_rows()
    values = solve_master(rows, rewards, weights.ravel(), regulariser)
    if not np.isfinite(values).all() or np.abs(values).max(initial=0.0) > LARGEST_POTENTIAL:
        raise NumericalError("the potentials blow up: use a larger regulariser")
    return values.reshape(store.features.shape)


def solve_master(cuts: Array, rewards: Array, weights: Array, regulariser: float) -> Array:
    """min weights · v + λ |v|²  subject to  cuts v >= rewards; cuts (k, n) of zeros and ones, v (n,).

    With v = v_0 + z and v_0 = −weights/(2λ), the optimum without cuts, this is the least-distance problem
    min |z| s.t. cuts z >= rewards − cuts v_0, which Lawson and Hanson solve by one non-negative least squares:
    min_{u >= 0} |E u − e| with E = (cutsᵀ; dᵀ), d the right-hand side, e the last unit vector; z = −r_{1..n} / r_{n+1}
    for the residual r = E u − e.
    """
    from scipy.optimize import nnls  # slow to import, and not every command needs it

    centre = -weights / (2.0 * regulariser)
    demand = rewards - cuts @ centre
    if not len(demand) or demand.max() <= 0.0:
        return centre
    scale = float(np.abs(demand).max())
    stacked = np.vstack([cuts.T, demand / scale])
    target = np.zeros(len(stacked))
    target[-1] = 1.0
    try:
        multipliers, _ = nnls(stacked, target, maxiter=50 * len(demand))
    except RuntimeError:
        raise NumericalError("the master problem did not converge; try a larger regulariser") from None
    residual = stacked @ multipliers - target
    if residual[-1] >= -1e-14:  # zero means that no v satisfies the cuts, which cannot be
        raise NumericalError("the master problem has no solution within floating-point precision")
    values: Array = centre - scale * residual[:-1] / residual[-1]
    return values
