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
from reluplan.network.keras.variables import first, numbers
from reluplan.registry import Registry

Layer = Callable[[Any, Sequence[Any], NetworkBuilder], Affine]

KERAS_LAYERS: Registry[Layer] = Registry("Keras layer", "reluplan.keras_layers")
"""By the name of the class; operations of keras.ops as "ops.Add"."""


def _kept(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return first(arguments)


def _dense(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """x kernel + bias, and the activation."""
    if getattr(layer, "quantization_mode", None):
        raise ValueError("quantised weights are not supported")
    product = first(arguments) @ Affine.constant(numbers(layer.kernel))
    biased = product + Affine.constant(numbers(layer.bias)) if layer.use_bias else product
    return _activated(layer.activation, biased, builder)


def _activated(activation: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """An activation, which may also be a layer."""
    name = type(activation).__name__
    if name in KERAS_LAYERS:
        return KERAS_LAYERS[name](activation, [tensor], builder)
    return activated(activation, tensor, builder)


def _activation(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return _activated(layer.activation, first(arguments), builder)


def _relu(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """A slope below zero, and a largest value; with a threshold above zero it jumps there."""
    if layer.threshold:
        raise ValueError(
            f"with a threshold of {layer.threshold} it jumps: only continuous networks can be planned with"
        )
    slope = layer.negative_slope or 0.0
    bent = builder.leaky_relu(first(arguments), slope) if slope else builder.relu(first(arguments))
    return bent if layer.max_value is None else builder.clip(bent, high=float(layer.max_value))


def _leaky_relu(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return builder.leaky_relu(first(arguments), float(layer.negative_slope))


def _prelu(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return builder.leaky_relu(first(arguments), numbers(layer.alpha)[np.newaxis])


def _batch_normalised(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """gamma (x - mean) / sqrt(variance + epsilon) + beta, along one axis."""
    tensor = first(arguments)
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
        return first(arguments) * deviation + mean
    return (first(arguments) - mean) / deviation


def _rescaled(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return first(arguments) * _number(layer.scale) + _number(layer.offset)


def _number(value: Any) -> Affine:
    return value if isinstance(value, Affine) else Affine.constant(np.asarray(value, dtype=np.float64))


# Shapes


def _flattened(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    tensor = first(arguments)
    if layer.data_format == "channels_first" and len(tensor.shape) > 2:
        tensor = tensor.rearranged(lambda entries: np.moveaxis(entries, 1, -1))
    return tensor.reshaped((1, -1))


def _reshaped(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return first(arguments).reshaped((1, *layer.target_shape))


def _permuted(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return first(arguments).transposed((0, *layer.dims))


def _repeated(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return first(arguments).rearranged(
        lambda entries: np.repeat(entries[:, np.newaxis], layer.n, 1), layer.n * first(arguments).size
    )


def _zero_padded(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    """Zeros around space: moved there from one more entry."""
    tensor = first(arguments)
    widths = _around(layer.padding, layer, tensor)
    positions = np.pad(np.arange(tensor.size).reshape(tensor.shape), widths, constant_values=tensor.size)
    return concatenated([tensor.reshaped((-1,)), Affine.constant(np.zeros(1))], 0).taken(positions)


def _cropped(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    widths = _around(layer.cropping, layer, first(arguments))
    parts = tuple(
        slice(before, size - after) for (before, after), size in zip(widths, first(arguments).shape, strict=True)
    )
    return first(arguments).rearranged(lambda entries: entries[parts])


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
    several = isinstance(arguments[0], (list, tuple))
    return list(arguments[0] if several else arguments)


def _averaged(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    tensors = [_number(tensor) for tensor in _listed(arguments)]
    return reduce(add, tensors) * _number(1.0 / len(tensors))


def _largest(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return builder.maximum_of([_number(tensor) for tensor in _listed(arguments)])


def _smallest(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return builder.minimum_of([_number(tensor) for tensor in _listed(arguments)])


def _concatenated(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return concatenated(_listed(arguments), layer.axis)


# Operations of keras.ops, which users write as x + 1, x[:, 0] or keras.ops.maximum(x, y)


def _clipped(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    return builder.clip(first(arguments), float(layer.x_min), float(layer.x_max))


def _item(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    key = tuple(arguments[1]) if isinstance(arguments[1], (list, tuple)) else arguments[1]
    return first(arguments).rearranged(lambda entries: entries[key])


def _reduced(kind: str) -> Layer:
    """Sum or mean over axes."""

    def reduced(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
        rank = len(first(arguments).shape)
        axes = (
            range(rank) if layer.axis is None else layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
        )
        total = first(arguments).summed(list(axes), bool(layer.keepdims))
        return total if kind == "sum" else total * _number(max(1, total.size) / first(arguments).size)

    return reduced


def _operation_reshaped(layer: Any, arguments: Sequence[Any], builder: NetworkBuilder) -> Affine:
    shape = [1 if size is None else int(size) for size in layer.newshape]
    return first(arguments).reshaped([1, *shape[1:]] if math.prod(shape) < 0 else shape)


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
    "ops.Absolute": lambda layer, arguments, builder: builder.absolute(first(arguments)),
    "ops.Add": _folded(add),
    "ops.Clip": _clipped,
    "ops.Concatenate": _concatenated,
    "ops.GetItem": _item,
    "ops.Matmul": _folded(matmul),
    "ops.Maximum": _largest,
    "ops.Mean": _reduced("mean"),
    "ops.Minimum": _smallest,
    "ops.Multiply": _folded(mul),
    "ops.Negative": lambda layer, arguments, builder: neg(first(arguments)),
    "ops.Relu": lambda layer, arguments, builder: ACTIVATIONS["relu"](first(arguments), builder),
    "ops.Relu6": lambda layer, arguments, builder: ACTIVATIONS["relu6"](first(arguments), builder),
    "ops.LeakyRelu": _leaky_relu,
    "ops.HardSigmoid": lambda layer, arguments, builder: ACTIVATIONS["hard_sigmoid"](first(arguments), builder),
    "ops.HardTanh": lambda layer, arguments, builder: ACTIVATIONS["hard_tanh"](first(arguments), builder),
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
