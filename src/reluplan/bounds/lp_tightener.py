"""Optimality-based bound tightening (OBBT) over one LP: the range of a linear form, proven by duality."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.interval import round_outward
from reluplan.errors import InfeasibleError
from reluplan.optimisation.model import Index
from reluplan.optimisation.persistent_lp import PersistentLp

Array = NDArray[np.float64]


class LpTightener:
    """Maximises and minimises linear forms over an LP, and keeps what is tighter than known bounds.

    deadline: of clock.now; afterwards everything stays as it is known. worthwhile: a side that moves by less than this
    share of the known width stays as it was.
    """

    def __init__(self, lp: PersistentLp, deadline: float = math.inf, worthwhile: float = 0.0) -> None:
        self._lp = lp
        self._deadline = deadline
        self._worthwhile = worthwhile

    def column(self, column: int, low: float, high: float, deadline: float | None = None) -> tuple[float, float]:
        """Bounds of one column, which the LP itself takes over; deadline: another one than that of all."""
        found = self.form(np.array([column]), np.ones(1), low, high, deadline)
        self._lp.set_bounds(column, *found)
        return found

    def columns(self, columns: Index, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Bounds of many columns, one after the other; arrays of one shape."""
        low, high = lower.ravel().copy(), upper.ravel().copy()
        for place, column in enumerate(columns.ravel().tolist()):
            if high[place] > low[place]:
                low[place], high[place] = self.column(column, float(low[place]), float(high[place]))
        return low.reshape(lower.shape), high.reshape(upper.shape)

    def form(
        self, columns: Index, values: Array, low: float, high: float, deadline: float | None = None
    ) -> tuple[float, float]:
        """Bounds of values · x[columns], rounded outward. Raises InfeasibleError if they prove that there is no x."""
        until = self._deadline if deadline is None else deadline
        if clock.now() > until:
            return low, high
        least = -self._lp.maximum(columns, -values, until)
        most = self._lp.maximum(columns, values, until)
        found_low, found_high = (float(side) for side in round_outward(np.array(least), np.array(most)))
        if found_low > found_high:
            raise InfeasibleError("no point satisfies the constraints")
        enough = self._worthwhile * (high - low) if math.isfinite(high - low) else 0.0
        return found_low if found_low > low + enough else low, found_high if found_high < high - enough else high
