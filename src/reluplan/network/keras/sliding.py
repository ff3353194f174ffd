"""Convolution and pooling of Keras, whose channels stand last unless a layer says otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reluplan.network.affine import Affine
from reluplan.network.builder import NetworkBuilder
from reluplan.network.keras.activations import activated
from reluplan.network.keras.variables import first, numbers
from reluplan.network.windows import Steps, average_pooled, convolved, max_pooled


def convolution(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """Kernels (*taps, channels, filters)."""
    weights = np.moveaxis(numbers(layer.kernel), (-1, -2), (0, 1))
    steps = _steps(layer, first(arguments), layer.kernel_size, layer.strides, layer.dilation_rate)

    def convolve(tensor: Affine) -> Affine:
        result = convolved(tensor, weights, [step.table() for step in steps], layer.groups)
        return result + _per_channel(layer.bias, result) if layer.use_bias else result

    return activated(layer.activation, _channels_second(layer, first(arguments), convolve), builder)


def max_pooling(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """The largest entry of each window."""
    steps = _steps(layer, first(arguments), layer.pool_size, layer.strides)
    return _channels_second(
        layer, first(arguments), lambda tensor: max_pooled(builder, tensor, [step.table() for step in steps])
    )


def average_pooling(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """The mean of each window, padding left out."""
    steps = _steps(layer, first(arguments), layer.pool_size, layer.strides)
    return _channels_second(
        layer, first(arguments), lambda tensor: average_pooled(tensor, steps, counts_padding=False, ceil=False)
    )


def global_average_pooling(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """The mean over all of space."""
    axes = _space(layer, first(arguments))
    count = math.prod(first(arguments).shape[axis] for axis in axes)
    return first(arguments).summed(axes, layer.keepdims) * Affine.constant(1.0 / count)


def global_max_pooling(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """The largest entry over all of space."""
    tensor = first(arguments)
    axes = _space(layer, tensor)
    for axis in reversed(axes):
        tensor = builder.maximum_along(tensor, axis)
    shape = [1 if axis in axes else size for axis, size in enumerate(first(arguments).shape)]
    return tensor.reshaped(shape) if layer.keepdims else tensor


def _is_channels_first(layer: Any) -> bool:
    return str(layer.data_format) == "channels_first"


def _space(layer: Any, tensor: Affine) -> list[int]:
    first = 2 if _is_channels_first(layer) else 1
    return list(range(first, first + len(tensor.shape) - 2))


def _channels_second(layer: Any, tensor: Affine, function: Callable[[Affine], Affine]) -> Affine:
    """The function of a tensor (batch, channels, *space), with channels put back where they were."""
    if _is_channels_first(layer):
        return function(tensor)
    result = function(tensor.rearranged(lambda entries: np.moveaxis(entries, -1, 1)))
    return result.rearranged(lambda entries: np.moveaxis(entries, 1, -1))


def _per_channel(bias: Any, tensor: Affine) -> Affine:
    return Affine.constant(numbers(bias).reshape(-1, *(1,) * (len(tensor.shape) - 2)))


def _steps(layer: Any, tensor: Affine, taps: Any, strides: Any, dilations: Any = 1) -> list[Steps]:
    sizes = [tensor.shape[axis] for axis in _space(layer, tensor)]
    columns = [_each(value, len(sizes)) for value in (taps, strides, dilations)]
    return [_padded(layer.padding, Steps(*numbers)) for numbers in zip(sizes, *columns, strict=True)]


def _each(value: Any, count: int) -> list[int]:
    return [int(part) for part in (value if isinstance(value, (list, tuple)) else [value] * count)]


def _padded(padding: str, step: Steps) -> Steps:
    """same: ceil(size / stride) results, the odd one of the padding behind; causal: all of it in front."""
    if padding == "valid":
        return step
    if padding == "causal":
        return Steps(step.size, step.taps, step.stride, step.dilation, before=step.span - 1)
    total = max(0, (-(-step.size // step.stride) - 1) * step.stride + step.span - step.size)
    return Steps(step.size, step.taps, step.stride, step.dilation, total // 2, total - total // 2)
