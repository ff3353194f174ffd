"""What the bound may choose freely: any values give a bound, the best ones a good one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(eq=False)
class Parameters:
    """One array per kind, or their derivatives.

    unit_slopes: α of the lines below the network's units, (H, units); step_slopes, final_slopes, first_slopes: below
    the units of the functions of every step (H, ·), of the final and of the first state (1, ·); all in [0, 1].
    box_shares: β in [0, 1], (H, states): which share of the coefficient of s_{t+1} ends at its box.
    state_pushes: m, (H, states): multipliers of l <= s_{t+1} <= u, of any sign.
    row_multipliers, goal_multipliers, first_multipliers: μ of the rows of C (H, ·), G and I (1, ·); at least 0 unless
    a row is an equation.
    """

    unit_slopes: Array
    step_slopes: Array
    final_slopes: Array
    first_slopes: Array
    box_shares: Array
    state_pushes: Array
    row_multipliers: Array
    goal_multipliers: Array
    first_multipliers: Array

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Each kind by its name."""
        return ((field.name, getattr(self, field.name)) for field in fields(self))

    def copied(self) -> Parameters:
        """The same values in arrays of their own."""
        return Parameters(**{name: array.copy() for name, array in self.arrays()})
