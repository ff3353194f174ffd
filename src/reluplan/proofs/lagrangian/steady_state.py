"""Values of the state in which a plan rests: one repeated window, valued for itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.proofs.lagrangian.decomposition import Decomposition, Valuation

Array = NDArray[np.float64]

FIRST_RADIUS, SMALLEST_RADIUS = 0.5, 0.02
SHORTER = 0.4
"""Two proposals at a time: one in the whole trust region, one in this share of it."""
LONGEST_ROUND = 0.4
"""No round of MILPs gets more than this share of the time that is left."""
ENOUGH = 0.2
"""The search ends when this share of the loss is left: narrower boxes then help more."""


def value_rest(
    rest: Decomposition, candidates: Sequence[Array], scale: Array, deadline: float, tolerance: float
) -> Array:
    """The λ (2n,) with the smallest D(λ) of a window that ends where it begins, found by the bundle method.

    rest: the one piece, with free ends. candidates: λ to begin with. scale: the size of a step in each entry.
    tolerance: a loss of this much (over all windows) is none. Until the deadline, of clock.now.
    """
    earned = float(rest.counts[0] * rest.cuts[0].rewards[0])
    best = _best(rest, candidates, deadline, tolerance)
    enough = max(tolerance, ENOUGH * (best.total - earned))
    radius = FIRST_RADIUS
    while best.total - earned > enough and radius >= SMALLEST_RADIUS and clock.now() < deadline:
        proposals, promised = _propose(rest, best, radius * np.tile(scale, (2, 1)))
        if not best.total - promised > tolerance:
            break
        trial = _best(rest, proposals, deadline, max(tolerance, 0.01 * (best.total - earned)))
        far = bool(np.array_equal(trial.values[0], proposals[0]))
        if best.total - trial.total >= 0.1 * (best.total - promised):
            best, radius = trial, radius * (1.5 if far else 2.0 * SHORTER)
        else:
            radius *= 0.5 * SHORTER
    return np.asarray(best.values[0])


def _propose(rest: Decomposition, best: Valuation, radius: Array) -> tuple[list[Array], float]:
    """A proposal in the trust region and one closer by, and the smallest total that the cuts allow."""
    far, promised = rest.propose(best.values, radius, best.total)
    near, _ = rest.propose(best.values, SHORTER * radius, best.total)
    return [far[0], near[0]], promised


def _best(rest: Decomposition, candidates: Sequence[Array], deadline: float, tolerance: float) -> Valuation:
    """The best of some λ."""
    now = clock.now()
    limit = min(deadline, now + max(1.0, LONGEST_ROUND * (deadline - now)))
    found = rest.evaluate_all([np.tile(value, (2, 1)) for value in candidates], limit, tolerance)
    return min(found, key=lambda valuation: valuation.total)
