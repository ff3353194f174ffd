"""Node values: a function on the cells in use, multilinear in each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.cells import ABSENT, PRESENT, Grid
from reluplan.proofs.grid.stencils import make_stencils

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodeValues:
    """V at the nodes that are in use at one step: flat node numbers and the values there."""

    grid: Grid
    nodes: Index
    values: Array

    @classmethod
    def present(cls, grid: Grid, values: Array) -> NodeValues:
        """Those of an array over all nodes that are not absent."""
        nodes = np.flatnonzero(~(values <= PRESENT))
        return cls(grid, nodes, values[nodes])

    @classmethod
    def corner_maxima(cls, grid: Grid, cells: Index, corners: Array) -> NodeValues:
        """At each node the largest value that one of the cells (C, n) has there, of corners (2^n, C)."""
        nodes = grid.corner_nodes(cells)
        used, place = np.unique(nodes, return_inverse=True)
        place = place.reshape(nodes.shape)
        values = np.full(len(used), ABSENT)
        for k in range(nodes.shape[1]):  # no two cells share their k-th corner
            values[place[:, k]] = np.maximum(values[place[:, k]], corners[k])
        present = values > PRESENT
        return cls(grid, used[present], values[present])

    def times(self, factor: float) -> NodeValues:
        """Every value multiplied by a factor; what is absent stays so."""
        return NodeValues(self.grid, self.nodes, factor * self.values)

    def spread(self) -> Array:
        """An array over all nodes of the grid, absent ones included."""
        full = np.full(self.grid.node_count, ABSENT)
        full[self.nodes] = self.values
        return full

    def at_corners(self, cells: Index) -> Array:
        """At the corners of cells (C, n), absent ones included, (C, 2^n)."""
        return self.spread()[self.grid.corner_nodes(cells)]

    def maximum(self, lower: Array, upper: Array) -> float:
        """The largest value over a box, −infinity if no node there is in use."""
        (stencils,) = make_stencils(self.grid, lower[:, None], upper[:, None])
        _, inside = stencils.values(np.zeros(1, dtype=np.int64), self.spread())
        found = float(inside.max())
        if math.isnan(found):
            return math.inf  # unknown, so no bound
        return found if found > PRESENT else -math.inf

    def halved(self, fine: Grid) -> NodeValues:
        """The same function at the nodes of the halved grid: interpolation changes no value."""
        full = self.spread().reshape(self.grid.shape)
        for i in range(self.grid.dimension):
            along = np.moveaxis(full, i, 0)
            finer = np.empty((2 * len(along) - 1, *along.shape[1:]))
            finer[::2] = along
            finer[1::2] = 0.5 * (along[:-1] + along[1:])
            full = np.moveaxis(finer, 0, i)
        assert full.shape == fine.shape
        return NodeValues.present(fine, full.ravel())

    def gain_over(self, coarser: NodeValues) -> float:
        """By how much V has come down from that of the grid of which this one is the halved one: the median over the
        nodes that both use."""
        fine = self.spread().reshape(self.grid.shape)
        fine = fine[(slice(None, None, 2),) * self.grid.dimension].ravel()
        coarse = coarser.spread()
        both = (fine > PRESENT) & (coarse > PRESENT)
        return float(np.median(coarse[both] - fine[both])) if both.any() else 0.0
