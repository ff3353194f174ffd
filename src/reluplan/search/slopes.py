"""Values and slopes of piecewise-linear functions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.piecewise import MaxTerm, PiecewiseLinear

Array = NDArray[np.float64]


def value_and_slope(function: PiecewiseLinear, w: Array) -> tuple[Array, Array]:
    """g(w) of shape (...) and a (generalised) gradient of shape (..., width), for w of shape (..., width).

    The slope of a maximum is the slope of an argument that attains it.
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


def largest_slope(function: PiecewiseLinear) -> float:
    """A bound of every entry of the slope: Σ of absolute coefficients along the heaviest choice of arguments."""
    inner: dict[int, Array] = {}
    for term in function.maxima():
        inner[term.key] = np.max([_slope_bound(argument, inner) for argument in term.arguments], axis=0)
    return float(_slope_bound(function, inner).max(initial=0.0))


def _slope_bound(function: PiecewiseLinear, inner: Mapping[int, Array]) -> Array:
    """The bound of each entry, given those of all maxima inside."""
    bound = np.abs(function.coefficients)
    for term in function.terms:
        bound = bound + abs(term.weight) * inner[term.key]
    return bound
