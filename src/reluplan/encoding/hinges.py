"""Hinge features of the value function: linear on both sides of a hinge in each state.

    V(s) = λ · f(s),   f(s) = (s, max(0, c − s)),

so λ has two entries for each state: its slope above c, and what is added for each unit below. In a steady state the
worth of a state has such a hinge: to lose what one has and to get more are two different things.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.optimisation.model import Index, ModelBuilder

Array = NDArray[np.float64]


def features(states: Array, hinges: Array) -> Array:
    """f(s) of states (..., n), shape (..., 2n); a hinge at −inf is none."""
    return np.concatenate([states, np.maximum(0.0, hinges - states)], axis=-1)


def add_hinges(builder: ModelBuilder, states: Index, lower: Array, upper: Array, hinges: Array) -> tuple[Index, Index]:
    """Columns h = max(0, c − s), exactly, for state columns in finite boxes; returns them and their binaries, each
    (n,), -1 for a binary that is not needed.

        h >= c − s,   h <= c − s + (upper − c)(1 − b),   h <= (c − lower) b.
    """
    has = np.isfinite(hinges)
    switches = has & (lower < hinges) & (hinges < upper)
    below = np.where(has, np.maximum(hinges - lower, 0.0), 0.0)
    above = np.where(switches, upper - hinges, 0.0)
    columns = builder.add_columns(np.zeros(len(hinges)), below, name="below")
    binaries = np.full(len(hinges), -1, dtype=np.int64)
    binaries[switches] = builder.add_columns(np.zeros(int(switches.sum())), 1.0, True, name="is_below")
    for which, row_lower, row_upper in (
        (has, hinges, np.where(upper <= hinges, hinges, np.inf)),
        (switches, np.full(len(hinges), -np.inf), hinges + above),
    ):
        rows = builder.add_rows(row_lower[which], row_upper[which], name="hinge")
        builder.add_entries(rows, columns[which], 1.0)
        builder.add_entries(rows, states[which], 1.0)
    builder.add_entries(rows, binaries[switches], above[switches])
    rows = builder.add_rows(np.full(int(switches.sum()), -np.inf), 0.0, name="hinge")
    builder.add_entries(rows, columns[switches], 1.0)
    builder.add_entries(rows, binaries[switches], -below[switches])
    return columns, binaries


@dataclass(frozen=True, eq=False)
class HingeColumns:
    """Where max(0, c − s_t) of each state stands in a model, (n,), and the binaries, -1 for none."""

    step: int
    hinges: Array
    columns: Index
    binaries: Index

    def fill(self, x: Array, states: Array) -> None:
        """Write their values for states (H + 1, n) into the solution vector x."""
        below = np.maximum(0.0, self.hinges - states[self.step])
        x[self.columns] = below
        switches = self.binaries >= 0
        x[self.binaries[switches]] = below[switches] > 0.0
