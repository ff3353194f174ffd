"""Piecewise-linear functions as ReLU units: max(p, q) = p + max(0, q − p)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reluplan.network.relu_network import Layer
from reluplan.problem.piecewise import MaxTerm, PiecewiseLinear

Array = NDArray[np.float64]
Row = tuple[Array, float]
"""Weights over inputs and hidden units, and a constant."""


class ReluCompiler:
    """Appends to hidden layers the units that functions need, each in a layer of its own.

    outputs: of the network so far, if functions read them too; read: where they stand in w. Else functions read inputs.
    `define` gives a place in w to a function that was appended, for functions to come.
    """

    def __init__(
        self,
        input_count: int,
        hidden: Sequence[Layer],
        outputs: Layer | None = None,
        read: slice = slice(0, 0),
    ) -> None:
        self.hidden = list(hidden)
        self._input_count = input_count
        self._outputs = outputs
        self._read = read
        self._known: dict[int, Row] = {}
        self._defined: dict[int, Row] = {}

    @property
    def width(self) -> int:
        """How many values a layer behind these ones reads."""
        last = self.hidden[-1] if self.hidden else None
        return self._input_count if last is None else last.weights.shape[1] + last.unit_count

    def append(self, function: PiecewiseLinear) -> Row:
        """Append the units of a function; returns its row over inputs and hidden units, and its constant.

        Within one function equal maxima share their units (`MaxTerm.key`).
        """
        self._known = {}
        return self._function(function)

    def define(self, position: int, row: Row) -> None:
        """From now on functions that read this place in w read the row, in place of an output."""
        self._defined[position] = row

    def _function(self, function: PiecewiseLinear) -> Row:
        if function.products:
            raise ValueError("a product with a series is no function of ReLUs")
        row, bias = self._affine(function)
        for term in function.terms:
            if term.key not in self._known:
                self._known[term.key] = self._maximum(term)
            largest, offset = self._known[term.key]
            width = max(len(row), len(largest))
            row = pad(row, width) + term.weight * pad(largest, width)
            bias += term.weight * offset
        return pad(row, self.width), bias

    def _maximum(self, term: MaxTerm) -> Row:
        """The row and constant of the unweighted maximum."""
        largest, offset = self._function(term.arguments[0])
        for argument in term.arguments[1:]:
            other, other_offset = self._function(argument)
            largest = pad(largest, len(other))
            self.hidden.append(Layer((other - largest)[None, :], np.array([other_offset - offset])))
            largest = np.append(largest, 1.0)
        return largest, offset

    def _affine(self, function: PiecewiseLinear) -> Row:
        """The affine part; with outputs f(x) = W z + b it is c_x · x + c_f · (W z + b) + constant."""
        row, bias = function.coefficients[: self._input_count], function.constant
        of_outputs = function.coefficients[self._read]
        if self._outputs is not None and of_outputs.any():
            of_inputs, row = row, of_outputs @ self._outputs.weights
            row[: self._input_count] += of_inputs
            bias += float(of_outputs @ self._outputs.bias)
        for position, (defined, offset) in self._defined.items():
            factor = float(function.coefficients[position])
            if factor:
                width = max(len(row), len(defined))
                row = pad(row, width) + factor * pad(defined, width)
                bias += factor * offset
        return row, bias


def pad(array: Array, width: int) -> Array:
    """Zeros on the right, up to the width."""
    missing = width - array.shape[-1]
    if not missing:
        return array
    return np.concatenate([array, np.zeros((*array.shape[:-1], missing))], axis=-1)
