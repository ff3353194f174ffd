"""Symbolic tensors: what importers compute with in place of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.network.relu_network import Layer, ReluNetwork

LARGEST_TENSOR = 2**27
"""How many numbers a symbolic tensor may hold, (1 + columns) times its entries: 1 GiB. Seven dense layers of 4096 units
fit. It is checked before anything is computed, so that a small file cannot ask for any amount of memory."""


@dataclass(frozen=True, eq=False)
class Affine:
    """A tensor whose every entry is an affine function of the columns c = (inputs, ReLU units so far):

        tensor = terms[0] + sum_j c_j terms[1 + j],        terms of shape (1 + columns, *shape).

    Every linear operation on the tensor is the same operation on each of the terms. A tensor without
    columns is a constant. Later columns may be left out: they count as zero.
    """

    terms: NDArray[Any]

    @classmethod
    def constant(cls, value: NDArray[Any]) -> Affine:
        """Floats become float64 and integers int64, so that integers stay recognisable (shapes, indices)."""
        dtype = np.float64 if np.issubdtype(value.dtype, np.floating) else np.int64
        return cls(value.astype(dtype)[np.newaxis])

    @classmethod
    def columns(cls, first: int, shape: tuple[int, ...]) -> Affine:
        """The columns first, first + 1, ... themselves, arranged row by row in a tensor of that shape."""
        size = math.prod(shape)
        require_size(first + size, shape)
        terms = np.zeros((1 + first + size, size))
        terms[1 + first :] = np.eye(size)
        return cls(terms.reshape(len(terms), *shape))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.terms.shape[1:]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_constant(self) -> bool:
        return len(self.terms) == 1

    @property
    def value(self) -> NDArray[Any]:
        """The numbers of a constant."""
        if not self.is_constant:
            raise ValueError("a tensor that must be constant depends on the inputs of the network")
        return np.asarray(self.terms[0])

    def extended(self, column_count: int) -> Affine:
        """The same tensor with zero coefficients for the columns up to column_count."""
        missing = 1 + column_count - len(self.terms)
        require_size(column_count, self.shape)
        return Affine(np.pad(self.terms, [(0, missing)] + [(0, 0)] * len(self.shape))) if missing else self

    def broadcast(self, shape: tuple[int, ...]) -> Affine:
        """The same tensor repeated to that shape by numpy's rules, which are also ONNX's."""
        require_size(len(self.terms) - 1, shape)
        new_axes = (1,) * (len(shape) - len(self.shape))
        terms = self.terms.reshape(len(self.terms), *new_axes, *self.shape)
        try:
            return Affine(np.broadcast_to(terms, (len(terms), *shape)))
        except ValueError:
            raise ValueError(f"a tensor of shape {self.shape} cannot be broadcast to {shape}") from None

    def reshaped(self, shape: Sequence[int]) -> Affine:
        """The same entries, row by row, in that shape; one size may be -1, for whatever is left."""
        try:
            return Affine(self.terms.reshape(len(self.terms), *shape))
        except ValueError:
            raise ValueError(f"a tensor of shape {self.shape} cannot take the shape {tuple(shape)}") from None

    def transposed(self, order: Sequence[int] | None = None) -> Affine:
        """Axes in that order; reversed if none is given."""
        order = order if order is not None else range(len(self.shape))[::-1]
        return Affine(self.terms.transpose(0, *(1 + axis for axis in order)))

    def axis(self, axis: int) -> int:
        """The position in `terms` of an axis of the tensor, counted from the end if negative."""
        if not -len(self.shape) <= axis < len(self.shape):
            raise ValueError(f"axis {axis} does not exist in a tensor of shape {self.shape}")
        return 1 + axis % len(self.shape)

    def __neg__(self) -> Affine:
        return Affine(-self.terms)

    def __add__(self, other: Affine) -> Affine:
        a, b = aligned(self, other)
        return Affine(a.terms + b.terms)

    def __sub__(self, other: Affine) -> Affine:
        a, b = aligned(self, other)
        return Affine(a.terms - b.terms)

    def __mul__(self, other: Affine) -> Affine:
        """Entry by entry; one factor must be constant."""
        factor, tensor = (self, other) if self.is_constant else (other, self)
        _require_one_constant(factor)
        shape = common_shape(self, other)
        return Affine(tensor.broadcast(shape).terms * factor.broadcast(shape).value)

    def __truediv__(self, other: Affine) -> Affine:
        if not other.is_constant:
            raise ValueError("it divides by a tensor that depends on the inputs: not piecewise linear")
        shape = common_shape(self, other)
        return Affine(self.broadcast(shape).terms / other.broadcast(shape).value)

    def __matmul__(self, other: Affine) -> Affine:
        """numpy's matmul; one factor must be a constant of rank 1 or 2."""
        if not other.is_constant:
            _require_one_constant(self)
            if len(self.shape) > 2 or len(other.shape) > 2:
                raise ValueError("the product of a constant and a tensor of rank above 2 is not supported")
            return (other.transposed() @ self.transposed()).transposed()  # A B = (B' A')'
        right = other.value
        if right.ndim not in (1, 2) or not self.shape or self.shape[-1] != len(right):
            raise ValueError("the shapes do not fit a matrix product")
        require_size(len(self.terms) - 1, (*self.shape[:-1], *right.shape[1:]))
        flat = self.terms.reshape(-1, len(right)) @ right  # one BLAS call, not one per term
        return Affine(flat.reshape(*self.terms.shape[:-1], *right.shape[1:]))


def require_size(column_count: int, shape: Sequence[int]) -> None:
    """ValueError if a tensor of that shape over so many columns is too large."""
    entries = math.prod(shape)
    if (1 + column_count) * entries > LARGEST_TENSOR:
        raise ValueError(
            f"its result would be too large: {entries:,} entries over {column_count:,} inputs and units; "
            f"at most {LARGEST_TENSOR:,} numbers are held"
        )


def aligned(*tensors: Affine) -> list[Affine]:
    """The tensors with their common shape and the same columns."""
    shape = common_shape(*tensors)
    return [tensor.broadcast(shape) for tensor in with_same_columns(tensors)]


def with_same_columns(tensors: Sequence[Affine]) -> list[Affine]:
    """The tensors, each extended to the columns of all."""
    count = max(len(tensor.terms) for tensor in tensors) - 1
    return [tensor.extended(count) for tensor in tensors]


def common_shape(*tensors: Affine) -> tuple[int, ...]:
    """The shape to which the tensors broadcast together."""
    try:
        return np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    except ValueError:
        raise ValueError("the shapes cannot be broadcast together") from None


def batch_normalised(
    tensor: Affine, scale: Affine, shift: Affine, mean: Affine, variance: Affine, epsilon: float
) -> Affine:
    """scale (tensor - mean) / sqrt(variance + epsilon) + shift, per entry of axis 1 (the channels)."""
    factor = scale.value / np.sqrt(variance.value + epsilon)
    offset = shift.value - factor * mean.value
    if len(tensor.shape) < 2 or factor.shape != (tensor.shape[1],):
        raise ValueError("batch normalisation needs a tensor (batch, channels, ...) and one number per channel")
    per_channel = (-1,) + (1,) * (len(tensor.shape) - 2)
    return tensor * Affine.constant(factor.reshape(per_channel)) + Affine.constant(offset.reshape(per_channel))


def _require_one_constant(factor: Affine) -> None:
    if not factor.is_constant:
        raise ValueError("it multiplies two tensors that both depend on the inputs: not piecewise linear")


class NetworkBuilder:
    """Collects the hidden layers while an importer walks through its operations in order."""

    def __init__(self, input_count: int) -> None:
        self.input_count = input_count
        self._hidden: list[Layer] = []
        self._column_count = input_count

    def relu(self, tensor: Affine) -> Affine:
        """max(0, tensor): one new hidden layer, with a column per entry; a constant stays constant."""
        if tensor.is_constant:
            return Affine(np.maximum(tensor.terms, 0))
        self._hidden.append(self._layer(tensor))
        units = Affine.columns(self._column_count, tensor.shape)
        self._column_count += self._hidden[-1].unit_count
        return units

    def finish(self, outputs: Affine) -> ReluNetwork:
        return ReluNetwork(self.input_count, tuple(self._hidden), self._layer(outputs))

    def _layer(self, tensor: Affine) -> Layer:
        """weights = terms[1:]', bias = terms[0], with the entries of the tensor row by row."""
        terms = tensor.extended(self._column_count).terms
        flat = terms.reshape(len(terms), tensor.size) + 0.0  # no negative zeros: equal weights get equal fingerprints
        return Layer(np.ascontiguousarray(flat[1:].T), flat[0].copy())
