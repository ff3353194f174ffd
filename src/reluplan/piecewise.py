"""Piecewise-linear functions in one normal form: affine plus weighted maxima."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ROUNDOFF = 2.0**-52


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """g(w) = coefficients · w + constant + Σ_k weight_k · max_j argument_{k,j}(w).

    `abs` and `min` are maxima too: |x| = max(x, −x), min(x, y) = −max(−x, −y). g is concave if every weight is
    negative and every argument convex, and so on down the tree; the MILP encoding needs only the signs.
    """

    coefficients: Array
    constant: float = 0.0
    terms: tuple[MaxTerm, ...] = ()

    @classmethod
    def constant_of(cls, value: float, width: int) -> PiecewiseLinear:
        return cls(np.zeros(width), value)

    @classmethod
    def variable(cls, position: int, width: int) -> PiecewiseLinear:
        unit = np.zeros(width)
        unit[position] = 1.0
        return cls(unit)

    @classmethod
    def maximum(cls, arguments: Sequence[PiecewiseLinear]) -> PiecewiseLinear:
        """max of the arguments; nested maxima are flattened where that is exact."""
        flat = [piece for argument in arguments for piece in _flatten(argument)]
        if len(flat) == 1:
            return flat[0]
        return cls(np.zeros_like(flat[0].coefficients), 0.0, (MaxTerm(1.0, tuple(flat)),))

    @classmethod
    def minimum(cls, arguments: Sequence[PiecewiseLinear]) -> PiecewiseLinear:
        return -cls.maximum([-argument for argument in arguments])

    @property
    def width(self) -> int:
        return len(self.coefficients)

    @property
    def is_constant(self) -> bool:
        return not self.terms and not self.coefficients.any()

    @property
    def is_finite(self) -> bool:
        """Whether every number in it is finite."""
        own = np.isfinite(self.coefficients).all() and np.isfinite(self.constant)
        return bool(own) and all(
            np.isfinite(term.weight) and all(argument.is_finite for argument in term.arguments) for term in self.terms
        )

    def support(self) -> NDArray[np.bool_]:
        """Which entries of w the function reads, shape (width,)."""
        read: NDArray[np.bool_] = self.coefficients != 0.0
        for term in self.terms:
            for argument in term.arguments:
                read = read | argument.support()
        return read

    def __add__(self, other: PiecewiseLinear) -> PiecewiseLinear:
        return PiecewiseLinear(
            self.coefficients + other.coefficients, self.constant + other.constant, self.terms + other.terms
        )

    def __neg__(self) -> PiecewiseLinear:
        return self * -1.0

    def __sub__(self, other: PiecewiseLinear) -> PiecewiseLinear:
        return self + -other

    def __mul__(self, factor: float) -> PiecewiseLinear:
        weights = [factor * term.weight for term in self.terms]
        return self._with(factor * self.coefficients, factor * self.constant, weights)

    def __truediv__(self, divisor: float) -> PiecewiseLinear:
        weights = [term.weight / divisor for term in self.terms]
        return self._with(self.coefficients / divisor, self.constant / divisor, weights)

    def _with(self, coefficients: Array, constant: float, weights: Sequence[float]) -> PiecewiseLinear:
        """The same maxima with other numbers; one of weight zero goes, since 0 · inf is not a number."""
        pairs = zip(weights, self.terms, strict=True)
        terms = tuple(MaxTerm(weight, term.arguments) for weight, term in pairs if weight != 0.0)
        return PiecewiseLinear(coefficients, constant, terms)

    def evaluate(self, w: Array) -> Array:
        """g at every row of w, shape (..., width) to (...)."""
        value = w @ self.coefficients + self.constant
        for term in self.terms:
            value = value + term.weight * term.evaluate(w).max(axis=-1)
        return np.asarray(value)

    def bounds(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Interval bounds of g over boxes, (..., width) to (...); infinite sides allowed."""
        low, high = affine_bounds(self.coefficients, lower, upper)
        low, high = low + self.constant, high + self.constant
        for term in self.terms:
            inner_low, inner_high = term.bounds(lower, upper)
            if term.weight < 0.0:
                inner_low, inner_high = inner_high, inner_low
            low = low + term.weight * inner_low
            high = high + term.weight * inner_high
        return low, high

    def digest(self) -> str:
        """A hash of the function's exact form."""
        parts = hashlib.sha256(self.coefficients.tobytes() + np.float64(self.constant).tobytes())
        for term in self.terms:
            parts.update(np.float64(term.weight).tobytes())
            for argument in term.arguments:
                parts.update(argument.digest().encode())
        return parts.hexdigest()


@dataclass(frozen=True, eq=False)
class MaxTerm:
    """weight · max_j arguments_j(w), with at least two arguments."""

    weight: float
    arguments: tuple[PiecewiseLinear, ...]

    def evaluate(self, w: Array) -> Array:
        """All arguments (not yet the maximum), shape (..., number of arguments)."""
        return np.stack([argument.evaluate(w) for argument in self.arguments], axis=-1)

    def bounds(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Bounds of the unweighted maximum. A maximum is also at least the mean of its arguments: |x| ≥ 0."""
        lows, highs = self.argument_bounds(lower, upper)
        low = lows.max(axis=-1)
        if not any(argument.terms for argument in self.arguments):
            mean = np.mean([argument.coefficients for argument in self.arguments], axis=0)
            offset = float(np.mean([argument.constant for argument in self.arguments]))
            low = np.maximum(low, affine_bounds(mean, lower, upper)[0] + offset)
        high = highs.max(axis=-1)
        return np.minimum(low, high), high

    def argument_bounds(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Bounds of each argument, two arrays of shape (..., number of arguments)."""
        pairs = [argument.bounds(lower, upper) for argument in self.arguments]
        return np.stack([low for low, _ in pairs], axis=-1), np.stack([high for _, high in pairs], axis=-1)


def affine_bounds(coefficients: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Interval bounds of coefficients · w, rounded outward; only non-zero coefficients are touched, since 0 · inf is
    not a number."""
    used = np.flatnonzero(coefficients)
    c = coefficients[used]
    at_lower, at_upper = c * lower[..., used], c * upper[..., used]
    size = np.maximum(np.abs(at_lower), np.abs(at_upper))
    rounding = ROUNDOFF * (len(used) + 2) * np.where(np.isfinite(size), size, 0.0).sum(axis=-1)
    low = np.where(c > 0.0, at_lower, at_upper).sum(axis=-1) - rounding
    high = np.where(c > 0.0, at_upper, at_lower).sum(axis=-1) + rounding
    return np.asarray(low), np.asarray(high)


def _flatten(argument: PiecewiseLinear) -> list[PiecewiseLinear]:
    """affine + c·max(b_i) with c > 0 is max(affine + c·b_i): a list of the pieces."""
    if len(argument.terms) != 1 or argument.terms[0].weight <= 0.0:
        return [argument]
    (term,) = argument.terms
    affine = PiecewiseLinear(argument.coefficients, argument.constant)
    return [affine + piece * term.weight for piece in term.arguments]
