"""Symbolic tensors: what importers compute with in place of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

LARGEST_TENSOR = 2**27
"""How many numbers a symbolic tensor may hold: its entries and the non-zero coefficients of all of them. A layer of
4096 units that reads seven others fits. It is checked before anything is computed, so that a small file cannot ask for
any amount of memory."""
LARGEST_HELD = 4 * LARGEST_TENSOR
"""Numbers in all tensors that are needed at one time, and in all layers of a network."""
DENSE_SHARE = 0.05
"""A product of matrices is left to BLAS if more than this share of its multiplications is not by zero."""


class NotPiecewiseLinearError(ValueError):
    """No ReLU network computes it exactly: another one can only be learned from it."""


@dataclass(frozen=True, eq=False)
class Affine:
    """A tensor whose every entry is an affine function of the columns c = (inputs, ReLU units so far):

        tensor = base + rows c,        base of the tensor's shape, rows (entries row by row, columns) sparse.

    A tensor without columns is a constant; a constant of integers (shapes, indices, conditions) has a base of integers.
    Later columns may be left out: they count as zero. Tensors may share the arrays of their rows, which are
    therefore never changed, and are sorted by column within a row.
    """

    base: NDArray[Any]
    rows: Any

    @classmethod
    def constant(cls, value: ArrayLike) -> Affine:
        """Floats become float64, integers and truth values int64, so that integers stay recognisable."""
        array = np.asarray(value)
        dtype = np.float64 if np.issubdtype(array.dtype, np.floating) else np.int64
        return cls(array.astype(dtype, copy=False), _no_columns(array.size))

    @classmethod
    def columns(cls, first: int, shape: tuple[int, ...]) -> Affine:
        """The columns first, first + 1, ... themselves, arranged row by row in a tensor of that shape."""
        size = math.prod(shape)
        require_size(2 * size)
        return cls(np.zeros(shape), sparse.eye_array(size, first + size, k=first, format="csr"))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.base.shape

    @property
    def size(self) -> int:
        return self.base.size

    @property
    def column_count(self) -> int:
        return int(self.rows.shape[1])

    @property
    def number_count(self) -> int:
        """How many numbers are held: what the limits count."""
        return int(self.size + self.rows.nnz)

    @property
    def is_constant(self) -> bool:
        return self.column_count == 0

    @property
    def is_integer(self) -> bool:
        return np.issubdtype(self.base.dtype, np.integer)

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.base).all() and np.isfinite(self.rows.data).all())

    @property
    def value(self) -> NDArray[Any]:
        """The numbers of a constant."""
        if not self.is_constant:
            raise ValueError("a tensor that must be constant depends on the inputs of the network")
        return self.base

    def extended(self, column_count: int) -> Affine:
        """The same tensor with zero coefficients for the columns up to column_count."""
        if column_count == self.column_count:
            return self
        parts = (self.rows.data, self.rows.indices, self.rows.indptr)
        return Affine(self.base, sparse.csr_array(parts, shape=(self.size, column_count)))

    def rearranged(self, move: Callable[[NDArray[Any]], NDArray[Any]], entries: int | None = None) -> Affine:
        """The tensor after a numpy function that only moves, leaves out or repeats entries.

        entries: how many it gives, if that may be more than there are; checked before it is called.
        """
        require_size(self.size if entries is None else entries)
        base = move(self.base)
        if self.is_constant:
            return Affine(base, _no_columns(base.size))
        positions = move(np.arange(self.size).reshape(self.shape)).ravel()
        require_size(positions.size + int(np.diff(self.rows.indptr)[positions].sum()))
        return Affine(base, self.rows[positions])

    def taken(self, positions: NDArray[np.integer[Any]]) -> Affine:
        """The entries at these positions, counted row by row, in the shape of the positions."""
        return self.rearranged(lambda entries: entries.ravel()[positions], positions.size)

    def broadcast(self, shape: tuple[int, ...]) -> Affine:
        """The same tensor repeated to that shape by numpy's rules, which are also ONNX's."""
        if shape == self.shape:
            return self
        try:
            return self.rearranged(lambda entries: np.broadcast_to(entries, shape), math.prod(shape))
        except ValueError as error:
            if "broadcast" not in str(error):
                raise
            raise ValueError(f"a tensor of shape {self.shape} cannot be broadcast to {shape}") from None

    def reshaped(self, shape: Sequence[int]) -> Affine:
        """The same entries, row by row, in that shape; one size may be -1, for whatever is left."""
        try:
            return Affine(self.base.reshape(tuple(shape)), self.rows)
        except ValueError:
            raise ValueError(f"a tensor of shape {self.shape} cannot take the shape {tuple(shape)}") from None

    def transposed(self, order: Sequence[int] | None = None) -> Affine:
        """Axes in that order; reversed if none is given."""
        return self.rearranged(lambda entries: entries.transpose(order))

    def axis(self, axis: int) -> int:
        """The position of an axis, counted from the end if negative."""
        if not -len(self.shape) <= axis < len(self.shape):
            raise ValueError(f"axis {axis} does not exist in a tensor of shape {self.shape}")
        return axis % len(self.shape)

    def mapped(self, matrix: Any, shape: Sequence[int]) -> Affine:
        """matrix tensor, in that shape: a sparse matrix (entries of the result, entries of the tensor)."""
        base = (matrix @ self.base.ravel()).reshape(shape)
        return Affine(base, _no_columns(base.size) if self.is_constant else _product(matrix, self.rows))

    def summed(self, axes: Sequence[int], keepdims: bool = False) -> Affine:
        """The sum over those axes."""
        kept = tuple(self.axis(axis) for axis in axes)
        base = self.base.sum(kept, keepdims=keepdims)
        if self.is_constant:
            return Affine.constant(base)
        of_entry = np.arange(base.size).reshape(self.base.sum(kept, keepdims=True).shape)
        targets = np.broadcast_to(of_entry, self.shape).ravel()
        ones = (np.ones(self.size), (targets, np.arange(self.size)))
        return Affine(base, _product(sparse.csr_array(ones, shape=(base.size, self.size)), self.rows))

    def __neg__(self) -> Affine:
        return Affine(-self.base, -self.rows)

    def __add__(self, other: Affine) -> Affine:
        a, b = aligned(self, other)
        rows = a.rows + b.rows if a.rows.nnz and b.rows.nnz else (a if a.rows.nnz else b).rows
        return Affine(a.base + b.base, rows)

    def __sub__(self, other: Affine) -> Affine:
        return self + -other

    def __mul__(self, other: Affine) -> Affine:
        """Entry by entry; one factor must be constant."""
        factor, tensor = (self, other) if self.is_constant else (other, self)
        _require_one_constant(factor)
        shape = common_shape(self, other)
        tensor = tensor.broadcast(shape)
        values = factor.broadcast(shape).value
        return Affine(tensor.base * values, _scaled_rows(tensor.rows, np.multiply, values))

    def __truediv__(self, other: Affine) -> Affine:
        if not other.is_constant:
            raise NotPiecewiseLinearError("it divides by a tensor that depends on the inputs: not piecewise linear")
        shape = common_shape(self, other)
        tensor = self.broadcast(shape)
        values = other.broadcast(shape).value
        return Affine(tensor.base / values, _scaled_rows(tensor.rows, np.divide, values))

    def __matmul__(self, other: Affine) -> Affine:
        """numpy's matmul; one factor must be constant."""
        _require_one_constant(other if other.is_constant else self)
        rank = len(self.shape), len(other.shape)
        if 0 in rank or self.shape[-1] != other.shape[-2 if rank[1] > 1 else 0]:
            raise ValueError("the shapes do not fit a matrix product")
        if self.is_constant and other.is_constant:
            return _constant_product(self.value, other.value)
        if other.is_constant and rank[1] <= 2:
            return _times_matrix(self, other.value)
        if self.is_constant and rank[0] <= 2 and rank[1] <= 2:
            return _matrix_times(self.value, other)
        return _product_of_stacks(self, other)


def require_size(count: int, what: str = "its result") -> None:
    """ValueError if a tensor would hold more numbers than the limit."""
    if count > LARGEST_TENSOR:
        raise ValueError(f"{what} would be too large: {count:,} numbers; at most {LARGEST_TENSOR:,} are held")


def require_held(count: int, what: str) -> None:
    """Many tensors or layers that are large, each within its limit, are too large together."""
    if count > LARGEST_HELD:
        raise ValueError(f"{what} hold {count:,} numbers, above {LARGEST_HELD:,}")


def aligned(*tensors: Affine) -> list[Affine]:
    """The tensors with their common shape and the same columns."""
    shape = common_shape(*tensors)
    return [tensor.broadcast(shape) for tensor in with_same_columns(tensors)]


def with_same_columns(tensors: Sequence[Affine]) -> list[Affine]:
    """The tensors, each extended to the columns of all."""
    count = max(tensor.column_count for tensor in tensors)
    return [tensor.extended(count) for tensor in tensors]


def common_shape(*tensors: Affine) -> tuple[int, ...]:
    """The shape to which the tensors broadcast together."""
    try:
        return np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    except ValueError:
        raise ValueError("the shapes cannot be broadcast together") from None


def concatenated(tensors: Sequence[Affine], axis: int) -> Affine:
    """The tensors side by side along an axis that all of them have."""
    position = tensors[0].axis(axis)
    require_size(sum(tensor.number_count for tensor in tensors))
    try:
        base = np.concatenate([tensor.base for tensor in tensors], position)
    except ValueError:
        raise ValueError(f"the shapes do not fit a concatenation along axis {position}") from None
    if all(tensor.is_constant for tensor in tensors):
        return Affine.constant(base)
    rows = sparse.vstack([tensor.rows for tensor in with_same_columns(tensors)], format="csr")
    starts = np.cumsum([0, *(tensor.size for tensor in tensors)])
    positions = [start + np.arange(t.size).reshape(t.shape) for start, t in zip(starts, tensors, strict=False)]
    return Affine(base, rows[np.concatenate(positions, position).ravel()])


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


def _no_columns(size: int) -> Any:
    return sparse.csr_array((size, 0))


def _require_one_constant(factor: Affine) -> None:
    if not factor.is_constant:
        raise NotPiecewiseLinearError("it multiplies two tensors that both depend on the inputs: not piecewise linear")


def _scaled_rows(rows: Any, operation: Callable[..., NDArray[Any]], factors: NDArray[Any]) -> Any:
    """Each row times, or divided by, its factor."""
    if not rows.nnz:
        return rows
    data = operation(rows.data, np.repeat(factors.ravel(), np.diff(rows.indptr)))
    scaled = sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape, copy=not data.all())
    if not data.all():
        scaled.eliminate_zeros()
    return scaled


def _product(matrix: Any, rows: Any) -> Any:
    """matrix rows, sparse; its non-zeros are bounded before it is computed.

    Row i of the product has at most as many as the rows that row i of the matrix reads, together.
    """
    per_row = np.diff(rows.indptr)
    multiplications = int(per_row[matrix.indices].sum())
    size = matrix.shape[0] * rows.shape[1]
    require_size(min(multiplications, size))
    if multiplications > DENSE_SHARE * size * matrix.shape[1] and _fits(matrix) and _fits(rows):
        return sparse.csr_array(matrix.toarray() @ rows.toarray())
    product = matrix @ rows
    product.eliminate_zeros()
    product.sort_indices()  # here, where the arrays are its own: tensors share theirs
    return product


def _fits(matrix: Any) -> bool:
    return bool(math.prod(matrix.shape) <= LARGEST_TENSOR)


def _constant_product(left: NDArray[Any], right: NDArray[Any]) -> Affine:
    try:
        stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ValueError("the shapes do not fit a matrix product") from None
    require_size(math.prod(stack) * math.prod(left.shape[-2:-1]) * math.prod(right.shape[-1:]))
    return Affine.constant(left @ right)


def _times_matrix(tensor: Affine, right: NDArray[Any]) -> Affine:
    """tensor (..., k) times a constant (k,) or (k, n): for each of its vectors v, right' v."""
    matrix = _sparse(right.reshape(len(right), -1).T)
    shape = (*tensor.shape[:-1], *right.shape[1:])
    return tensor.mapped(_repeated(matrix, math.prod(tensor.shape[:-1]), 1), shape)


def _matrix_times(left: NDArray[Any], tensor: Affine) -> Affine:
    """A constant (m, k) or (k,) times a tensor (k, n) or (k,)."""
    matrix = _sparse(left.reshape(-1, left.shape[-1]))
    shape = (*left.shape[:-1], *tensor.shape[1:])
    return tensor.mapped(_repeated(matrix, 1, math.prod(tensor.shape[1:])), shape)


def _sparse(matrix: NDArray[Any]) -> Any:
    """The matrix in sparse rows; one without zeros, as most weights are, takes a shorter way than scipy's."""
    if not matrix.size or not matrix.all():
        return sparse.csr_array(matrix)
    height, width = matrix.shape
    dtype = np.int32 if matrix.size < np.iinfo(np.int32).max else np.int64
    indices = np.tile(np.arange(width, dtype=dtype), height)
    starts = np.arange(0, matrix.size + 1, width, dtype=dtype)
    return sparse.csr_array((matrix.ravel(), indices, starts), shape=matrix.shape)


def _repeated(matrix: Any, blocks: int, columns: int) -> Any:
    """The Kronecker product 1_blocks x matrix x 1_columns, with unit matrices of those sizes; row by row, in place."""
    if blocks == columns == 1:
        return matrix
    height, width = matrix.shape
    require_size(blocks * columns * (matrix.nnz + height))
    block, row, column = (part.ravel() for part in np.indices((blocks, height, columns)))
    result = matrix[row]
    counts = np.diff(result.indptr)
    indices = (result.indices + np.repeat(block * width, counts)) * columns + np.repeat(column, counts)
    shape = (blocks * height * columns, blocks * width * columns)
    return sparse.csr_array((result.data, indices, result.indptr), shape=shape)


def _product_of_stacks(left: Affine, right: Affine) -> Affine:
    """numpy's matmul of stacks of matrices, as a contraction with named axes."""
    depth = max(len(left.shape), len(right.shape)) - 2
    stack = list(range(2, 2 + max(0, depth)))
    left_axes = [*stack[len(stack) - max(0, len(left.shape) - 2) :], *([-1, 0][-min(2, len(left.shape)) :])]
    right_axes = [*stack[len(stack) - max(0, len(right.shape) - 2) :], *([0, 1][: min(2, len(right.shape))])]
    kept = [*stack, *([-1] if len(left.shape) > 1 else []), *([1] if len(right.shape) > 1 else [])]
    return contracted(left, left_axes, right, right_axes, kept)


def contracted(
    left: Affine, left_axes: Sequence[int], right: Affine, right_axes: Sequence[int], kept: Sequence[int]
) -> Affine:
    """sum over all axes that are not kept of left times right; equal numbers name axes that run together.

    As in numpy.einsum, an axis of size 1 is repeated. One of the tensors must be constant.
    """
    constant, constant_axes, tensor, tensor_axes = (
        (left, left_axes, right, right_axes) if left.is_constant else (right, right_axes, left, left_axes)
    )
    _require_one_constant(constant)
    sizes: dict[int, int] = {}
    for axis, size in (*zip(left_axes, left.shape, strict=True), *zip(right_axes, right.shape, strict=True)):
        if size != 1 and sizes.get(axis, 1) not in (1, size):
            raise ValueError("the shapes do not fit a product of tensors")
        sizes[axis] = max(size, sizes.get(axis, size)) if 0 not in (size, sizes.get(axis, size)) else 0
    summed = [axis for axis in sizes if axis not in kept]
    order = [*kept, *summed]
    full = [sizes[axis] for axis in order]
    require_size(math.prod(full))
    shape = [sizes[axis] for axis in kept]
    values = _along(constant.value, constant_axes, order, full)
    reads = _along(np.arange(tensor.size).reshape(tensor.shape), tensor_axes, order, full)
    gives = np.repeat(np.arange(math.prod(shape)), math.prod(sizes[axis] for axis in summed))
    entries = (values.astype(np.float64), (gives, reads))
    return tensor.mapped(sparse.csr_array(entries, shape=(math.prod(shape), tensor.size)), shape)


def _along(values: NDArray[Any], axes: Sequence[int], order: Sequence[int], full: Sequence[int]) -> NDArray[Any]:
    """The values repeated over all axes in that order, flat; an axis that is named twice is its diagonal."""
    named = list(dict.fromkeys(axes))
    diagonal = np.einsum(values, list(_renumbered(axes, named)), list(range(len(named))))
    by_order = diagonal.transpose([named.index(axis) for axis in order if axis in named])
    sizes = iter(by_order.shape)
    placed = by_order.reshape([next(sizes) if axis in named else 1 for axis in order])
    return np.broadcast_to(placed, full).ravel()


def _renumbered(axes: Sequence[int], named: Sequence[int]) -> list[int]:
    return [named.index(axis) for axis in axes]
