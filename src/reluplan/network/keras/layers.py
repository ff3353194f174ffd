"""The layers of Keras, each as a function of symbolic tensors (1, ...).

A function takes the layer, the list of what it is called with, and the builder. It raises ValueError with the reason
alone; the walk adds the layer's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add, matmul, mul, neg, sub, truediv
from typing import Any

import numpy as np

from reluplan.network.affine import Affine, concatenated
from reluplan.network.builder import NetworkBuilder
from reluplan.network.keras import sliding
from reluplan.network.keras.activations import ACTIVATIONS, activated
from reluplan.network.keras.variables import numbers
from reluplan.registry import Registry

Layer = Callable[[Any, Sequence[Any], NetworkBuilder], Affine]

KERAS_LAYERS: Registry[Layer] = Registry("Keras layer", "reluplan.keras_layers")
"""By the name of the class; operations of keras.ops as "ops.Add"."""


def _kept(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    result: Affine = arguments[0]
    return result


def _dense(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """x kernel + bias, and the activation."""
    if getattr(layer, "quantization_mode", None):
        raise ValueError("quantised weights are not supported")
    product = arguments[0] @ Affine.constant(numbers(layer.kernel))
    biased = product + Affine.constant(numbers(layer.bias)) if layer.use_bias else product
    return _activated(layer.activation, biased, builder)


def _activated(activation: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """An activation, which may also be a layer."""
    name = type(activation).__name__
    if name in KERAS_LAYERS:
        return KERAS_LAYERS[name](activation, [tensor], builder)
    return activated(activation, tensor, builder)


def _activation(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return _activated(layer.activation, arguments[0], builder)


def _relu(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """A slope below zero, and a largest value; with a threshold above zero it jumps there."""
    if layer.threshold:
        raise ValueError(
            f"with a threshold of {layer.threshold} it jumps: only continuous networks can be planned with"
        )
    slope = layer.negative_slope or 0.0
    bent = builder.leaky_relu(arguments[0], slope) if slope else builder.relu(arguments[0])
    return bent if layer.max_value is None else builder.clip(bent, high=float(layer.max_value))


def _leaky_relu(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return builder.leaky_relu(arguments[0], float(layer.negative_slope))


def _prelu(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return builder.leaky_relu(arguments[0], numbers(layer.alpha)[np.newaxis])


def _batch_normalised(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """gamma (x - mean) / sqrt(variance + epsilon) + beta, along one axis."""
    tensor = arguments[0]
    shape = [1] * len(tensor.shape)
    shape[tensor.axis(layer.axis)] = -1
    factor = 1.0 / np.sqrt(numbers(layer.moving_variance) + layer.epsilon)
    factor = factor * numbers(layer.gamma) if layer.scale else factor
    offset = -factor * numbers(layer.moving_mean)
    offset = offset + numbers(layer.beta) if layer.center else offset
    return tensor * Affine.constant(factor.reshape(shape)) + Affine.constant(offset.reshape(shape))


def _normalised(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """(x - mean) / max(sqrt(variance), epsilon), or its inverse."""
    import keras

    if layer.mean is None or layer.variance is None:
        raise ValueError("it has no mean and variance yet: call its adapt first")
    mean = Affine.constant(numbers(layer.mean))
    deviation = Affine.constant(np.maximum(np.sqrt(numbers(layer.variance)), keras.config.epsilon()))
    if layer.invert:
        return arguments[0] * deviation + mean
    return (arguments[0] - mean) / deviation


def _rescaled(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return arguments[0] * _number(layer.scale) + _number(layer.offset)


def _number(value: Any) -> Affine:
    return value if isinstance(value, Affine) else Affine.constant(np.asarray(value, dtype=np.float64))


# Shapes


def _flattened(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    tensor = arguments[0]
    if layer.data_format == "channels_first" and len(tensor.shape) > 2:
        tensor = tensor.rearranged(lambda entries: np.moveaxis(entries, 1, -1))
    return tensor.reshaped((1, -1))


def _reshaped(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return arguments[0].reshaped((1, *layer.target_shape))


def _permuted(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return arguments[0].transposed((0, *layer.dims))


def _repeated(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return arguments[0].rearranged(
        lambda entries: np.repeat(entries[:, np.newaxis], layer.n, 1), layer.n * arguments[0].size
    )


def _zero_padded(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """Zeros around space: moved there from one more entry."""
    tensor = arguments[0]
    widths = _around(layer.padding, layer, tensor)
    positions = np.pad(np.arange(tensor.size).reshape(tensor.shape), widths, constant_values=tensor.size)
    return concatenated([tensor.reshaped((-1,)), Affine.constant(np.zeros(1))], 0).taken(positions)


def _cropped(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    widths = _around(layer.cropping, layer, arguments[0])
    parts = tuple(slice(before, size - after) for (before, after), size in zip(widths, arguments[0].shape, strict=True))
    return arguments[0].rearranged(lambda entries: entries[parts])


def _around(widths: Any, layer: Any, tensor: Affine) -> list[tuple[int, int]]:
    """(before, after) per axis; batch and channels have none."""
    space = [tuple(width) for width in widths] if isinstance(widths[0], (list, tuple)) else [tuple(widths)]
    none = [(0, 0)]
    is_first = getattr(layer, "data_format", None) == "channels_first"
    return [*none, *none, *space] if is_first else [*none, *space, *none]


# Several tensors


def _folded(function: Callable[[Affine, Affine], Affine]) -> Layer:
    """A sum or a product of all that the layer is given, as a list or one by one."""
    return lambda layer, arguments, builder: reduce(function, map(_number, _listed(arguments)))


def _listed(arguments: Sequence[Any]) -> list[Any]:
    first = arguments[0]
    return list(first) if isinstance(first, (list, tuple)) else list(arguments)


def _averaged(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    tensors = _listed(arguments)
    return reduce(add, tensors) * _number(1.0 / len(tensors))


def _largest(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return builder.maximum_of([_number(tensor) for tensor in _listed(arguments)])


def _smallest(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return builder.minimum_of([_number(tensor) for tensor in _listed(arguments)])


def _concatenated(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return concatenated(_listed(arguments), layer.axis)


# Operations of keras.ops, which users write as x + 1, x[:, 0] or keras.ops.maximum(x, y)


def _clipped(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return builder.clip(arguments[0], float(layer.x_min), float(layer.x_max))


def _item(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    key = tuple(arguments[1]) if isinstance(arguments[1], (list, tuple)) else arguments[1]
    return arguments[0].rearranged(lambda entries: entries[key])


def _reduced(kind: str) -> Layer:
    """Sum or mean over axes."""

    def reduced(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
        rank = len(arguments[0].shape)
        axes = (
            range(rank) if layer.axis is None else layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
        )
        total = arguments[0].summed(list(axes), bool(layer.keepdims))
        return total if kind == "sum" else total * _number(max(1, total.size) / arguments[0].size)

    return reduced


def _operation_reshaped(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    shape = [1 if size is None else int(size) for size in layer.newshape]
    return arguments[0].reshaped([1, *shape[1:]] if math.prod(shape) < 0 else shape)


_LAYERS: dict[str, Layer] = {
    "Activation": _activation,
    "Add": _folded(add),
    "Average": _averaged,
    "BatchNormalization": _batch_normalised,
    "Concatenate": _concatenated,
    "Dense": _dense,
    "Flatten": _flattened,
    "LeakyReLU": _leaky_relu,
    "Maximum": _largest,
    "Minimum": _smallest,
    "Multiply": _folded(mul),
    "Normalization": _normalised,
    "Permute": _permuted,
    "PReLU": _prelu,
    "ReLU": _relu,
    "RepeatVector": _repeated,
    "Rescaling": _rescaled,
    "Reshape": _reshaped,
    "Subtract": _folded(sub),
    "ops.Absolute": lambda layer, arguments, builder: builder.absolute(arguments[0]),
    "ops.Add": _folded(add),
    "ops.Clip": _clipped,
    "ops.Concatenate": _concatenated,
    "ops.GetItem": _item,
    "ops.Matmul": _folded(matmul),
    "ops.Maximum": _largest,
    "ops.Mean": _reduced("mean"),
    "ops.Minimum": _smallest,
    "ops.Multiply": _folded(mul),
    "ops.Negative": lambda layer, arguments, builder: neg(arguments[0]),
    "ops.Relu": lambda layer, arguments, builder: ACTIVATIONS["relu"](arguments[0], builder),
    "ops.Relu6": lambda layer, arguments, builder: ACTIVATIONS["relu6"](arguments[0], builder),
    "ops.LeakyRelu": _leaky_relu,
    "ops.HardSigmoid": lambda layer, arguments, builder: ACTIVATIONS["hard_sigmoid"](arguments[0], builder),
    "ops.HardTanh": lambda layer, arguments, builder: ACTIVATIONS["hard_tanh"](arguments[0], builder),
    "ops.Reshape": _operation_reshaped,
    "ops.Subtract": _folded(sub),
    "ops.Sum": _reduced("sum"),
    "ops.TrueDivide": _folded(truediv),
}
_SPATIAL: dict[str, Layer] = {
    "AveragePooling": sliding.average_pooling,
    "Conv": sliding.convolution,
    "Cropping": _cropped,
    "GlobalAveragePooling": sliding.global_average_pooling,
    "GlobalMaxPooling": sliding.global_max_pooling,
    "MaxPooling": sliding.max_pooling,
    "SpatialDropout": _kept,
    "ZeroPadding": _zero_padded,
}
_WITHOUT_EFFECT = (
    "ActivityRegularization", "AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise", "Identity", "InputLayer",
)  # fmt: skip
"""In evaluation mode."""

for _name, _function in _LAYERS.items():
    KERAS_LAYERS.register(_name, _function)
for _name, _function in _SPATIAL.items():
    for _rank in (1, 2, 3):
        KERAS_LAYERS.register(f"{_name}{_rank}D", _function)
for _name in _WITHOUT_EFFECT:
    KERAS_LAYERS.register(_name, _kept)
