"""Majorants: planes above a function on the grid, over the image of every pair."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.cells import PRESENT
from reluplan.proofs.grid.stencils import Stencils, along_axis

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def planes_above(
    stencils: Stencils, chosen: Index, nodes: Array, own_slope_share: float, coarse_slope: Array | None = None
) -> tuple[Array, Array, Array]:
    """slope (n, B) and height (B,) with: nodes interpolated at s' <= slope · (s' − centre) + height over each box; and
    the constant majorant (B,).

    The slope is the least-squares fit through the values; any slope would do. Absent nodes bind nothing; where there
    are some, a fit to the rest may be wild, and the slope is the mean one of the cells that have all their corners. If
    these are less than `own_slope_share` of the cells, it is the coarse slope (n, B), or zero, as is one
    that overflows.
    """
    values, inner = stencils.values(chosen, nodes)
    axes = tuple(range(values.ndim - 1))
    highest = inner.max(axis=axes)
    slope = _fitted_slopes(stencils, chosen, inner)
    torn = np.flatnonzero(values.min(axis=axes) < PRESENT)
    if len(torn):
        own, share = _cell_slopes(values[..., torn], [width[:, chosen[torn]] for width in stencils.widths])
        other = np.zeros_like(own) if coarse_slope is None else coarse_slope[:, torn]
        slope[:, torn] = np.where(share >= own_slope_share, own, other)
    slope[~np.isfinite(slope)] = 0.0
    for i, at in enumerate(stencils.positions):
        inner -= along_axis(slope[i] * at[:, chosen], i, len(axes))
    return slope, inner.max(axis=axes), highest


def _fitted_slopes(stencils: Stencils, chosen: Index, inner: Array) -> Array:
    """The least-squares slopes through the values of each box, (n, B)."""
    axes = range(inner.ndim - 1)
    slope = np.empty((len(axes), len(chosen)))
    for i, weights in enumerate(stencils.weights):
        profile = inner.sum(axis=tuple(j for j in axes if j != i))
        slope[i] = (profile * weights[:, chosen]).sum(axis=0)
    return slope


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
            rise = (high - low) / along_axis(width, i, dimension)
        for j in axes[:i] + axes[i + 1 :]:
            low, high = _neighbours(rise, j)
            rise = 0.5 * (low + high)
        slope[i] = np.where(present, rise, 0.0).sum(axis=axes) / np.maximum(present.sum(axis=axes), 1)
    return slope, present.mean(axis=axes)


def _neighbours(values: Any, axis: int) -> tuple[Any, Any]:
    """Each value along an axis but the last, and the one after it."""
    count = values.shape[axis]
    return values.take(range(count - 1), axis), values.take(range(1, count), axis)
