"""The master problem: the smallest potentials that satisfy all cuts found so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import NumericalError

Array = NDArray[np.float64]


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
