"""Lines around the rounding of discrete states: s' = round(p), or s' = [p >= 1/2]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.problem import Problem

Array = NDArray[np.float64]

STEEPEST = 4.0
"""Of the lines beside the step of a boolean state; any slope from 0 to the one through the box's corner holds."""
NOISE = 1e-8
"""How far a prediction in floating point may be from the true one where it is rounded, relative to max(1, |p|)."""


@dataclass(frozen=True, eq=False)
class RoundingLines:
    """down_slope · p + down_offset <= s' <= up_slope · p + up_offset, arrays (..., states).

    A continuous state is its prediction. An integer one lies within 1/2 of it. Of a boolean one, with p in [l, u],

        (p − 1/2) / (u − 1/2) <= s' <= 1 + (p − 1/2) / (1/2 − l),

    where a denominator that is smaller than 1 / STEEPEST, or negative, is replaced by that: the line is flatter, or
    the state is always the same.
    """

    down_slope: Array
    down_offset: Array
    up_slope: Array
    up_offset: Array

    def at(self, step: int) -> RoundingLines:
        """Of one step, where the first axis is that of the steps."""
        return RoundingLines(self.down_slope[step], self.down_offset[step], self.up_slope[step], self.up_offset[step])

    def pull(self, rows: Array) -> tuple[Array, Array]:
        """Coefficients of p and offsets, both (..., states), with rows · s' <= coefficients · p + offset."""
        up = rows > 0.0
        slope = np.where(up, self.up_slope, self.down_slope)
        return rows * slope, rows * np.where(up, self.up_offset, self.down_offset)

    def push(self, predictions: Array, rows: Array) -> Array:
        """The lines that `pull` chose for the rows, at some predictions."""
        up = rows > 0.0
        return np.asarray(
            np.where(up, self.up_slope * predictions + self.up_offset, self.down_slope * predictions + self.down_offset)
        )


def rounding_lines(problem: Problem, output_lower: Array, output_upper: Array) -> RoundingLines:
    """The lines for predictions in boxes of shape (..., states)."""
    discrete, boolean = problem.discrete_states, problem.boolean_states
    one = np.ones_like(output_lower)
    half = np.where(discrete & ~boolean, 0.5, 0.0) * one
    if not boolean.any():
        return RoundingLines(one, -half, one, half)
    up = 1.0 / np.maximum(0.5 - output_lower, 1.0 / STEEPEST)
    down = 1.0 / np.maximum(output_upper - 0.5, 1.0 / STEEPEST)
    return RoundingLines(
        np.where(boolean, down, one),
        np.where(boolean, -0.5 * down, -half),
        np.where(boolean, up, one),
        np.where(boolean, 1.0 - 0.5 * up, half),
    )
