"""Activation patterns as features: which ReLUs are off, and in which output interval the others are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

MOST_INTERVALS = 100
"""Entries are counted in eight bits; and far fewer are of use."""
EDGE = 1e-7
"""How close to an edge a value counts as on it (relative to the unit's ceiling, at least absolute)."""


@dataclass(frozen=True, eq=False)
class PatternFeatures:
    """The features of a pattern: for each unit u one of N + 1 entries, 0 = off, i = on with P_u in interval i.

    units: (K,) flat indices of ReLUs. ceilings: (K,) proven upper bounds N_u of their outputs. Interval i of unit u is
    [N_u (i−1)/N, N_u i/N], closed at both ends: a value on an edge may count for either side, as may P = 0 (off, or on
    in interval 1). Potentials hold for every choice, since the subproblem and the plan share this encoding.
    """

    units: Index
    ceilings: Array
    interval_count: int

    @property
    def unit_count(self) -> int:
        return len(self.units)

    @property
    def shape(self) -> tuple[int, int]:
        """(units, entries of a unit): the shape of potentials."""
        return self.unit_count, self.interval_count + 1

    def key(self) -> bytes:
        """Equal for features that are encoded alike."""
        return b"%d:" % self.interval_count + self.units.tobytes() + self.ceilings.tobytes()

    def breakpoints(self) -> Array:
        """The edges of the intervals, shape (K, N + 1)."""
        return self.ceilings[:, None] * np.linspace(0.0, 1.0, self.interval_count + 1)

    def entries(self, preactivations: Array) -> NDArray[np.int8]:
        """The entry of every unit, (..., relu_count) to (..., K)."""
        pre = preactivations[..., self.units]
        with np.errstate(divide="ignore", invalid="ignore"):
            interval = np.ceil(pre * (self.interval_count / self.ceilings))
        return np.where(pre > 0.0, np.clip(interval, 1, self.interval_count), 0).astype(np.int8)

    def possible_entries(self, preactivations: Array) -> NDArray[np.bool_]:
        """All entries that a unit may count for, (..., relu_count) to (..., K, N + 1): several on an edge."""
        pre = preactivations[..., self.units, None]
        edges = self.breakpoints()
        slack = EDGE * np.maximum(1.0, self.ceilings[:, None])
        output = np.maximum(pre, 0.0)
        on = (pre >= -slack) & (output >= edges[:, :-1] - slack) & (output <= edges[:, 1:] + slack)
        on[..., -1] |= output[..., 0] > edges[:, -1]
        possible: NDArray[np.bool_] = np.concatenate([pre <= slack, on], axis=-1)
        return possible

    def one_hot(self, entries: NDArray[np.int8]) -> Array:
        """Rows of zeros and ones, (..., K) to (..., K (N + 1)): a cut's coefficients."""
        hot = entries[..., None] == np.arange(self.interval_count + 1, dtype=np.int8)
        rows: Array = hot.reshape(*entries.shape[:-1], self.unit_count * (self.interval_count + 1)).astype(np.float64)
        return rows

    def sum_values(self, values: Array, entries: NDArray[np.int8]) -> Array:
        """φ of each pattern: Σ_u values[u, entry_u], (..., K) to (...)."""
        return np.asarray(values[np.arange(self.unit_count), entries].sum(axis=-1))


def neighbours(entries: NDArray[np.int8], interval_count: int) -> NDArray[np.int8]:
    """The patterns that differ in one unit by one entry, (k, K)."""
    moves = np.vstack([np.eye(len(entries), dtype=np.int8), -np.eye(len(entries), dtype=np.int8)])
    moved: NDArray[np.int8] = entries + moves
    return moved[((moved >= 0) & (moved <= interval_count)).all(axis=1)]
