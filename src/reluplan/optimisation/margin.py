"""How much a solver's dual bound may be wrong: the room that every bound from a solver leaves for it.

A branch-and-bound bound is the largest of its leaves' LP bounds. A leaf's duals have signs that are right to the
solver's tolerance δ, so with the ranges of columns and slacks (u − l), in the units that the solver works in,

    true bound of the leaf <= claimed bound + δ · (Σ_j (u_j − l_j) + Σ_i range of row i's slack).

Every column and every row is in this sum (`ScaledModel.total_range`): continuous ranges are about one, those of
integers below 2^14 (wider ones are continuous, `scaling`), and the objective is scaled so that the largest contribution
of a column is at least 2^13 solver units, so that each unit of range costs at most 2^-13 δ of it. On top of that two
floors, for what the argument leaves out (cut-offs, presolve): 1e-6 of the bound, and 2^-26 of the largest contribution
of a column; and 2^-50 of all that is summed up for a value, Σ_j |c_j| max(|l_j|, |u_j|) + |offset|, for rounding.
"""

from __future__ import annotations

import math

from reluplan.optimisation.scaling import ScaledModel

RELATIVE_MARGIN = 1e-6
"""Of every bound that rests on a solver's floating-point proof."""
ROUNDING = 2.0**-50
"""Of the terms that a value adds up."""
LARGEST_SHARE = 2.0**-26
"""Of the largest |c_j| (u_j − l_j)."""


def bound_margin(scaled: ScaledModel, bound: float, dual_tolerance: float) -> float:
    """What to add to a solver's dual bound, which is in the original units."""
    if not math.isfinite(bound):
        return 0.0
    wrong_signs = scaled.from_scaled_value(dual_tolerance * scaled.total_range)
    rounding = ROUNDING * scaled.cost_size
    return max(RELATIVE_MARGIN * abs(bound), LARGEST_SHARE * scaled.largest_cost, wrong_signs) + rounding
