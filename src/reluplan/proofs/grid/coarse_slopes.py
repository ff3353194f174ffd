"""Slopes of a coarse grid's values, for places where a fine grid has too few of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.cells import PRESENT, Grid

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CoarseSlopes:
    """Of the functions R + V_{t+1} of an earlier sweep, one array over the grid's nodes for each step t = 0, 1, ...

    Nothing is proven by them: they suggest slopes of majorants, and any slope is valid. Where a corner is absent, the
    slope comes from the grid before, and is zero if there is none.
    """

    grid: Grid
    targets: Sequence[Array]
    coarser: CoarseSlopes | None = None

    def locate(self, points: Array) -> Index:
        """The cells (of those listed by `grid.cells`) that contain points (n, B)."""
        first, _ = self.grid.cover(points.T, points.T)
        counts = tuple(count - 1 for count in self.grid.shape)
        return np.asarray(np.ravel_multi_index(tuple(first.T), counts))

    def at_step(self, t: int) -> Array:
        """The mean slope of each cell, (n, cells)."""
        values = self.targets[t].reshape(self.grid.shape)
        found = np.array([_mean_rise(values, line, i).ravel() for i, line in enumerate(self.grid.lines)])
        known = (np.abs(found) < -PRESENT).all(axis=0)
        return np.where(known, found, 0.0 if self.coarser is None else self.coarser.at_step(t)[:, self._in_coarser])

    @cached_property
    def _in_coarser(self) -> Index:
        """For each cell the cell of the coarser grid that contains its middle."""
        assert self.coarser is not None
        lower, upper = self.grid.boxes(self.grid.cells)
        return self.coarser.locate(0.5 * (lower + upper).T)


def _mean_rise(values: Array, line: Array, axis: int) -> Array:
    """The slope along one state, averaged over the edges of each cell."""
    width = np.diff(line).reshape([-1 if j == axis else 1 for j in range(values.ndim)])
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is no slope to go by
        rise = np.diff(values, axis=axis) / width
    for j, count in enumerate(values.shape):
        if j != axis:
            rise = 0.5 * (rise.take(range(count - 1), j) + rise.take(range(1, count), j))
    return np.asarray(rise)
