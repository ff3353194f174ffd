"""Interval bounds: cheap, always valid, loose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InfeasibleError
from reluplan.network.relu_network import Layer

Array = NDArray[np.float64]

RELATIVE_MARGIN = 1e-7
ROUNDOFF = 2.0**-52
CROSSING = 1e-6
"""Proven sides that cross by this much, relative to their size, do so by rounding."""


def layer_interval(layer: Layer, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Bounds of W z + b for z in a box: W⁺ l + W⁻ u + b <= W z + b <= W⁺ u + W⁻ l + b. Infinite sides allowed."""
    positive, negative = np.maximum(layer.weights, 0.0), np.minimum(layer.weights, 0.0)
    low = _product(positive, lower) + _product(negative, upper) + layer.bias
    high = _product(positive, upper) + _product(negative, lower) + layer.bias
    reach = np.maximum(_finite(np.abs(lower)), _finite(np.abs(upper)))
    rounding = ROUNDOFF * (layer.weights.shape[1] + 2) * (np.abs(layer.weights) @ reach + np.abs(layer.bias))
    return round_outward(low - rounding, high + rounding)


def round_outward(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Widen bounds by a margin that covers rounding errors: 1e-7 relative, at least 1e-9."""
    return lower - _margin(lower), upper + _margin(upper)


def intersect(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """The common part of two valid boxes; where rounding makes them cross by a hair, a point of the first."""
    low, high = first
    return np.minimum(np.maximum(low, second[0]), high), np.maximum(np.minimum(high, second[1]), low)


def uncrossed(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Proven sides may cross by a rounding error, which is undone; by more, and nothing is left between them."""
    if (lower > upper + CROSSING * np.maximum(1.0, _finite(np.abs(upper)))).any():
        raise InfeasibleError("no value is left for a variable")
    return np.minimum(lower, upper), np.maximum(lower, upper)


def _margin(values: Array) -> Array:
    return np.maximum(RELATIVE_MARGIN * _finite(np.abs(values)), 1e-9)


def _finite(values: Array) -> Array:
    """Zero in place of what is infinite."""
    return np.where(np.isfinite(values), values, 0.0)


def _product(matrix: Array, values: Array) -> Array:
    """matrix @ values with 0 · inf = 0."""
    infinite = np.isinf(values)
    product: Array = matrix @ np.where(infinite, 0.0, values)
    for column in np.flatnonzero(infinite):
        read = matrix[:, column] != 0.0
        product[read] += matrix[read, column] * values[column]
    return product
