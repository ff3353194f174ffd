"""Convolution and pooling with windows of one size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reluplan.network.affine import Affine
from reluplan.network.torch.call import Call
from reluplan.network.torch.linear_maps import unit_convolution, with_bias
from reluplan.network.windows import Steps, convolved, max_pooled


def convolution(call: Call) -> Affine:
    """conv1d, conv2d and conv3d with constant weights."""
    weights = call["weight"]
    if not weights.is_constant:
        return unit_convolution(call)  # which says what is wrong
    rank = len(weights.shape) - 2
    space = call["input"].shape[-rank:]
    steps = _steps(space, weights.shape[2:], call["stride"], call["dilation"], call["padding"])
    tables = [step.table() for step in steps]
    result = _in_batch(call["input"], rank, lambda tensor: convolved(tensor, weights.value, tables, call["groups"]))
    return with_bias(call, result)


def max_pooling(call: Call) -> Affine:
    """max_pool1d, max_pool2d and max_pool3d."""
    rank = int(call.target._schema.name[-2])
    space = call["self"].shape[-rank:]
    taps = _each(call["kernel_size"], rank)
    steps = _steps(space, taps, call["stride"] or taps, call["dilation"], call["padding"])
    tables = [step.table(bool(call["ceil_mode"])) for step in steps]
    return _in_batch(call["self"], rank, lambda tensor: max_pooled(call.builder, tensor, tables))


def _in_batch(tensor: Affine, rank: int, function: Callable[[Affine], Affine]) -> Affine:
    """The function of (batch, channels, *space); a tensor without a batch gets one meanwhile."""
    if len(tensor.shape) == rank + 2:
        return function(tensor)
    result = function(tensor.reshaped((1, *tensor.shape)))
    return result.reshaped(result.shape[1:])


def _steps(space: Sequence[int], taps: Sequence[int], strides: Any, dilations: Any, padding: Any) -> list[Steps]:
    rank = len(space)
    columns = zip(space, taps, _each(strides, rank), _each(dilations, rank), strict=True)
    bare = [Steps(*numbers) for numbers in columns]
    if isinstance(padding, str):
        ends = [_same(step) if padding == "same" else (0, 0) for step in bare]
    else:
        ends = [(size, size) for size in _each(padding, rank)]
    return [Steps(step.size, step.taps, step.stride, step.dilation, *end) for step, end in zip(bare, ends, strict=True)]


def _same(step: Steps) -> tuple[int, int]:
    """As many results as entries; the odd one of the padding stands behind."""
    total = step.span - 1
    return total // 2, total - total // 2


def _each(value: Any, count: int) -> list[int]:
    """One number per axis; torch takes one for all."""
    numbers = [int(part) for part in (value if isinstance(value, (list, tuple)) else [value])]
    return numbers * count if len(numbers) == 1 else numbers
