"""Planes above the reward that a plan can have collected when it reaches a state."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.pairs import corner_values

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Planes:
    """F_t(s) = min over k of slopes_k · s + offsets_{t,k} bounds the reward of steps 1..t-1 of a plan that is in s at
    time t, for plans that beat the incumbent. slopes (K, n), offsets (H + 1, K)."""

    slopes: Array
    offsets: Array

    def at_corners(self, t: int, lower: Array, upper: Array) -> Array:
        """For each box (n, B) the plane that is lowest in its middle, at the box's corners, (2^n, B)."""
        best = self._lowest(t, lower, upper)
        return corner_values(self.slopes[best].T, self.offsets[t, best], lower, upper)

    def relative(self, t: int, lower: Array, upper: Array) -> Array:
        """max over each box (n, B) of F_t(s) − slopes_k · s, by the plane itself and by the lowest one, (K, B)."""
        best = self._lowest(t, lower, upper)
        by_lowest = np.tile(self.offsets[t, best], (len(self.slopes), 1))
        for i, slopes in enumerate(self.slopes.T):
            difference = slopes[best] - slopes[:, None]
            by_lowest += np.maximum(difference * lower[i], difference * upper[i])
        return np.asarray(np.minimum(self.offsets[t][:, None], by_lowest))

    def _lowest(self, t: int, lower: Array, upper: Array) -> NDArray[np.int64]:
        """For each box the plane that is lowest in its middle."""
        middle = self.slopes @ (0.5 * (lower + upper)) + self.offsets[t][:, None]
        return np.asarray(middle.argmin(axis=0))


def no_planes(dimension: int, horizon: int) -> Planes:
    """F = infinity: nothing is known yet."""
    return Planes(np.zeros((1, dimension)), np.full((horizon + 1, 1), np.inf))


def slope_fan(dimension: int, sizes: list[float]) -> Array:
    """Zero, and slopes of the given sizes along the axes and the diagonals, (K, n)."""
    signs = np.array([d for d in product((-1, 0, 1), repeat=dimension) if any(d)], dtype=float)
    units = signs / np.linalg.norm(signs, axis=1, keepdims=True)
    return np.vstack([np.zeros((1, dimension)), *(size * units for size in sizes)])
