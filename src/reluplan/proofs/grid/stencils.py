"""Stencils: the nodes around boxes of next states, from which functions on the grid are read there.

Arrays have the boxes along their last axis: numpy then works through long rows, whatever the number of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.cells import Grid

Array = NDArray[np.float64]
Index = NDArray[np.int64]

FLAT_VARIANCE = 1e-18
"""Of the positions in a box, where a least-squares slope would be rounding; the slope is zero then."""


@dataclass(frozen=True, eq=False)
class Stencils:
    """Of boxes that cover equally many cells along each state, so that their nodes form one array.

    members: which boxes. base: their first node, (B,). offsets: from there to all nodes, (m_1 + 1, .., m_n + 1, 1).
    positions[i]: coordinates of the covering lines along state i, the outer ones moved in to the box's faces,
    (m_i + 1, B), relative to `centres` (n, B). weights[i]: values · weights is the least-squares slope along state i.
    widths[i]: of the covering cells, (m_i, B). low_share, high_share: where the faces cut the first and the last cell.
    """

    members: Index
    base: Index
    offsets: Index
    positions: tuple[Array, ...]
    weights: tuple[Array, ...]
    widths: tuple[Array, ...]
    centres: Array
    low_share: Array
    high_share: Array

    def __len__(self) -> int:
        return len(self.members)

    def values(self, chosen: Index, nodes: Array) -> tuple[Array, Array]:
        """Node values around the chosen boxes, (m_1 + 1, .., m_n + 1, B), and the same with the outer ones
        interpolated on the boxes' faces.

        The interpolated function is multilinear in each sub-box: minus any plane it is largest at one of the latter.
        """
        values = nodes[self.base[chosen] + self.offsets]
        inner = values.copy()
        for i in range(values.ndim - 1):
            along = np.moveaxis(inner, i, 0)
            low, high = self.low_share[i, chosen], self.high_share[i, chosen]
            start = along[0] * (1.0 - low) + along[1] * low
            along[-1] = along[-2] * (1.0 - high) + along[-1] * high
            along[0] = start
        return values, inner


def make_stencils(grid: Grid, lower: Array, upper: Array) -> list[Stencils]:
    """The stencils of boxes inside the grid, two arrays (n, B), grouped by shape."""
    first, count = grid.cover(lower.T, upper.T)
    shapes, group = np.unique(count, axis=0, return_inverse=True)
    found = []
    for number, shape in enumerate(shapes):
        members = np.flatnonzero(group.ravel() == number)
        found.append(_of_shape(grid, members, first[members], shape, lower[:, members], upper[:, members]))
    return found


def along_axis(values: Any, axis: int, dimension: int) -> Any:
    """(k, B) as an array that varies along one of the state axes and along the boxes."""
    shape = [1] * dimension + [values.shape[1]]
    shape[axis] = values.shape[0]
    return values.reshape(shape)


def _of_shape(grid: Grid, members: Index, first: Index, shape: Index, lower: Array, upper: Array) -> Stencils:
    centres = 0.5 * (lower + upper)
    low_share = np.empty_like(lower)
    high_share = np.empty_like(lower)
    positions, weights, widths = [], [], []
    for i, line in enumerate(grid.lines):
        at = line[first[:, i] + np.arange(shape[i] + 1)[:, None]]
        low_share[i] = np.clip((lower[i] - at[0]) / (at[1] - at[0]), 0.0, 1.0)
        high_share[i] = np.clip((upper[i] - at[-2]) / (at[-1] - at[-2]), 0.0, 1.0)
        widths.append(np.diff(at, axis=0))
        at[0] = lower[i]
        at[-1] = upper[i]
        weights.append(_slope_weights(at, shape, i))
        positions.append(at - centres[i])
    return Stencils(
        members,
        first @ grid.strides,
        _offsets(grid, shape),
        tuple(positions),
        tuple(weights),
        tuple(widths),
        centres,
        low_share,
        high_share,
    )


def _offsets(grid: Grid, shape: Index) -> Index:
    """From the first node of a stencil to all of them, in flat node numbers, (m_1 + 1, .., m_n + 1, 1)."""
    offsets = np.zeros((1,) * (len(shape) + 1), dtype=np.int64)
    for i, stride in enumerate(grid.strides):
        offsets = offsets + along_axis(np.arange(shape[i] + 1)[:, None] * stride, i, len(shape))
    return offsets


def _slope_weights(positions: Array, shape: Index, axis: int) -> Array:
    """Covariance over variance, for values already summed over the other axes; zero where the box is flat."""
    centred = positions - positions.mean(axis=0)
    others = np.prod(np.delete(shape, axis) + 1)
    variance = others * (centred * centred).sum(axis=0)
    return np.asarray(centred / np.where(variance > FLAT_VARIANCE, variance, np.inf))
