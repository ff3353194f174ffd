"""Pattern features as MILP columns: which entry each unit is in, at each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.boxes import HorizonBounds
from reluplan.encoding.relu import StepColumns
from reluplan.optimisation.model import Index, ModelBuilder
from reluplan.potentials.features import PatternFeatures

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EntryColumns:
    """How the entries of K units stand in a model at one step.

    binaries (K,): b_u, -1 for units that cannot switch at this step. intervals (K, N): q_{u,i}, -1 if absent.
    possible (K, N + 1): the entries that the step's bounds allow.
    """

    features: PatternFeatures
    step: int
    binaries: Index
    intervals: Index
    possible: NDArray[np.bool_]

    @property
    def switched(self) -> NDArray[np.bool_]:
        """The units with a binary b_u, (K,)."""
        return self.binaries >= 0

    @property
    def split(self) -> NDArray[np.bool_]:
        """The units with binaries q_{u,i}, (K,)."""
        return self.intervals[:, 0] >= 0

    def linear_form(self, values: Array, largest: bool) -> tuple[Index, Array, float]:
        """φ = Σ_u [Σ_i von_{u,i} q_{u,i} + voff_u (1 − b_u)] as (columns, coefficients, constant); values (K, N + 1).

        A unit without columns counts with the largest value that it may have (for a row that says φ >= R), or the
        smallest (for an objective R − φ whose maximum must not be missed); they are equal if only one is possible.
        """
        off = values[:, 0]
        on = values[:, 1:]
        split = self.split
        switched = self.switched
        single = switched & ~split  # one interval: q = b
        loose = ~switched & ~split
        sign = 1.0 if largest else -1.0
        extreme = sign * np.where(self.possible, sign * values, -np.inf).max(axis=1)
        constant = off[switched].sum() + extreme[loose].sum()
        columns = [self.binaries[switched], self.binaries[single], self.intervals[split].ravel()]
        coefficients = [-off[switched], on[single, 0], on[split].ravel()]
        return np.concatenate(columns), np.concatenate(coefficients), float(constant)

    def shares(self, x: Array) -> Array:
        """The share of every entry in a solution whose binaries may be fractional, (K, N + 1)."""
        shares: Array = self.possible / np.maximum(1, self.possible.sum(axis=1, keepdims=True))
        switched = self.switched
        split = self.split
        shares[switched, 0] = 1.0 - x[self.binaries[switched]]
        shares[switched, 1:] = 0.0
        shares[switched, 1] = x[self.binaries[switched]]
        shares[split, 1:] = x[self.intervals[split]]
        return np.clip(shares, 0.0, 1.0)

    def fill(self, x: Array, units: Array) -> None:
        """Write the intervals of pre-activations (relu_count,) into a solution vector."""
        entries = self.features.entries(units)
        split = self.split
        hot = entries[split, None] == np.arange(1, self.features.interval_count + 1)
        x[self.intervals[split]] = hot


def encode_entries(
    builder: ModelBuilder, features: PatternFeatures, step: StepColumns, bounds: HorizonBounds, t: int
) -> EntryColumns:
    """Append the interval binaries of one step (the paper's S_1 and S_2).

        Σ_i q_{u,i} = b_u,    Σ_i lo_i q_{u,i} <= P_u <= Σ_i hi_i q_{u,i},    [lo_i, hi_i] interval i.

    The two sums imply the paper's row for each interval and have a tighter relaxation, with the same integer points.
    """
    low, high = bounds.unit_lower[t, features.units], bounds.unit_upper[t, features.units]
    edges = features.breakpoints()
    on = (edges[:, :-1] <= high[:, None]) & (edges[:, 1:] >= low[:, None]) & (high > 0.0)[:, None]
    on[:, -1] |= high > edges[:, -1]  # a ceiling that is proven elsewhere may be lower than this step's bound
    possible = np.hstack([(low < 0.0)[:, None], on])
    binaries = step.binaries[features.units]
    intervals = np.full(on.shape, -1, dtype=np.int64)
    needed = (binaries >= 0) | ((low >= 0.0) & (on.sum(axis=1) > 1))
    if features.interval_count > 1 and needed.any():
        intervals[needed] = _add_intervals(builder, features, step, needed, on, t)
    return EntryColumns(features, t, binaries, intervals, possible)


def _add_intervals(
    builder: ModelBuilder,
    features: PatternFeatures,
    step: StepColumns,
    needed: NDArray[np.bool_],
    on: NDArray[np.bool_],
    t: int,
) -> Index:
    units = features.units[needed]
    names = [f"{unit + 1}_{t + 1}" for unit in units.tolist()]
    edges = features.breakpoints()[needed]
    q = builder.add_columns(
        np.zeros((len(units), features.interval_count)), on[needed], integer=True,
        name=lambda u, i: f"interval{i + 1}_{names[u]}",
    )  # fmt: skip
    binaries = step.binaries[units]
    always_on = np.where(binaries < 0, 1.0, 0.0)
    rows = builder.add_rows(always_on, always_on, name=lambda u: f"one_interval_{names[u]}")
    builder.add_entries(rows[:, None], q, 1.0)
    switched = binaries >= 0
    builder.add_entries(rows[switched], binaries[switched], -1.0)
    offset = step.unit_offset[units]
    for side, sign, label in ((edges[:, :-1], 1.0, "above"), (edges[:, 1:], -1.0, "below")):
        rows = builder.add_rows(-np.inf, sign * offset, name=lambda u, label=label: f"interval_{label}_{names[u]}")
        builder.add_entries(rows[:, None], q, sign * side)
        builder.add_entries(rows[:, None], step.base, -sign * step.unit_matrix[units])
    return q


@dataclass(eq=False)
class EntryExtension:
    """Adds the entries of one feature set to every step of a model, without any row on the reward."""

    features: PatternFeatures
    entries: list[EntryColumns]

    def extend(
        self, builder: ModelBuilder, steps: Sequence[StepColumns], bounds: HorizonBounds, reward: object
    ) -> None:
        self.entries.extend(encode_entries(builder, self.features, step, bounds, t) for t, step in enumerate(steps))

    def fill(self, x: Array, units: Array) -> None:
        for columns, pre in zip(self.entries, units, strict=True):
            columns.fill(x, pre)
