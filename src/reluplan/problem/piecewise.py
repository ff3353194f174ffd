"""Piecewise-linear functions in one normal form: affine, plus weighted maxima, plus products with known numbers."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
    """g(w) = coefficients · w + constant + Σ_k weight_k · max_j argument_{k,j}(w) + Σ_k weight_k · factor_k · f_k(w).

    A factor reads series alone, which are known at every step: there the function is piecewise linear.

    `abs` and `min` are maxima too: |x| = max(x, −x), min(x, y) = −max(−x, −y). g is concave if every weight is
    negative and every argument convex, and so on down the tree; the MILP encoding needs only the signs.

    |x| reads x twice, so a maximum may stand in several places. Such copies share one tuple of arguments, whatever
    their weights, and every walk through a function visits each tuple once (`MaxTerm.key`): the work stays linear in
    the length of the text, where a tree would double with each `abs` inside another.
    """

    coefficients: Array
    constant: float = 0.0
    terms: tuple[MaxTerm, ...] = ()
    products: tuple[Product, ...] = ()

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
        terms = tuple(term for part in parts for term in part.terms)
        return cls(coefficients, constant, terms, tuple(product for part in parts for product in part.products))

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
        if any(piece.terms or piece.products for pieces in sides if len(pieces) > 1 for piece in pieces):
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
        return not self.terms and not self.products and not self.coefficients.any()

    @property
    def is_finite(self) -> bool:
        """Whether every number in it is finite."""
        return all(piece._own_numbers_are_finite for piece in self.pieces())

    @property
    def _own_numbers_are_finite(self) -> bool:
        weights = [term.weight for term in self.terms] + [product.weight for product in self.products]
        return bool(np.isfinite(self.coefficients).all() and np.isfinite([self.constant, *weights]).all())

    def maxima(self) -> list[MaxTerm]:
        """The maxima anywhere inside, each once, the inner ones before those that read them."""
        found: dict[int, MaxTerm] = {}
        self._collect(found, {})
        return list(found.values())

    def pieces(self) -> list[PiecewiseLinear]:
        """The function itself, and every function inside, each once."""
        found: dict[int, PiecewiseLinear] = {}
        self._collect({}, found)
        return list(found.values())

    def _collect(self, maxima: dict[int, MaxTerm], pieces: dict[int, PiecewiseLinear]) -> None:
        if id(self) in pieces:
            return
        pieces[id(self)] = self
        for product in self.products:
            product.factor.function._collect(maxima, pieces)
            product.function._collect(maxima, pieces)
        for term in self.terms:
            if term.key not in maxima:
                for argument in term.arguments:
                    argument._collect(maxima, pieces)
                maxima[term.key] = term

    def support(self) -> NDArray[np.bool_]:
        """Which entries of w the function reads, shape (width,)."""
        read: NDArray[np.bool_] = np.any([piece.coefficients != 0.0 for piece in self.pieces()], axis=0)
        return read

    @property
    def has_products(self) -> bool:
        """Whether it multiplies by known numbers anywhere inside."""
        return any(piece.products for piece in self.pieces())

    def times(self, factor: PiecewiseLinear, divides: bool = False) -> PiecewiseLinear:
        """The product with a function that reads series alone, or the quotient by it."""
        return PiecewiseLinear(np.zeros(self.width), 0.0, (), (Product(1.0, Factor(factor, divides), self),))

    def __add__(self, other: PiecewiseLinear) -> PiecewiseLinear:
        return PiecewiseLinear(
            self.coefficients + other.coefficients,
            self.constant + other.constant,
            self.terms + other.terms,
            self.products + other.products,
        )

    def __neg__(self) -> PiecewiseLinear:
        return self * -1.0

    def __sub__(self, other: PiecewiseLinear) -> PiecewiseLinear:
        return self + -other

    def __mul__(self, factor: float) -> PiecewiseLinear:
        return self._scaled(lambda number: factor * number)

    def __truediv__(self, divisor: float) -> PiecewiseLinear:
        return self._scaled(lambda number: number / divisor)

    def _scaled(self, scale: Callable[[Any], Any]) -> PiecewiseLinear:
        """The same maxima and products with other numbers; one of weight zero goes, since 0 · inf is not a number."""
        terms = [MaxTerm(scale(term.weight), term.arguments) for term in self.terms]
        products = [replace(product, weight=scale(product.weight)) for product in self.products]
        return PiecewiseLinear(
            scale(self.coefficients),
            scale(self.constant),
            tuple(term for term in terms if term.weight != 0.0),
            tuple(product for product in products if product.weight != 0.0),
        )

    def evaluate(self, w: Array, known: Values | None = None) -> Array:
        """g at every row of w, shape (..., width) to (...). known: maxima that are evaluated at w already."""
        known = {} if known is None else known
        value = w @ self.coefficients + self.constant
        for term in self.terms:
            value = value + term.weight * term.maximum(w, known)
        for product in self.products:
            value = value + product.weight * product.factor.evaluate(w) * product.function.evaluate(w, known)
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
        for product in self.products:
            inner_low, inner_high = product.bounds(lower, upper, known)
            low, high = low + inner_low, high + inner_high
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
        for product in self.products:
            parts.update(struct.pack("<d?", product.weight, product.factor.divides))
            parts.update(product.factor.function._digest(inner).encode() + product.function._digest(inner).encode())
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
        """Whether an argument has maxima or products of its own."""
        return any(argument.terms or argument.products for argument in self.arguments)

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
        if any(argument.products for argument in self.arguments):
            return None
        weights: dict[int, float] = {}
        for term in (term for argument in self.arguments for term in argument.terms):
            weights[term.key] = weights.get(term.key, 0.0) + term.weight
        if any(weights.values()):
            return None
        coefficients = np.mean([argument.coefficients for argument in self.arguments], axis=0)
        return PiecewiseLinear(coefficients, float(np.mean([argument.constant for argument in self.arguments])))


@dataclass(frozen=True, eq=False)
class Factor:
    """A function of series alone, or one over it."""

    function: PiecewiseLinear
    divides: bool = False

    def evaluate(self, w: Array) -> Array:
        """Its value at every row of w, shape (..., width) to (...)."""
        value = self.function.evaluate(w)
        if not self.divides:
            return value
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / value)

    def bounds(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Bounds over boxes, (..., width) to (...); where series have one value each, that value on both sides."""
        with np.errstate(invalid="ignore"):
            low, high = self._bounds_of_box(lower, upper)
            read = self.function.support()
            is_point = (lower[..., read] == upper[..., read]).all(axis=-1)
            value = self.evaluate(np.where(read, lower, 0.0))
        return np.where(is_point, value, low), np.where(is_point, value, high)

    def _bounds_of_box(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        low, high = self.function.bounds(lower, upper)
        if not self.divides:
            return low, high
        has_zero = (low <= 0.0) & (high >= 0.0)
        with np.errstate(divide="ignore"):
            low, high = _outward(1.0 / high, 1.0 / low)
        return np.where(has_zero, -np.inf, low), np.where(has_zero, np.inf, high)


@dataclass(frozen=True, eq=False)
class Product:
    """weight · factor · function(w), where the factor reads series alone."""

    weight: float
    factor: Factor
    function: PiecewiseLinear

    def bounds(self, lower: Array, upper: Array, known: Boxes | None = None) -> tuple[Array, Array]:
        """Interval bounds over boxes, rounded outward."""
        low, high = product_bounds(self.factor.bounds(lower, upper), self.function.bounds(lower, upper, known))
        if self.weight < 0.0:
            low, high = high, low
        return _outward(self.weight * low, self.weight * high)


def product_bounds(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    """Bounds of the product of two numbers in intervals, rounded outward; zero times infinity is zero."""
    with np.errstate(invalid="ignore"):
        ends = np.stack([a * b for a in one for b in other])
    zero = np.stack([(a == 0.0) | (b == 0.0) for a in one for b in other])
    ends = np.where(zero, 0.0, ends)
    return _outward(ends.min(axis=0), ends.max(axis=0))


def _outward(low: Array, high: Array) -> tuple[Array, Array]:
    """Both sides by one step of floating point, unless they are exact zeros."""
    down, up = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    return np.where(low == 0.0, low, down), np.where(high == 0.0, high, up)


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
    affine = PiecewiseLinear(argument.coefficients, argument.constant, (), argument.products)
    return [affine + piece * term.weight for piece in term.arguments]
