"""Piecewise-linear functions and constraints as rows of a MILP, for many steps at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.optimisation.model import Index, ModelBuilder
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import Boxes, MaxTerm, PiecewiseLinear, Product, product_bounds

Array = NDArray[np.float64]
TIE = 1e-9
"""An argument this close (relative) to attaining the maximum is kept: rounding must not decide."""


class Side(Enum):
    """Which side of the true value an encoded expression may stray to; the other side is excluded by rows.

    BELOW is enough for what is maximised or bounded from below, ABOVE for what is minimised or bounded from above.
    """

    BELOW = 1
    ABOVE = -1
    EXACT = 0

    def times(self, weight: float) -> Side:
        """The side for a term that enters with this weight."""
        return Side(self.value * (1 if weight > 0.0 else -1))


@dataclass(frozen=True, eq=False)
class LinearForm:
    """For each step t: coefficients · x[columns[t]] + constant; columns has shape (T, k), coefficients (k,)."""

    columns: Index
    coefficients: Array
    constant: float


@dataclass(frozen=True, eq=False)
class MaxColumns:
    """The columns of one encoded maximum: value (T,) and, if binaries were needed, selectors (T, arguments)."""

    term: MaxTerm
    value: Index
    selectors: Index | None

    def fill(self, x: Array, w: Array) -> None:
        """Write the maximum's true value, and a selector of an attaining argument, into the solution vector x."""
        arguments = self.term.evaluate(w)
        x[self.value] = arguments.max(axis=-1)
        if self.selectors is not None:
            x[self.selectors] = np.arange(arguments.shape[-1]) == arguments.argmax(axis=-1)[..., None]


@dataclass(frozen=True, eq=False)
class ProductColumns:
    """The columns of one encoded product, without its weight: value (T,)."""

    product: Product
    value: Index

    def fill(self, x: Array, w: Array) -> None:
        """Write the product's true value into the solution vector x."""
        x[self.value] = self.product.factor.evaluate(w) * self.product.function.evaluate(w)


TermColumns = MaxColumns | ProductColumns


@dataclass(frozen=True, eq=False)
class _Encoded:
    """What one function has so far: the column of each maximum by its key and side, and bounds by key."""

    values: dict[tuple[int, Side], Index] = field(default_factory=dict)
    bounds: Boxes = field(default_factory=dict)


@dataclass(eq=False)
class PiecewiseEncoder:
    """Encodes functions of w over T steps: w_t stands in columns[t], inside the box [lower[t], upper[t]].

    A maximum m = max_j g_j that must not be overestimated (Side.BELOW) needs binaries,

        m <= g_j + M_j (1 − δ_j),   Σ_j δ_j = 1,   M_j = upper(max) − lower(g_j),

    one that must not be underestimated (Side.ABOVE) only the rows m >= g_j. Arguments that cannot attain the
    maximum inside a step's box are left out of that step.

    A product p = f·g with a factor that has one value at a step is a row there. Where its box has several, p only keeps
    McCormick's rows for f in [f⁻, f⁺] and g in [g⁻, g⁺], with f eliminated,

        p >= f⁻ g + min(0, g⁻ (f⁺ − f⁻)),   p >= f⁺ g − max(0, g⁺ (f⁺ − f⁻)),   and −p likewise:

    a relaxation, which is enough for bounds.
    """

    builder: ModelBuilder
    columns: Index
    lower: Array
    upper: Array
    terms: list[TermColumns] = field(default_factory=list)

    def encode(self, function: PiecewiseLinear, side: Side, name: str) -> LinearForm:
        """Append what the function needs; returns it as a linear form. `name` appears in names and errors."""
        return self._encode(function, side, name, _Encoded())

    def _encode(self, function: PiecewiseLinear, side: Side, name: str, encoded: _Encoded) -> LinearForm:
        used = np.flatnonzero(function.coefficients)
        columns = [self.columns[:, used]]
        coefficients = [function.coefficients[used]]
        for number, term in enumerate(function.terms):
            value = self._shared_max(term, side.times(term.weight), f"{name}_max{number}", encoded)
            columns.append(value[:, None])
            coefficients.append(np.array([term.weight]))
        for number, product in enumerate(function.products):
            value = self._product(product, side.times(product.weight), f"{name}_product{number}", encoded)
            columns.append(value[:, None])
            coefficients.append(np.array([product.weight]))
        return LinearForm(np.hstack(columns), np.concatenate(coefficients), function.constant)

    def require(self, constraint: Constraint, name: str) -> None:
        """Append the rows function(w) <= 0 (or == 0) for every step."""
        form = self.encode(constraint.function, Side.EXACT if constraint.equality else Side.ABOVE, name)
        self._row(form, -np.inf if not constraint.equality else -form.constant, -form.constant, name)

    def _row(self, form: LinearForm, lower: float, upper: float, name: str) -> Index:
        count = len(self.columns)
        rows = self.builder.add_rows(np.full(count, lower), np.full(count, upper), name=name)
        self.builder.add_entries(rows[:, None], form.columns, form.coefficients)
        return rows

    def _shared_max(self, term: MaxTerm, side: Side, name: str, encoded: _Encoded) -> Index:
        """The column of the maximum; a function that reads it in several places has one for each side."""
        if (term.key, side) not in encoded.values:
            encoded.values[term.key, side] = self._encode_max(term, side, name, encoded)
        return encoded.values[term.key, side]

    def _encode_max(self, term: MaxTerm, side: Side, name: str, encoded: _Encoded) -> Index:
        low, high = term.bounds(self.lower, self.upper, encoded.bounds)
        lows, highs = term.argument_bounds(self.lower, self.upper, encoded.bounds)
        possible = highs >= low[:, None] - TIE * np.maximum(1.0, np.abs(highs))
        value = self.builder.add_columns(low, high, name=name)
        arguments = [self._encode(g, side, f"{name}_arg{j}", encoded) for j, g in enumerate(term.arguments)]
        if side is not Side.BELOW:
            for j, form in enumerate(arguments):
                self._at_least(value, form, possible[:, j], f"{name}_ge{j}")
        selectors = None
        if side is not Side.ABOVE:
            self._check_finite(high, lows, name)
            selectors = self.builder.add_columns(np.zeros(possible.shape), possible, integer=True, name=f"{name}_is")
            for j, form in enumerate(arguments):
                self._at_most(value, form, selectors[:, j], possible[:, j], high - lows[:, j], f"{name}_le{j}")
            rows = self.builder.add_rows(np.ones(len(value)), np.ones(len(value)), name=f"{name}_one")
            self.builder.add_entries(rows[:, None], selectors, 1.0)
        self.terms.append(MaxColumns(term, value, selectors))
        return value

    def _product(self, product: Product, side: Side, name: str, encoded: _Encoded) -> Index:
        """The column of factor · function, which may stray to one side."""
        low, high = product.factor.bounds(self.lower, self.upper)
        inner = side if (low >= 0.0).all() else Side(-side.value) if (high <= 0.0).all() else Side.EXACT
        form = self._encode(product.function, inner, name, encoded)
        bounds = product.function.bounds(self.lower, self.upper, encoded.bounds)
        value = self.builder.add_columns(*product_bounds((low, high), bounds), name=name)
        if side is not Side.BELOW:
            self._product_rows(value, form, low, high, bounds, 1.0)
        if side is not Side.ABOVE:  # −p = −f · g
            self._product_rows(value, form, -high, -low, bounds, -1.0)
        self.terms.append(ProductColumns(product, value))
        return value

    def _product_rows(
        self, value: Index, form: LinearForm, low: Array, high: Array, bounds: tuple[Array, Array], sign: float
    ) -> None:
        """sign · p >= f g for f in [low, high]: one row where that is a single number, otherwise two."""
        least, most = bounds
        width = np.where(high > low, high - low, 0.0)
        with np.errstate(invalid="ignore"):
            below, above = np.minimum(0.0, least * width), np.minimum(0.0, -most * width)
        for slope, offset, where in ((low, below, np.ones(len(low), dtype=bool)), (high, above, high > low)):
            kept = where & np.isfinite(slope) & np.isfinite(offset)
            rows = self.builder.add_rows(slope[kept] * form.constant + offset[kept], np.inf)
            self.builder.add_entries(rows, value[kept], sign)
            self.builder.add_entries(rows[:, None], form.columns[kept], -slope[kept, None] * form.coefficients)

    def _at_least(self, value: Index, form: LinearForm, where: NDArray[np.bool_], name: str) -> None:
        """value − form >= constant at the steps where it can matter."""
        rows = self.builder.add_rows(np.full(where.sum(), form.constant), np.inf, name=name)
        self.builder.add_entries(rows, value[where], 1.0)
        self.builder.add_entries(rows[:, None], form.columns[where], -form.coefficients)

    def _at_most(
        self, value: Index, form: LinearForm, selector: Index, where: NDArray[np.bool_], big_m: Array, name: str
    ) -> None:
        """value <= form + M (1 − selector) at the steps where the argument can attain the maximum."""
        rows = self.builder.add_rows(-np.inf, (form.constant + big_m)[where], name=name)
        self.builder.add_entries(rows, value[where], 1.0)
        self.builder.add_entries(rows, selector[where], big_m[where])
        self.builder.add_entries(rows[:, None], form.columns[where], -form.coefficients)

    def _check_finite(self, high: Array, lows: Array, name: str) -> None:
        if not (np.isfinite(high).all() and np.isfinite(lows).all()):
            raise InputError(
                f"the {name.split('_max')[0]} has a non-concave abs, min or max over a variable without finite bounds; "
                f"give every variable that it reads bounds = [lower, upper]"
            )
