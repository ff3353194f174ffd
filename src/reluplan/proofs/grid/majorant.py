"""Planes above a function on the grid, over the image of every pair.

Arrays have the boxes along their last axis: numpy then works through long rows, whatever the number of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.cells import PRESENT, Grid

Array = NDArray[np.float64]
Index = NDArray[np.int64]

ENOUGH = 0.3
"""Share of a footprint's cells that must have all their corners for a slope of their own."""


@dataclass(frozen=True, eq=False)
class Footprints:
    """Boxes that cover equally many cells along each state, so that their nodes form one array.

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


def footprints(grid: Grid, lower: Array, upper: Array) -> list[Footprints]:
    """The footprints of boxes inside the grid, two arrays (n, B), grouped by shape."""
    first, count = grid.cover(lower.T, upper.T)
    shapes, group = np.unique(count, axis=0, return_inverse=True)
    found = []
    for number, shape in enumerate(shapes):
        members = np.flatnonzero(group.ravel() == number)
        found.append(_footprint(grid, members, first[members], shape, lower[:, members], upper[:, members]))
    return found


def _footprint(grid: Grid, members: Index, first: Index, shape: Index, lower: Array, upper: Array) -> Footprints:
    centres = 0.5 * (lower + upper)
    positions, weights, widths, low_share, high_share = [], [], [], np.empty_like(lower), np.empty_like(lower)
    for i, line in enumerate(grid.lines):
        at = line[first[:, i] + np.arange(shape[i] + 1)[:, None]]
        low_share[i] = np.clip((lower[i] - at[0]) / (at[1] - at[0]), 0.0, 1.0)
        high_share[i] = np.clip((upper[i] - at[-2]) / (at[-1] - at[-2]), 0.0, 1.0)
        widths.append(np.diff(at, axis=0))
        at[0], at[-1] = lower[i], upper[i]
        weights.append(_slope_weights(at, shape, i))
        positions.append(at - centres[i])
    offsets = np.zeros((1,) * (len(shape) + 1), dtype=np.int64)
    for i, stride in enumerate(grid.strides):
        offsets = offsets + _along(np.arange(shape[i] + 1)[:, None] * stride, i, len(shape))
    base = first @ grid.strides
    return Footprints(
        members, base, offsets, tuple(positions), tuple(weights), tuple(widths), centres, low_share, high_share
    )


def _along(values: Any, axis: int, dimension: int) -> Any:
    """(k, B) as an array that varies along one of the state axes and along the boxes."""
    shape = [1] * dimension + [values.shape[1]]
    shape[axis] = values.shape[0]
    return values.reshape(shape)


def _slope_weights(positions: Array, shape: Index, axis: int) -> Array:
    """Covariance over variance, for values already summed over the other axes; zero where the box is flat."""
    centred = positions - positions.mean(axis=0)
    others = np.prod(np.delete(shape, axis) + 1)
    variance = others * (centred * centred).sum(axis=0)
    return np.asarray(centred / np.where(variance > 1e-18, variance, np.inf))


def values_at(prints: Footprints, chosen: Index, nodes: Array) -> tuple[Array, Array]:
    """Node values around the chosen boxes, (m_1 + 1, .., m_n + 1, B), and the same with the outer ones interpolated on
    the boxes' faces.

    Inside each sub-box the interpolated function is multilinear, so its maximum minus any plane is among the latter.
    """
    values = nodes[prints.base[chosen] + prints.offsets]
    inner = values.copy()
    for i in range(values.ndim - 1):
        along = np.moveaxis(inner, i, 0)
        low, high = prints.low_share[i, chosen], prints.high_share[i, chosen]
        start = along[0] * (1.0 - low) + along[1] * low
        along[-1] = along[-2] * (1.0 - high) + along[-1] * high
        along[0] = start
    return values, inner


def planes_above(
    prints: Footprints, chosen: Index, nodes: Array, guide: Array | None = None
) -> tuple[Array, Array, Array]:
    """slope (n, B) and height (B,) with: nodes interpolated at s' <= slope · (s' − centre) + height over each box; and
    the constant majorant (B,).

    The slope is the least-squares fit through the values; any slope would do. Absent nodes bind nothing; where there
    are some, a fit to the rest may be wild, and the slope is that of the guide, (n, B), instead.
    """
    values, inner = values_at(prints, chosen, nodes)
    dimension = values.ndim - 1
    axes = tuple(range(dimension))
    highest = inner.max(axis=axes)
    slope = np.empty((dimension, len(chosen)))
    for i, weights in enumerate(prints.weights):
        profile = inner.sum(axis=tuple(j for j in axes if j != i))
        slope[i] = (profile * weights[:, chosen]).sum(axis=0)
    torn = np.flatnonzero(values.min(axis=axes) < PRESENT)
    if len(torn):
        own, share = _cell_slopes(values[..., torn], [width[:, chosen[torn]] for width in prints.widths])
        other = np.zeros_like(own) if guide is None else guide[:, torn]
        slope[:, torn] = np.where(share >= ENOUGH, own, other)
    for i, at in enumerate(prints.positions):
        inner -= _along(slope[i] * at[:, chosen], i, dimension)
    return slope, inner.max(axis=axes), highest


def _cell_slopes(values: Array, widths: list[Array]) -> tuple[Array, Array]:
    """The mean slope (n, B) of the cells whose corners are all present, and the share of such cells (B,)."""
    dimension = values.ndim - 1
    axes = tuple(range(dimension))
    present = values > PRESENT
    for i in axes:
        low, high = _neighbours(present, i)
        present = low & high
    slope = np.empty((dimension, values.shape[-1]))
    for i, width in enumerate(widths):
        low, high = _neighbours(values, i)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is no slope to go by, and any will do
            rise = (high - low) / _along(width, i, dimension)
        for j in axes[:i] + axes[i + 1 :]:
            low, high = _neighbours(rise, j)
            rise = 0.5 * (low + high)
        slope[i] = np.where(present, rise, 0.0).sum(axis=axes) / np.maximum(present.sum(axis=axes), 1)
    return slope, present.mean(axis=axes)


def _neighbours(values: Any, axis: int) -> tuple[Any, Any]:
    """Each value along an axis but the last, and the one after it."""
    count = values.shape[axis]
    return values.take(range(count - 1), axis), values.take(range(1, count), axis)
