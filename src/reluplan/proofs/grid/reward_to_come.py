"""The reward-to-come: planes above the reward that a plan can have collected when it reaches a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.cells import PRESENT, corner_values
from reluplan.proofs.grid.node_values import NodeValues
from reluplan.proofs.grid.pairs import Pairs
from reluplan.proofs.grid.settings import GridSettings

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RewardToCome:
    """F_t(s) = min over k of slopes_k · s + offsets_{t,k} bounds the reward of steps 1..t-1 of a plan that is in s at
    time t, for plans that beat the incumbent. slopes (K, n), offsets (H + 1, K).

    With a discount γ < 1 it is worth what it is at time t: Σ_{j<t} γ^(j−t) R_j.
    """

    slopes: Array
    offsets: Array
    discount: float = 1.0

    @classmethod
    def unknown(cls, dimension: int, horizon: int, discount: float = 1.0) -> RewardToCome:
        """F = infinity: nothing is known yet."""
        return cls(np.zeros((1, dimension)), np.full((horizon + 1, 1), np.inf), discount)

    def at_corners(self, t: int, lower: Array, upper: Array) -> Array:
        """For each box (n, B) the plane that is lowest in its middle, at the box's corners, (2^n, B)."""
        best = self._lowest(t, lower, upper)
        return corner_values(self.slopes[best].T, self.offsets[t, best], lower, upper)

    def relative(self, t: int, lower: Array, upper: Array) -> Array:
        """max over each box (n, B) of F_t(s) − γ slopes_k · s, by the plane itself and by the lowest one, (K, B)."""
        best = self._lowest(t, lower, upper)
        by_itself = self.offsets[t][:, None]
        by_lowest = np.tile(self.offsets[t, best], (len(self.slopes), 1))
        for i, slopes in enumerate(self.slopes.T):
            discounted = self.discount * slopes[:, None]
            difference = slopes[best] - discounted
            by_lowest += np.maximum(difference * lower[i], difference * upper[i])
            if self.discount < 1.0:  # else nothing is left
                left = slopes[:, None] - discounted
                by_itself = by_itself + np.maximum(left * lower[i], left * upper[i])
        return np.asarray(np.minimum(by_itself, by_lowest))

    def _lowest(self, t: int, lower: Array, upper: Array) -> NDArray[np.int64]:
        """For each box the plane that is lowest in its middle."""
        middle = self.slopes @ (0.5 * (lower + upper)) + self.offsets[t][:, None]
        return np.asarray(middle.argmin(axis=0))


def choose_slopes(pairs: Pairs, values: Sequence[NodeValues], settings: GridSettings) -> Array:
    """Slopes on the scale of V, in all directions, (K, n)."""
    steepest = _typical_slope(pairs, values, settings.slope_samples) or 1.0
    return _fan(pairs.grid.dimension, [share * steepest for share in settings.slope_shares])


def slope_count(dimension: int, settings: GridSettings) -> int:
    """How many slopes will be chosen."""
    directions = int(3**dimension) - 1
    return 1 + len(settings.slope_shares) * directions


def pair_bytes(states: int, actions: int, settings: GridSettings) -> float:
    """About the memory that one pair takes with all that is computed for it."""
    bounds = 2 * states * (states + actions + 1) + 16 * states + 4 * actions + 8
    return 8.0 * (bounds + slope_count(states, settings))


def _fan(dimension: int, sizes: list[float]) -> Array:
    """Zero, and slopes of the given sizes along the axes and the diagonals, (K, n)."""
    signs = np.array([d for d in product((-1, 0, 1), repeat=dimension) if any(d)], dtype=float)
    units = signs / np.linalg.norm(signs, axis=1, keepdims=True)
    return np.vstack([np.zeros((1, dimension)), *(size * units for size in sizes)])


def _typical_slope(pairs: Pairs, values: Sequence[NodeValues], samples: int) -> float:
    """How much V varies over the cells: the median over the cells, of the step where that is largest."""
    cells = pairs.cells[pairs.runs(np.arange(len(pairs)))[0]]
    lower, upper = pairs.grid.boxes(cells)
    width = (upper - lower).max(axis=1)
    steepest = 0.0
    for of_step in values[:: max(1, len(values) // samples)]:
        corners = of_step.at_corners(cells)
        known = (corners > PRESENT).all(axis=1)
        if known.any():
            steepest = max(steepest, float(np.median(np.ptp(corners[known], axis=1) / width[known])))
    return steepest
