"""Values of states: linear on both sides of a kink in each state.

    V(s) = θ · f(s),   f(s) = (s, max(0, c − s)),

so θ has two entries for each state: its slope above c, and what is added for each unit below. Where a plan rests, the
worth of a state has such a kink: to lose what one has and to get more are two different things.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.optimisation.model import Index, ModelBuilder

Array = NDArray[np.float64]


def features(states: Array, kinks: Array) -> Array:
    """f(s) of states (..., n), shape (..., 2n); a kink at −inf is none."""
    return np.concatenate([states, np.maximum(0.0, kinks - states)], axis=-1)


def add_kinks(builder: ModelBuilder, states: Index, lower: Array, upper: Array, kinks: Array) -> tuple[Index, Index]:
    """Columns h = max(0, c − s), exactly, for state columns in finite boxes; returns them and their binaries, each
    (n,), -1 for a binary that is not needed.

        h >= c − s,   h <= c − s + (upper − c)(1 − b),   h <= (c − lower) b.
    """
    has = np.isfinite(kinks)
    switches = has & (lower < kinks) & (kinks < upper)
    below = np.where(has, np.maximum(kinks - lower, 0.0), 0.0)
    above = np.where(switches, upper - kinks, 0.0)
    hinges = builder.add_columns(np.zeros(len(kinks)), below, name="below")
    binaries = np.full(len(kinks), -1, dtype=np.int64)
    binaries[switches] = builder.add_columns(np.zeros(int(switches.sum())), 1.0, True, name="is_below")
    for which, row_lower, row_upper in (
        (has, kinks, np.where(upper <= kinks, kinks, np.inf)),
        (switches, np.full(len(kinks), -np.inf), kinks + above),
    ):
        rows = builder.add_rows(row_lower[which], row_upper[which], name="kink")
        builder.add_entries(rows, hinges[which], 1.0)
        builder.add_entries(rows, states[which], 1.0)
    builder.add_entries(rows, binaries[switches], above[switches])
    rows = builder.add_rows(np.full(int(switches.sum()), -np.inf), 0.0, name="kink")
    builder.add_entries(rows, hinges[switches], 1.0)
    builder.add_entries(rows, binaries[switches], -below[switches])
    return hinges, binaries
