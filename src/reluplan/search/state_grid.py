"""A grid of states, and interpolation between its nodes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Grid:
    """A box of states cut by evenly spaced levels along each axis (one array an axis)."""

    levels: tuple[Array, ...]

    @property
    def nodes(self) -> Array:
        """All nodes, shape (count, n), the last axis running fastest."""
        return np.stack(np.meshgrid(*self.levels, indexing="ij"), axis=-1).reshape(-1, len(self.levels))

    @property
    def count(self) -> int:
        return int(np.prod([len(levels) for levels in self.levels]))

    def weights(self, states: Array) -> sparse.csr_array:
        """Multilinear interpolation: V(states) = weights @ V(nodes); states outside count as at the border."""
        index, share = zip(*(_place(levels, states[:, i]) for i, levels in enumerate(self.levels)), strict=True)
        columns, values = [], []
        for corner in itertools.product((0, 1), repeat=len(self.levels)):
            node, weight = np.zeros(len(states), dtype=np.int64), np.ones(len(states))
            for levels, low, part, up in zip(self.levels, index, share, corner, strict=True):
                node = node * len(levels) + np.minimum(low + up, len(levels) - 1)
                weight = weight * (part if up else 1.0 - part)
            columns.append(node)
            values.append(weight)
        starts_at = np.arange(len(states) + 1) * len(columns)
        shape = (len(states), self.count)
        return sparse.csr_array(
            (np.stack(values, axis=1).ravel(), np.stack(columns, axis=1).ravel(), starts_at), shape=shape
        )


def _place(levels: Array, values: Array) -> tuple[NDArray[np.int64], Array]:
    """The level below each value, and how far the value is on its way to the next, in 0..1."""
    if len(levels) == 1:
        return np.zeros(len(values), dtype=np.int64), np.zeros(len(values))
    place = np.clip((values - levels[0]) / (levels[1] - levels[0]), 0.0, len(levels) - 1.0)
    low = np.minimum(place.astype(np.int64), len(levels) - 2)
    return low, place - low
