"""How much a solver's dual bound may be wrong: the room that every printed bound leaves for it."""

from __future__ import annotations

import math

RELATIVE_MARGIN = 1e-6
"""Of every bound that rests on a solver's floating-point proof."""
MARGIN_PER_COLUMN = 1e-8
"""Error for each column: reduced costs are right to about 1e-7 of a column's range, mostly better."""


def bound_margin(bound: float, column_count: int) -> float:
    """max(1e-6 · max(1, |bound|), 1e-8 · columns), to be added to a MILP's dual bound."""
    size = abs(bound) if math.isfinite(bound) else 0.0
    return max(RELATIVE_MARGIN * max(1.0, size), MARGIN_PER_COLUMN * column_count)
