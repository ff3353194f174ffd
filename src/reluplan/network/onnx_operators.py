"""The ONNX operators that keep a tensor affine, each as a function of symbolic tensors.

An operator raises ValueError with the reason alone; the reader adds the file and the node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add, matmul, mul, neg, sub
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from reluplan.network.affine import Affine, batch_normalised, concatenated
from reluplan.registry import Registry

FLOAT_TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
INTEGER_TYPES = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
DEFAULT_EPSILON = float(np.float32(1e-5))  # attributes are single precision: it shows if a variance is zero


@dataclass(frozen=True)
class Call:
    """One node of the graph with its inputs evaluated; None is an optional input that was left out."""

    node: onnx.NodeProto
    arguments: tuple[Affine | None, ...]

    def optional(self, position: int) -> Affine | None:
        return self.arguments[position] if position < len(self.arguments) else None

    def __getitem__(self, position: int) -> Affine:
        argument = self.optional(position)
        if argument is None:
            raise ValueError(f"its input {position + 1} is missing")
        return argument

    @property
    def given(self) -> list[Affine]:
        return [argument for argument in self.arguments if argument is not None]

    def attribute(self, name: str, default: Any) -> Any:
        for attribute in self.node.attribute:
            if attribute.name == name:
                return helper.get_attribute_value(attribute)
        return default

    def integers(self, name: str, position: int) -> list[int] | None:
        """A list that newer operator sets pass as an input and older ones as an attribute."""
        argument = self.optional(position)
        if argument is None:
            values = self.attribute(name, None)
            return None if values is None else [int(value) for value in values]
        if not np.issubdtype(argument.value.dtype, np.integer):
            raise ValueError(f"its input '{name}' must hold integers")
        return [int(value) for value in argument.value.ravel()]

    def check_attribute(self, name: str, expected: int, meaning: str) -> None:
        if self.attribute(name, expected) != expected:
            raise ValueError(f"{meaning} is not supported (attribute {name} must be {expected})")


def tensor_constant(tensor: onnx.TensorProto) -> Affine:
    """The numbers of an initialiser or of a Constant node, all finite."""
    if tensor.data_type not in (*FLOAT_TYPES, *INTEGER_TYPES):
        raise ValueError(f"element type {TensorProto.DataType.Name(tensor.data_type)} is not supported")
    values = numpy_helper.to_array(tensor)
    if tensor.data_type in FLOAT_TYPES:
        values = values.astype(np.float64)  # exact; also turns bfloat16 into a type that numpy knows
        if not np.isfinite(values).all():
            raise ValueError("there is a value that is NaN or infinite")
    return Affine.constant(values)


def _gemm(call: Call) -> Affine:
    """alpha A B + beta C, with A or B transposed on request."""
    left = call[0]
    right = call[1]
    if len(left.shape) != 2 or len(right.shape) != 2:
        raise ValueError("Gemm needs two tensors of rank 2")
    left = left.transposed() if call.attribute("transA", 0) else left
    right = right.transposed() if call.attribute("transB", 0) else right
    product = _scaled(left @ right, call.attribute("alpha", 1.0))
    added = call.optional(2)
    if added is None:
        return product
    return product + _scaled(added, call.attribute("beta", 1.0)).broadcast(product.shape)


def _scaled(tensor: Affine, factor: float) -> Affine:
    return tensor * Affine.constant(np.array(factor))


def _div(call: Call) -> Affine:
    if all(argument.is_integer for argument in call.given):
        raise ValueError("integer division is not supported")
    return call[0] / call[1]


def _concat(call: Call) -> Affine:
    return concatenated(call.given, call.attribute("axis", 1))


def _flatten(call: Call) -> Affine:
    """A matrix whose rows are the axes before `axis`."""
    shape = call[0].shape
    axis = call.attribute("axis", 1)
    return call[0].reshaped([math.prod(shape[:axis]), math.prod(shape[axis:])])


def _reshape(call: Call) -> Affine:
    wanted = call.integers("shape", 1) or []
    if not call.attribute("allowzero", 0):  # then a zero means "as before"
        wanted = [size or call[0].shape[position] for position, size in enumerate(wanted)]
    return call[0].reshaped(wanted)


def _squeeze(call: Call) -> Affine:
    axes = call.integers("axes", 1)
    if axes is None:
        return call[0].reshaped([size for size in call[0].shape if size != 1])
    positions = tuple(call[0].axis(axis) for axis in axes)
    return call[0].rearranged(lambda entries: np.squeeze(entries, positions))


def _unsqueeze(call: Call) -> Affine:
    axes = call.integers("axes", 1) or []
    rank = len(call[0].shape) + len(axes)
    if not all(-rank <= axis < rank for axis in axes):
        raise ValueError(f"an axis of {axes} does not exist in a result of rank {rank}")
    return call[0].rearranged(lambda entries: np.expand_dims(entries, tuple(axis % rank for axis in axes)))


def _transpose(call: Call) -> Affine:
    return call[0].transposed(call.attribute("perm", None))


def _slice(call: Call) -> Affine:
    starts = call.integers("starts", 1) or []
    ends = call.integers("ends", 2) or []
    axes = call.integers("axes", 3) or list(range(len(starts)))
    steps = call.integers("steps", 4) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ValueError("its starts, ends, axes and steps must have the same length")
    tensor = call[0]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        position = tensor.axis(axis)
        tensor = _taken(tensor, position, _slice_range(tensor.shape[position], start, end, step))
    return tensor


def _slice_range(size: int, start: int, end: int, step: int) -> range:
    """The entries of a slice. Unlike Python's, a start before the first entry means the first, also backwards."""
    start, end = (value + size if value < 0 else value for value in (start, end))
    lowest_end, highest = (0, size) if step > 0 else (-1, size - 1)
    return range(min(max(start, 0), highest), min(max(end, lowest_end), highest), step)


def _taken(tensor: Affine, position: int, entries: range) -> Affine:
    return tensor.rearranged(lambda values: np.take(values, np.array(entries, dtype=np.intp), position))


def _gather(call: Call) -> Affine:
    indices = call[1].value
    if not np.issubdtype(indices.dtype, np.integer):
        raise ValueError("its indices must be integers")
    axis = call[0].axis(call.attribute("axis", 0))
    size = call[0].shape[axis]
    outside = indices[(indices < -size) | (indices >= size)]
    if outside.size:
        raise ValueError(f"there is no index {outside.flat[0]} on an axis of {size} entries")
    entries = call[0].size // max(1, size) * indices.size
    return call[0].rearranged(lambda values: np.take(values, indices, axis), entries)


def _split(call: Call) -> list[Affine]:
    axis = call[0].axis(call.attribute("axis", 0))
    parts = len(call.node.output)
    size = call[0].shape[axis]
    sizes = call.integers("split", 1)
    if sizes is None:
        largest = -(-size // parts)  # equal parts; only the last may be smaller
        sizes = [min(largest, size - largest * part) for part in range(parts)]
    if sum(sizes) != size or min(sizes) < 0 or len(sizes) != parts:
        raise ValueError(f"{size} entries cannot be split into {parts} parts of sizes {sizes}")
    ends = np.cumsum([0, *sizes]).tolist()
    return [_taken(call[0], axis, range(start, end)) for start, end in pairwise(ends)]


def _constant(call: Call) -> Affine:
    (attribute,) = call.node.attribute
    value = helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return tensor_constant(value)
    if attribute.name in ("value_float", "value_floats", "value_int", "value_ints"):
        return tensor_constant(numpy_helper.from_array(np.array(value)))
    raise ValueError(f"a constant given as {attribute.name} is not supported")


def _shape(call: Call) -> Affine:
    shape = call[0].shape[call.attribute("start", 0) : call.attribute("end", None)]
    return Affine.constant(np.array(shape, dtype=np.int64))


def _cast(call: Call) -> Affine:
    """Rounds constants as ONNX does; an expression keeps its real value: rounding is not affine."""
    target = call.attribute("to", TensorProto.DOUBLE)
    if target in FLOAT_TYPES:
        if not call[0].is_constant:
            return call[0]
        rounded = call[0].value.astype(helper.tensor_dtype_to_np_dtype(target))
        return Affine.constant(rounded.astype(np.float64))
    if target in (TensorProto.INT32, TensorProto.INT64) and call[0].is_constant:
        return Affine.constant(np.trunc(call[0].value).astype(np.int64))
    raise ValueError(f"a cast to {TensorProto.DataType.Name(target)} is not supported here")


def _dropout(call: Call) -> Affine:
    training = call.optional(2)
    if training is not None and training.value.any():
        raise ValueError("dropout in training mode is random: export the network in evaluation mode")
    return call[0]


def _batch_normalization(call: Call) -> Affine:
    call.check_attribute("training_mode", 0, "batch normalisation in training mode")
    call.check_attribute("spatial", 1, "batch normalisation per activation")
    if len(call.node.output) > 1:
        raise ValueError("batch normalisation in training mode is not supported (it has several outputs)")
    tensor, scale, shift, mean, variance = (call[position] for position in range(5))
    return batch_normalised(tensor, scale, shift, mean, variance, call.attribute("epsilon", DEFAULT_EPSILON))


def _folded(function: Callable[..., Affine]) -> Callable[[Call], Affine]:
    """An operator that is a plain function of all its inputs."""
    return lambda call: function(*call.given)


Operator = Callable[[Call], Affine | list[Affine]]

OPERATORS: Registry[Operator] = Registry("ONNX operator", "reluplan.onnx_operators")
"""By their names in ONNX; Relu, which makes units, is the reader's own. A further one is registered by its name."""

_BUILT_IN: dict[str, Operator] = {
    "Add": _folded(add),
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Concat": _concat,
    "Constant": _constant,
    "Div": _div,
    "Dropout": _dropout,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "Identity": lambda call: call[0],
    "MatMul": _folded(matmul),
    "Mul": _folded(mul),
    "Neg": _folded(neg),
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Sub": _folded(sub),
    "Sum": lambda call: reduce(add, call.given),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
for _name, _operator in _BUILT_IN.items():
    OPERATORS.register(_name, _operator)
