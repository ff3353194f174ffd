"""Piecewise-linear functions as linear forms that are exact at a given trajectory, for all steps at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan.optimisation.model import Index, ModelBuilder
from reluplan.optimisation.piecewise_rows import Side
from reluplan.problem.piecewise import MaxTerm, PiecewiseLinear, Product

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StepForms:
    """For each step t: coefficients[t] · x[columns[t]] + constants[t]; shapes (T, k), (T, k), (T,)."""

    columns: Index
    coefficients: Array
    constants: Array

    def plus(self, other: StepForms, weights: Array) -> StepForms:
        """This one plus a multiple of the other, by another weight at each step, shape (T,)."""
        return StepForms(
            np.hstack([self.columns, other.columns]),
            np.hstack([self.coefficients, weights[:, None] * other.coefficients]),
            self.constants + weights * other.constants,
        )

    def merged(self) -> StepForms:
        """The same with every column once: forms of maxima inside each other would double in width."""
        _, first, place = np.unique(self.columns[0], return_index=True, return_inverse=True)
        coefficients = np.zeros((len(self.columns), len(first)))
        np.add.at(coefficients.T, place, self.coefficients.T)
        return StepForms(self.columns[:, first], coefficients, self.constants)


def step_forms(builder: ModelBuilder, function: PiecewiseLinear, side: Side, columns: Index, w: Array) -> StepForms:
    """A linear form for each step that strays to one side of the function at most, and is exact at w.

    The function's arguments stand in `columns` (T, width) and have the values w (T, width) now. A maximum that may be
    overestimated gets a column above all its arguments. Any other keeps the argument that attains it now, which is at
    most the maximum.
    """
    return _Encoder(builder, columns, w).encode(function, side)


@dataclass(frozen=True, eq=False)
class _Encoder:
    """Encodes one function. known: the forms of maxima that the function reads elsewhere, by their key and side."""

    builder: ModelBuilder
    columns: Index
    w: Array
    known: dict[tuple[int, Side], StepForms] = field(default_factory=dict)

    def encode(self, function: PiecewiseLinear, side: Side) -> StepForms:
        used = np.flatnonzero(function.coefficients)
        form = StepForms(
            self.columns[:, used],
            np.tile(function.coefficients[used], (len(self.w), 1)),
            np.full(len(self.w), function.constant),
        )
        for term in function.terms:
            key = term.key, side.times(term.weight)
            if key not in self.known:
                self.known[key] = self._maximum(term, key[1])
            form = form.plus(self.known[key], np.full(len(self.w), term.weight))
        for product in function.products:
            form = form.plus(*self._product(product, side))
        return form

    def _product(self, product: Product, side: Side) -> tuple[StepForms, Array]:
        """The form of a product's function, and by what it counts at each step."""
        weights = product.weight * product.factor.evaluate(self.w)
        signs = np.sign(weights[weights != 0.0])
        same = len(signs) > 0 and bool((signs == signs[0]).all())
        return self.encode(product.function, side.times(signs[0]) if same else Side.EXACT), weights

    def _maximum(self, term: MaxTerm, side: Side) -> StepForms:
        arguments = [self.encode(argument, side) for argument in term.arguments]
        if side is Side.ABOVE:
            return self._column_above(arguments)
        form = _chosen(arguments, term.evaluate(self.w).argmax(axis=-1))
        return form.merged() if term.is_nested else form

    def _column_above(self, arguments: list[StepForms]) -> StepForms:
        """A column m with rows m >= g_j."""
        count = len(self.w)
        value = self.builder.add_columns(np.full(count, -np.inf), np.inf)
        for form in arguments:
            rows = self.builder.add_rows(form.constants, np.inf)
            self.builder.add_entries(rows, value, 1.0)
            self.builder.add_entries(rows[:, None], form.columns, -form.coefficients)
        return StepForms(value[:, None], np.ones((count, 1)), np.zeros(count))


def _chosen(forms: list[StepForms], choice: NDArray[np.int64]) -> StepForms:
    """The form with the chosen number at each step."""
    return StepForms(
        np.hstack([form.columns for form in forms]),
        np.hstack([np.where((choice == j)[:, None], form.coefficients, 0.0) for j, form in enumerate(forms)]),
        np.choose(choice, [form.constants for form in forms]),
    )
