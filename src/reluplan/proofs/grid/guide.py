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
class Guide:
    """The functions R + V_{t+1} of an earlier sweep, one array over the grid's nodes for each t = 0..H-1.

    Nothing is proven by them: they suggest slopes, and any slope is valid. Where a corner is absent, the slope comes
    from the coarser guide, and is zero if there is none.
    """

    grid: Grid
    targets: Sequence[Array]
    coarser: Guide | None = None

    def locate(self, points: Array) -> Index:
        """The cells (of those listed by `grid.cells`) that contain points (n, B)."""
        first, _ = self.grid.cover(points.T, points.T)
        counts = [len(line) - 1 for line in self.grid.lines]
        return np.asarray(np.ravel_multi_index(tuple(first.T), tuple(counts)))

    def slopes(self, t: int) -> Array:
        """The mean slope of each cell, (n, cells)."""
        shape = [len(line) for line in self.grid.lines]
        values = self.targets[t].reshape(shape)
        slopes = []
        for i, line in enumerate(self.grid.lines):
            width = np.diff(line).reshape([-1 if j == i else 1 for j in range(len(shape))])
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is no slope to go by
                rise = np.diff(values, axis=i) / width
            for j in range(len(shape)):
                if j != i:
                    rise = 0.5 * (rise.take(range(shape[j] - 1), j) + rise.take(range(1, shape[j]), j))
            slopes.append(rise.ravel())
        found = np.array(slopes)
        known = (np.abs(found) < -PRESENT).all(axis=0)
        return np.where(known, found, 0.0 if self.coarser is None else self.coarser.slopes(t)[:, self._in_coarser])

    @cached_property
    def _in_coarser(self) -> Index:
        """For each cell the cell of the coarser guide that contains its middle."""
        assert self.coarser is not None
        lower, upper = self.grid.boxes(self.grid.cells)
        return self.coarser.locate(0.5 * (lower + upper).T)
