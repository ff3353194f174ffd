"""Operators that calculate: sums, products, reductions, normalisation by constants, and functions of constants."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add, mul, sub
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from reluplan.network.affine import Affine, NotPiecewiseLinearError, batch_normalised, contracted
from reluplan.network.onnx.call import FLOAT_TYPES, INTEGER_TYPES, Call, Operator, Result, on_constants

DEFAULT_EPSILON = float(np.float32(1e-5))  # attributes are single precision: it shows if a variance is zero


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
    return tensor if factor == 1.0 else tensor * Affine.constant(factor)


def _div(call: Call) -> Affine:
    first, second = call.operands
    if not (first.is_integer and second.is_integer):
        return first / second
    if not second.value.all():
        raise ValueError("it divides integers by zero")
    quotient = np.abs(first.value) // np.abs(second.value)  # ONNX rounds towards zero, numpy down
    return Affine.constant(quotient * np.sign(first.value) * np.sign(second.value))


def _mod(call: Call) -> Result:
    """The sign of the divisor, as in Python, or with fmod that of the dividend, as in C."""
    if not call.is_constant:
        raise NotPiecewiseLinearError("it jumps, and a ReLU network cannot jump")
    if call[1].is_integer and not call[1].value.all():
        raise ValueError("it divides integers by zero")
    return on_constants(np.fmod if call.attribute("fmod", 0) else np.mod)(call)


def _pow(call: Call) -> Affine:
    """Of constants; a tensor to the power of 1 is itself."""
    first, second = call.operands
    if first.is_constant:
        power = np.power(first.value.astype(np.float64), _constant_exponent(second))
        return Affine.constant(power.astype(first.value.dtype))
    if not (_constant_exponent(second) == 1).all():
        raise NotPiecewiseLinearError("it takes a power of a tensor that depends on the inputs")
    return first + Affine.constant(np.zeros(second.shape))


def _constant_exponent(exponent: Affine) -> NDArray[Any]:
    if not exponent.is_constant:
        raise NotPiecewiseLinearError("its exponent depends on the inputs")
    return exponent.value


def _einsum(call: Call) -> Affine:
    """A sum of products of one or two tensors, with letters for their axes."""
    equation = call.text("equation", "").replace(" ", "")
    left, arrow, kept = equation.partition("->")
    terms = left.split(",")
    if "." in equation or not arrow or len(terms) != len(call.given) or len(terms) > 2:
        raise ValueError(f"the equation '{equation}' is not supported: one or two tensors, an arrow and no ellipsis")
    axes = [[ord(letter) for letter in term] for term in (*terms, kept)]
    tensors = [*call.given, Affine.constant(np.ones(()))][:2]
    if any(len(names) != len(t.shape) for names, t in zip(axes[: len(terms)], tensors, strict=False)):
        raise ValueError(f"the equation '{equation}' does not fit the shapes of its tensors")
    if len(set(axes[-1])) != len(axes[-1]) or not set(axes[-1]) <= {axis for names in axes[:-1] for axis in names}:
        raise ValueError(f"the equation '{equation}' is not valid")
    return contracted(tensors[0], axes[0], tensors[1], axes[1] if len(terms) == 2 else [], axes[-1])


def _reduced(reduction: Callable[[Call, Affine, list[int]], Affine]) -> Operator:
    """A reduction over axes, which are an input or an attribute; if none is given over all, or on request over none."""

    def evaluated(call: Call) -> Affine:
        tensor = call[0]
        axes = call.integers("axes", 1)
        if not axes and call.attribute("noop_with_empty_axes", 0):
            return reduction(call, tensor, [])
        positions = sorted({tensor.axis(axis) for axis in axes or range(len(tensor.shape))})
        result = reduction(call, tensor, positions)
        kept = [1 if axis in positions else size for axis, size in enumerate(tensor.shape)]
        return result.reshaped(kept) if call.attribute("keepdims", 1) else result

    return evaluated


def _sum_over(call: Call, tensor: Affine, axes: list[int]) -> Affine:
    return tensor.summed(axes)


def _mean_over(call: Call, tensor: Affine, axes: list[int]) -> Affine:
    count = int(np.prod([tensor.shape[axis] for axis in axes]))
    return tensor.summed(axes) / Affine.constant(float(count))


def _absolute_sum_over(call: Call, tensor: Affine, axes: list[int]) -> Affine:
    return call.builder.absolute(tensor).summed(axes)


def _largest_over(call: Call, tensor: Affine, axes: list[int]) -> Affine:
    for axis in reversed(axes):
        tensor = call.builder.maximum_along(tensor, axis)
    return tensor


def _smallest_over(call: Call, tensor: Affine, axes: list[int]) -> Affine:
    return -_largest_over(call, -tensor, axes)


def _product_over(call: Call, tensor: Affine, axes: list[int]) -> Affine:
    if not tensor.is_constant:
        raise NotPiecewiseLinearError("it multiplies entries that depend on the inputs")
    return Affine.constant(tensor.value.prod(axis=tuple(axes)))


def _cast(call: Call) -> Affine:
    """Rounds constants as ONNX does; an expression keeps its real value: rounding is not affine."""
    return _cast_to(call[0], call.attribute("to", TensorProto.DOUBLE))


def _cast_like(call: Call) -> Affine:
    """The type is known only roughly here, and a real value is kept."""
    return _cast_to(call[0], TensorProto.INT64 if call[1].is_integer else TensorProto.DOUBLE)


def _cast_to(tensor: Affine, target: int) -> Affine:
    if target in FLOAT_TYPES:
        if not tensor.is_constant:
            return tensor
        rounded = tensor.value.astype(helper.tensor_dtype_to_np_dtype(target))
        return Affine.constant(rounded.astype(np.float64))
    if target in INTEGER_TYPES and tensor.is_constant:
        whole = np.trunc(tensor.value).astype(np.int64)
        return Affine.constant(tensor.value != 0 if target == TensorProto.BOOL else whole)
    raise ValueError(f"a cast to {TensorProto.DataType.Name(target)} is not supported here")


def _dropout(call: Call) -> Affine:
    training = call.optional(2)
    if training is not None and training.value.any():
        raise ValueError("dropout in training mode is random: export the network in evaluation mode")
    return call[0]


def _batch_normalization(call: Call) -> Affine:
    """Before operator set 7, evaluation mode shows by a single output."""
    call.check_attribute("training_mode", 0, "batch normalisation in training mode")
    call.check_attribute("spatial", 1, "batch normalisation per activation")
    if sum(map(bool, call.node.output)) > 1:
        raise ValueError("batch normalisation in training mode is not supported (it has several outputs)")
    tensor, scale, shift, mean, variance = (call[position] for position in range(5))
    return batch_normalised(tensor, scale, shift, mean, variance, call.attribute("epsilon", DEFAULT_EPSILON))


def _paired(function: Callable[[Affine, Affine], Affine]) -> Operator:
    return lambda call: function(*call.operands)


CONSTANT_FUNCTIONS: dict[str, Callable[..., NDArray[Any]]] = {
    "Acos": np.arccos,
    "And": np.logical_and,
    "Asin": np.arcsin,
    "Atan": np.arctan,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Equal": np.equal,
    "Exp": np.exp,
    "Floor": np.floor,
    "Log": np.log,
    "Or": np.logical_or,
    "Reciprocal": lambda values: 1.0 / values,
    "Round": np.rint,
    "Sign": np.sign,
    "Sin": np.sin,
    "Sqrt": np.sqrt,
    "Tan": np.tan,
    "Tanh": np.tanh,
    "Xor": np.logical_xor,
}
"""What can be computed of constants; of anything else, it is refused."""

OPERATORS: dict[str, Operator] = {
    "Add": _paired(add),
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Div": _div,
    "Dropout": _dropout,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "Identity": lambda call: call[0],
    "MatMul": lambda call: call[0] @ call[1],
    "Mean": lambda call: reduce(add, call.given) / Affine.constant(float(len(call.given))),
    "Mod": _mod,
    "Mul": _paired(mul),
    "Neg": lambda call: -call[0],
    "Pow": _pow,
    "ReduceL1": _reduced(_absolute_sum_over),
    "ReduceMax": _reduced(_largest_over),
    "ReduceMean": _reduced(_mean_over),
    "ReduceMin": _reduced(_smallest_over),
    "ReduceProd": _reduced(_product_over),
    "ReduceSum": _reduced(_sum_over),
    "Sub": _paired(sub),
    "Sum": lambda call: reduce(add, call.given),
}
