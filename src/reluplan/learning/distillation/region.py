"""Where a student must be like its teacher: a box of inputs, or the neighbourhood of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.problem.problem import Variable

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Points:
    """Points (N, n), and the box around each of them, (N, n) twice, that belongs to the region."""

    values: Array
    lower: Array
    upper: Array

    def __len__(self) -> int:
        return len(self.values)

    def select(self, rows: NDArray[np.int64]) -> Points:
        return Points(self.values[rows], self.lower[rows], self.upper[rows])

    def joined(self, other: Points) -> Points:
        pairs = [(self.values, other.values), (self.lower, other.lower), (self.upper, other.upper)]
        return Points(*(np.vstack(pair) for pair in pairs))


@dataclass(frozen=True, eq=False)
class Region:
    """The declared bounds of the inputs, or, if there are rows of data (R, n), the boxes row ± radius within them.

    Bounds may be infinite if there are rows. edge_share: of the points drawn, so many have every other coordinate at a
    bound: plans go to the edges, and a uniform sample of many inputs hardly ever does.
    """

    variables: tuple[Variable, ...]
    rows: Array | None = None
    radius: Array | None = None
    edge_share: float = 0.25

    @property
    def lower(self) -> Array:
        return np.array([variable.lower for variable in self.variables])

    @property
    def upper(self) -> Array:
        return np.array([variable.upper for variable in self.variables])

    @property
    def discrete(self) -> NDArray[np.bool_]:
        return np.array([variable.is_discrete for variable in self.variables], dtype=bool)

    def draw(self, count: int, rng: Generator) -> Points:
        """Points of the region, whole numbers where the variable asks for them."""
        shape = (count, len(self.variables))
        if self.rows is None or self.radius is None:
            low, high = (np.broadcast_to(side, shape) for side in (self.lower, self.upper))
        else:
            centre = self.rows[rng.integers(len(self.rows), size=count)]
            low = np.maximum(centre - self.radius, self.lower)
            high = np.minimum(centre + self.radius, self.upper)
        values = rng.uniform(low, high)
        at_edge = (rng.random(count) < self.edge_share)[:, None] & (rng.random(shape) < 0.5)
        values = np.where(at_edge, np.where(rng.random(shape) < 0.5, low, high), values)
        return Points(self.snapped(values, low, high), low, high)

    def snapped(self, values: Array, lower: Array, upper: Array) -> Array:
        """Inside the boxes, with whole numbers where the variables ask for them."""
        inside = np.clip(values, lower, upper)
        return np.where(self.discrete, np.clip(np.round(inside), np.ceil(lower), np.floor(upper)), inside)


def box_region(variables: Sequence[Variable], source: str) -> Region:
    """The declared bounds, all of which must be finite."""
    endless = [variable.name for variable in variables if not np.isfinite([variable.lower, variable.upper]).all()]
    if endless:
        names = ", ".join(repr(name) for name in endless)
        raise InputError(
            f"{source}: {names} {'has' if len(endless) == 1 else 'have'} no finite bounds, so there is no box to learn "
            "over; give bounds = [lower, upper], or learn around data with --data FILE"
        )
    return Region(tuple(variables))


def data_region(variables: Sequence[Variable], rows: Array, spread: float) -> Region:
    """Around rows of data, (R, n): each coordinate within ± spread deviations of its column."""
    lower = np.array([variable.lower for variable in variables])
    upper = np.array([variable.upper for variable in variables])
    return Region(tuple(variables), np.clip(rows, lower, upper), spread * rows.std(axis=0))
