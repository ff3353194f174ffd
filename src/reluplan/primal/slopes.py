"""Values and slopes of piecewise-linear functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.piecewise import MaxTerm, PiecewiseLinear

Array = NDArray[np.float64]


def value_and_slope(function: PiecewiseLinear, w: Array) -> tuple[Array, Array]:
    """g(w) of shape (...) and a (generalised) gradient of shape (..., width), for w of shape (..., width).

    The slope of a maximum is the slope of an argument that attains it.
    """
    value = w @ function.coefficients + function.constant
    slope = np.broadcast_to(function.coefficients, w.shape)
    for term in function.terms:
        inner_value, inner_slope = _maximum(term, w)
        value = value + term.weight * inner_value
        slope = slope + term.weight * inner_slope
    return value, slope


def _maximum(term: MaxTerm, w: Array) -> tuple[Array, Array]:
    if not any(argument.terms for argument in term.arguments):
        matrix = np.array([argument.coefficients for argument in term.arguments])
        values = w @ matrix.T + np.array([argument.constant for argument in term.arguments])
        return values.max(axis=-1), matrix[values.argmax(axis=-1)]
    pairs = [value_and_slope(argument, w) for argument in term.arguments]
    values = np.stack([value for value, _ in pairs], axis=-1)
    slopes = np.stack([slope for _, slope in pairs], axis=-2)
    chosen = values.argmax(axis=-1)[..., None, None]
    return values.max(axis=-1), np.take_along_axis(slopes, chosen, axis=-2)[..., 0, :]


def largest_slope(function: PiecewiseLinear) -> float:
    """A bound of every entry of the slope: Σ of absolute coefficients along the heaviest choice of arguments."""
    return float(_slope_bound(function).max(initial=0.0))


def _slope_bound(function: PiecewiseLinear) -> Array:
    bound = np.abs(function.coefficients)
    for term in function.terms:
        bound = bound + abs(term.weight) * np.max([_slope_bound(argument) for argument in term.arguments], axis=0)
    return bound
