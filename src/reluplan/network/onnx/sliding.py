"""Operators that slide a window over space: convolution and pooling."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from reluplan.network.affine import Affine
from reluplan.network.onnx.call import Call, Operator
from reluplan.network.windows import Steps, average_pooled, convolved, max_pooled


def _steps(call: Call, kernel: list[int]) -> list[Steps]:
    """How the windows lie on each axis of space, by kernel, strides, dilations, and pads or auto_pad."""
    space = call[0].shape[2:]
    rank = len(space)
    if rank < 1 or len(kernel) != rank:
        raise ValueError(f"a kernel of shape {tuple(kernel)} does not fit a tensor of shape {call[0].shape}")
    strides, dilations = (_per_axis(call, name, rank) for name in ("strides", "dilations"))
    steps = [Steps(*numbers) for numbers in zip(space, kernel, strides, dilations, strict=True)]
    pads = _pads(call, rank)
    mode = call.text("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return [_same(step, mode) for step in steps]
    if mode not in ("NOTSET", "VALID"):
        raise ValueError(f"the padding '{mode}' is not supported")
    zeros = [0] * (2 * rank)
    ends = pads if mode == "NOTSET" else zeros
    return [
        Steps(step.size, step.taps, step.stride, step.dilation, ends[axis], ends[rank + axis])
        for axis, step in enumerate(steps)
    ]


def _per_axis(call: Call, name: str, rank: int) -> list[int]:
    values = [int(value) for value in call.attribute(name, [1] * rank)]
    if len(values) != rank:
        raise ValueError(f"its attribute {name} must hold {rank} numbers")
    return values


def _pads(call: Call, rank: int) -> list[int]:
    pads = [int(value) for value in call.attribute("pads", [0] * (2 * rank))]
    if len(pads) != 2 * rank or min(pads, default=0) < 0:
        raise ValueError(f"its attribute pads must hold {2 * rank} numbers, none negative")
    return pads


def _same(step: Steps, mode: str) -> Steps:
    """Padding so that there are size / stride windows, rounded up; an odd one goes to the end for SAME_UPPER."""
    count = -(-step.size // step.stride)
    total = max(0, (count - 1) * step.stride + step.span - step.size)
    before = total // 2 if mode == "SAME_UPPER" else -(-total // 2)
    return Steps(step.size, step.taps, step.stride, step.dilation, before, total - before)


def _weights(call: Call) -> tuple[NDArray[np.float64], list[int], int]:
    """Weights, size of the kernel, and groups of a convolution."""
    weights = call[1].value
    groups = call.attribute("group", 1)
    if weights.ndim != len(call[0].shape) or weights.ndim < 3 or groups < 1:
        raise ValueError("a convolution needs a tensor (batch, channels, ...), weights of the same rank, and groups")
    kernel = list(weights.shape[2:])
    given = [int(size) for size in call.attribute("kernel_shape", kernel)]
    if given != kernel:
        raise ValueError(f"its attribute kernel_shape, {given}, differs from its weights, {kernel}")
    return weights, kernel, groups


def _with_bias(call: Call, result: Affine) -> Affine:
    bias = call.optional(2)
    if bias is None:
        return result
    if bias.shape != (result.shape[1],):
        raise ValueError("the bias must have one number per channel of the result")
    return result + bias.reshaped((-1, *([1] * (len(result.shape) - 2))))


def _conv(call: Call) -> Affine:
    weights, kernel, groups = _weights(call)
    tables = [step.table() for step in _steps(call, kernel)]
    return _with_bias(call, convolved(call[0], weights, tables, groups))


def _conv_transpose(call: Call) -> Affine:
    """weights (channels, m / groups, *taps); result i reads p if p stride + tap dilation - before = i."""
    weights, kernel, groups = _weights(call)
    if call.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or call.attribute("output_shape", None):
        raise ValueError("a transposed convolution with auto_pad or output_shape is not supported: give it pads")
    channels, per_group = weights.shape[:2]
    if channels % groups:
        raise ValueError(f"{channels} channels cannot be split into {groups} groups")
    extra = [int(value) for value in call.attribute("output_padding", [0] * len(kernel))]
    tables = []
    for step, further in zip(_steps(call, kernel), extra, strict=True):
        count = step.stride * (step.size - 1) + further + step.span - step.before - step.after
        if count < 1 or further < 0:
            raise ValueError("its result would be empty")
        tables.append(step.transposed_table(count))
    split = weights.reshape(groups, channels // groups, per_group, *kernel).swapaxes(1, 2)
    swapped = split.reshape(groups * per_group, channels // groups, *kernel)
    return _with_bias(call, convolved(call[0], swapped, tables, groups))


def _kernel(call: Call) -> list[int]:
    return [int(size) for size in call.attribute("kernel_shape", [])]


def _max_pool(call: Call) -> Affine:
    ceil = bool(call.attribute("ceil_mode", 0))
    tables = [step.table(ceil) for step in _steps(call, _kernel(call))]
    return max_pooled(call.builder, call[0], tables)


def _average_pool(call: Call) -> Affine:
    counts_padding = bool(call.attribute("count_include_pad", 0))
    return average_pooled(call[0], _steps(call, _kernel(call)), counts_padding, bool(call.attribute("ceil_mode", 0)))


def _whole_space(call: Call) -> list[int]:
    if len(call[0].shape) < 3:
        raise ValueError("it needs a tensor (batch, channels, ...)")
    return [1] * (len(call[0].shape) - 2)


def _global_average_pool(call: Call) -> Affine:
    ones = _whole_space(call)
    tensor = call[0]
    mean = tensor.summed(range(2, len(tensor.shape))) / Affine.constant(float(math.prod(tensor.shape[2:])))
    return mean.reshaped((*tensor.shape[:2], *ones))


def _global_max_pool(call: Call) -> Affine:
    ones = _whole_space(call)
    flat = call[0].reshaped((*call[0].shape[:2], -1))
    return call.builder.maximum_along(flat, 2).reshaped((*call[0].shape[:2], *ones))


OPERATORS: dict[str, Operator] = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "GlobalAveragePool": _global_average_pool,
    "GlobalMaxPool": _global_max_pool,
    "MaxPool": _max_pool,
}
