"""Values and slopes of piecewise-linear functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.piecewise import Factor, MaxTerm, PiecewiseLinear

Array = NDArray[np.float64]


def value_and_slope(function: PiecewiseLinear, w: Array) -> tuple[Array, Array]:
    """g(w) of shape (...) and a (generalised) gradient of shape (..., width), for w of shape (..., width).

    The slope of a maximum is the slope of an argument that attains it; factors of products stay what they are.
    """
    return _value_and_slope(function, w, {})


def _value_and_slope(function: PiecewiseLinear, w: Array, known: dict[int, tuple[Array, Array]]) -> tuple[Array, Array]:
    """The same; known: values and slopes of nested maxima, by key."""
    value = w @ function.coefficients + function.constant
    slope = np.broadcast_to(function.coefficients, w.shape)
    for term in function.terms:
        inner_value, inner_slope = known[term.key] if term.key in known else _maximum(term, w, known)
        value = value + term.weight * inner_value
        slope = slope + term.weight * inner_slope
    for product in function.products:
        factor = product.weight * product.factor.evaluate(w)
        inner_value, inner_slope = _value_and_slope(product.function, w, known)
        value = value + factor * inner_value
        slope = slope + factor[..., None] * inner_slope
    return value, slope


def _maximum(term: MaxTerm, w: Array, known: dict[int, tuple[Array, Array]]) -> tuple[Array, Array]:
    if not term.is_nested:
        matrix = np.array([argument.coefficients for argument in term.arguments])
        values = w @ matrix.T + np.array([argument.constant for argument in term.arguments])
        return values.max(axis=-1), matrix[values.argmax(axis=-1)]
    pairs = [_value_and_slope(argument, w, known) for argument in term.arguments]
    values = np.stack([value for value, _ in pairs], axis=-1)
    slopes = np.stack([slope for _, slope in pairs], axis=-2)
    chosen = values.argmax(axis=-1)[..., None, None]
    known[term.key] = values.max(axis=-1), np.take_along_axis(slopes, chosen, axis=-2)[..., 0, :]
    return known[term.key]


def largest_slope(function: PiecewiseLinear, lower: Array, upper: Array) -> float:
    """A bound of every entry of the slope in a box: Σ of absolute coefficients along the heaviest choice of arguments.

    A factor without bounds there counts as one.
    """
    inner: dict[int, Array] = {}
    bounds = _SlopeBounds(lower, upper, inner)
    for term in function.maxima():
        inner[term.key] = np.max([bounds.of(argument) for argument in term.arguments], axis=0)
    return float(bounds.of(function).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class _SlopeBounds:
    """The bound of each entry; inner: those of all maxima inside, by key."""

    lower: Array
    upper: Array
    inner: Mapping[int, Array]

    def of(self, function: PiecewiseLinear) -> Array:
        bound = np.abs(function.coefficients)
        for term in function.terms:
            bound = bound + abs(term.weight) * self.inner[term.key]
        for product in function.products:
            bound = bound + abs(product.weight) * self._largest(product.factor) * self.of(product.function)
        return bound

    def _largest(self, factor: Factor) -> float:
        largest = float(np.abs(factor.bounds(self.lower, self.upper)).max())
        return largest if np.isfinite(largest) else 1.0
