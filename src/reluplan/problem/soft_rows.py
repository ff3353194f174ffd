"""Soft constraints: rows that a plan may break at a price.

A row g(w) <= 0 of weight c takes c · max(0, g(w)) from the reward of every step, a row g(w) == 0 takes c · |g(w)|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SoftRow:
    """One of them; the reward of its problem has its price already."""

    constraint: Constraint
    weight: float

    @property
    def penalty(self) -> PiecewiseLinear:
        """What it takes from the reward of a step, as a function of w."""
        function = self.constraint.function
        if self.constraint.equality:
            excess = PiecewiseLinear.absolute(function)
        else:
            excess = PiecewiseLinear.maximum([function, PiecewiseLinear.constant_of(0.0, function.width)])
        return excess * self.weight

    def excess(self, w: Array) -> Array:
        """By how much steps break the row, (H, width) to (H,)."""
        return np.maximum(self.constraint.violation(w), 0.0)
