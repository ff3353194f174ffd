"""Piecewise-linear functions in one normal form: affine plus weighted maxima."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ROUNDOFF = 2.0**-52
Values = dict[int, Array]
"""The values of maxima by their keys, at one w."""
Boxes = dict[int, tuple[Array, Array]]
"""The bounds of maxima by their keys, over one box."""


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """g(w) = coefficients · w + constant + Σ_k weight_k · max_j argument_{k,j}(w).

    `abs` and `min` are maxima too: |x| = max(x, −x), min(x, y) = −max(−x, −y). g is concave if every weight is
    negative and every argument convex, and so on down the tree; the MILP encoding needs only the signs.

    |x| reads x twice, so a maximum may stand in several places. Such copies share one tuple of arguments, whatever
    their weights, and every walk through a function visits each tuple once (`MaxTerm.key`): the work stays linear in
    the length of the text, where a tree would double with each `abs` inside another.
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
    def total(cls, parts: Sequence[PiecewiseLinear]) -> PiecewiseLinear:
        """The sum, from left to right, in time linear in the number of its parts."""
        if len(parts) == 1:
            return parts[0]
        coefficients = parts[0].coefficients.copy()
        constant = parts[0].constant
        for part in parts[1:]:
            coefficients += part.coefficients
            constant += part.constant
        return cls(coefficients, constant, tuple(term for part in parts for term in part.terms))

    @classmethod
    def maximum(cls, arguments: Sequence[PiecewiseLinear]) -> PiecewiseLinear:
        """max of the arguments; nested maxima are flattened where that is exact."""
        flat = [piece for argument in arguments for piece in _flatten(argument)]
        if len(flat) == 1:
            return flat[0]
        return cls(np.zeros_like(flat[0].coefficients), 0.0, (MaxTerm(1.0, tuple(flat)),))

    @classmethod
    def absolute(cls, argument: PiecewiseLinear) -> PiecewiseLinear:
        """|argument| = max(argument, −argument); only affine pieces are flattened, since that copies them."""
        sides = [_flatten(side) for side in (argument, -argument)]
        if any(piece.terms for pieces in sides if len(pieces) > 1 for piece in pieces):
            sides = [[argument], [-argument]]
        return cls(np.zeros_like(argument.coefficients), 0.0, (MaxTerm(1.0, (*sides[0], *sides[1])),))

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
        maxima = self.maxima()
        pieces = [self, *(argument for term in maxima for argument in term.arguments)]
        return all(piece._own_numbers_are_finite for piece in pieces)

    @property
    def _own_numbers_are_finite(self) -> bool:
        weights = [term.weight for term in self.terms]
        return bool(np.isfinite(self.coefficients).all() and np.isfinite([self.constant, *weights]).all())

    def maxima(self) -> list[MaxTerm]:
        """The maxima anywhere inside, each once, the inner ones before those that read them."""
        found: dict[int, MaxTerm] = {}
        self._collect(found)
        return list(found.values())

    def _collect(self, found: dict[int, MaxTerm]) -> None:
        for term in self.terms:
            if term.key not in found:
                for argument in term.arguments:
                    argument._collect(found)
                found[term.key] = term

    def support(self) -> NDArray[np.bool_]:
        """Which entries of w the function reads, shape (width,)."""
        read: NDArray[np.bool_] = self.coefficients != 0.0
        for term in self.maxima():
            for argument in term.arguments:
                read = read | (argument.coefficients != 0.0)
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

    def evaluate(self, w: Array, known: Values | None = None) -> Array:
        """g at every row of w, shape (..., width) to (...). known: maxima that are evaluated at w already."""
        known = {} if known is None else known
        value = w @ self.coefficients + self.constant
        for term in self.terms:
            value = value + term.weight * term.maximum(w, known)
        return np.asarray(value)

    def bounds(self, lower: Array, upper: Array, known: Boxes | None = None) -> tuple[Array, Array]:
        """Interval bounds of g over boxes, (..., width) to (...); infinite sides allowed. known: as in `evaluate`."""
        known = {} if known is None else known
        low, high = affine_bounds(self.coefficients, lower, upper)
        low, high = low + self.constant, high + self.constant
        for term in self.terms:
            inner_low, inner_high = term.bounds(lower, upper, known)
            if term.weight < 0.0:
                inner_low, inner_high = inner_high, inner_low
            low = low + term.weight * inner_low
            high = high + term.weight * inner_high
        return low, high

    def digest(self) -> str:
        """A hash of the function's exact form."""
        inner: dict[int, bytes] = {}
        for term in self.maxima():
            inner[term.key] = b"".join(argument._digest(inner).encode() for argument in term.arguments)
        return self._digest(inner)

    def _digest(self, inner: Mapping[int, bytes]) -> str:
        """The hash, given those of the arguments of all maxima inside."""
        parts = hashlib.sha256(self.coefficients.tobytes() + np.float64(self.constant).tobytes())
        for term in self.terms:
            parts.update(np.float64(term.weight).tobytes())
            parts.update(inner[term.key])
        return parts.hexdigest()


@dataclass(frozen=True, eq=False)
class MaxTerm:
    """weight · max_j arguments_j(w), with at least two arguments."""

    weight: float
    arguments: tuple[PiecewiseLinear, ...]

    @property
    def key(self) -> int:
        """The same for all terms that share their arguments, as long as one of them is alive."""
        return id(self.arguments)

    @property
    def is_nested(self) -> bool:
        """Whether an argument has maxima of its own."""
        return any(argument.terms for argument in self.arguments)

    def evaluate(self, w: Array, known: Values | None = None) -> Array:
        """All arguments (not yet the maximum), shape (..., number of arguments)."""
        known = {} if known is None else known
        return np.stack([argument.evaluate(w, known) for argument in self.arguments], axis=-1)

    def maximum(self, w: Array, known: Values) -> Array:
        """The unweighted maximum, shape (...); a nested one is remembered, an affine one is not worth the memory."""
        if not self.is_nested:
            return np.asarray(self.evaluate(w).max(axis=-1))
        if self.key not in known:
            known[self.key] = self.evaluate(w, known).max(axis=-1)
        return known[self.key]

    def bounds(self, lower: Array, upper: Array, known: Boxes | None = None) -> tuple[Array, Array]:
        """Bounds of the unweighted maximum. A maximum is also at least the mean of its arguments: |x| ≥ 0."""
        known = {} if known is None else known
        if self.key in known:
            return known[self.key]
        lows, highs = self.argument_bounds(lower, upper, known)
        low, high = lows.max(axis=-1), highs.max(axis=-1)
        if (mean := self._affine_mean()) is not None:
            low = np.maximum(low, affine_bounds(mean.coefficients, lower, upper)[0] + mean.constant)
        known[self.key] = np.minimum(low, high), high
        return known[self.key]

    def argument_bounds(self, lower: Array, upper: Array, known: Boxes | None = None) -> tuple[Array, Array]:
        """Bounds of each argument, two arrays of shape (..., number of arguments)."""
        known = {} if known is None else known
        pairs = [argument.bounds(lower, upper, known) for argument in self.arguments]
        return np.stack([low for low, _ in pairs], axis=-1), np.stack([high for _, high in pairs], axis=-1)

    def _affine_mean(self) -> PiecewiseLinear | None:
        """The mean of the arguments; None unless their maxima cancel, as in |x| = max(x, −x)."""
        weights: dict[int, float] = {}
        for term in (term for argument in self.arguments for term in argument.terms):
            weights[term.key] = weights.get(term.key, 0.0) + term.weight
        if any(weights.values()):
            return None
        coefficients = np.mean([argument.coefficients for argument in self.arguments], axis=0)
        return PiecewiseLinear(coefficients, float(np.mean([argument.constant for argument in self.arguments])))


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
