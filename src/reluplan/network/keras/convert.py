"""The walk through the layers of a Keras model, with symbolic tensors in place of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from reluplan.errors import InputError, MissingExtraError
from reluplan.network.affine import LARGEST_TENSOR, Affine, NotPiecewiseLinearError, concatenated
from reluplan.network.builder import NetworkBuilder
from reluplan.network.conversion import WAY_OUT, require_same
from reluplan.network.keras.layers import KERAS_LAYERS
from reluplan.network.keras.variables import numbers
from reluplan.network.relu_network import Array, ReluNetwork

TOLERANCE = 1e-3
"""How much the model itself, which computes in single precision, may differ from the network."""


def from_keras(model: Any) -> ReluNetwork:
    """The function of a Keras model (Sequential or functional, Keras 3), with its weights converted to float64.

    Its layers are those of `KERAS_LAYERS`, to which a user can add. The entries of a sample, row by row, are the inputs
    of the network, those of several inputs one after another; outputs likewise.
    """
    try:
        import keras
    except ImportError:
        raise MissingExtraError("keras", "keras", "converting a Keras model") from None
    if not isinstance(model, keras.Model):
        raise InputError(f"from_keras takes a Keras model; this is a {type(model).__name__}")
    _check_weights(model)
    shapes = _input_shapes(model)
    builder = NetworkBuilder(sum(math.prod(shape) for shape in shapes))
    starts = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).tolist()
    inputs = [Affine.columns(start, shape) for start, shape in zip(starts, shapes, strict=False)]
    with np.errstate(all="ignore"):  # an overflow shows up as infinity, and is reported as such
        outputs = [output.reshaped((1, -1)) for output in _model(model, inputs, builder)]
        network = _finished(builder, concatenated(outputs, 1))
    return require_same(network, lambda values: _outputs(model, shapes, values), "the Keras model", TOLERANCE)


def _finished(builder: NetworkBuilder, outputs: Affine) -> ReluNetwork:
    try:
        return builder.finish(outputs).require_moderate()
    except ValueError as error:
        raise InputError(f"the Keras model: {error}") from None


def _check_weights(model: Any) -> None:
    size = sum(math.prod(weight.shape) for weight in model.weights)
    if size > LARGEST_TENSOR:
        raise InputError(f"the Keras model has {size:,} weights; at most {LARGEST_TENSOR:,} are read")
    for weight in model.weights:
        if weight.dtype.startswith(("float", "bfloat")) and not np.isfinite(numbers(weight)).all():
            raise InputError(f"the weights '{weight.path}' of the Keras model have a number that is NaN or infinite")


def _input_shapes(model: Any) -> list[tuple[int, ...]]:
    """For a batch of one sample."""
    try:
        tensors = model.inputs
    except (AttributeError, ValueError):
        tensors = None
    if not tensors:
        raise InputError(
            "the Keras model has no inputs of a fixed size: build it, as in model.build((None, 4)), or write a class "
            "with a call of its own as a functional model"
        )
    for tensor in tensors:
        if None in tensor.shape[1:] or not tensor.dtype.startswith(("float", "bfloat")):
            raise InputError(
                f"the input '{tensor.name}' of the Keras model has the shape {tensor.shape} and the type "
                f"{tensor.dtype}; a fixed size and floats are needed"
            )
    return [(1, *tensor.shape[1:]) for tensor in tensors]


def _model(model: Any, inputs: Sequence[Affine], builder: NetworkBuilder) -> list[Affine]:
    """The outputs of a model for these inputs."""
    import keras

    if isinstance(model, keras.Sequential):
        for layer in model.layers:
            inputs = _layer(layer, inputs, builder)
        return list(inputs)
    if not hasattr(model, "_nodes_by_depth"):
        raise InputError(
            f"{model.name} ({type(model).__name__}) of the Keras model has a call of its own: write it as a functional "
            f"model"
        )
    return _functional(model, inputs, builder)


def _functional(model: Any, inputs: Sequence[Affine], builder: NetworkBuilder) -> list[Affine]:
    """Node by node, those that are read first."""
    values = {id(tensor): value for tensor, value in zip(model.inputs, inputs, strict=True)}
    for depth in sorted(model._nodes_by_depth, reverse=True):
        for node in model._nodes_by_depth[depth]:
            if node.is_input:
                continue
            arguments = _with_values(list(node.arguments.args), values)
            outputs = _layer(node.operation, arguments, builder, _with_values(node.arguments.kwargs, values))
            values.update(zip(map(id, node.outputs), outputs, strict=True))
    return [values[id(tensor)] for tensor in model.outputs]


def _with_values(argument: Any, values: dict[int, Affine]) -> Any:
    """The argument with symbolic tensors in place of those of Keras."""
    if id(argument) in values:
        return values[id(argument)]
    if isinstance(argument, dict):
        return {key: _with_values(part, values) for key, part in argument.items()}
    if isinstance(argument, (list, tuple)):
        return [_with_values(part, values) for part in argument]
    return argument


def _layer(
    layer: Any, arguments: Sequence[Any], builder: NetworkBuilder, options: dict[str, Any] | None = None
) -> list[Affine]:
    """What a layer, an operation of keras.ops or a model inside the model gives; InputError names it."""
    import keras

    if isinstance(layer, keras.Model):
        return _model(layer, _flat(arguments), builder)
    kind = type(layer).__name__ if isinstance(layer, keras.layers.Layer) else f"ops.{type(layer).__name__}"
    place = f"{layer.name} ({kind}) of the Keras model"
    if kind not in KERAS_LAYERS:
        raise InputError(f"{place} is not supported: it is not known to be piecewise linear; {WAY_OUT}")
    given = [*arguments, *(value for value in (options or {}).values() if isinstance(value, Affine))]
    try:
        output = KERAS_LAYERS[kind](layer, given, builder)
        if not output.is_finite:
            raise ValueError("it gives a weight that is NaN or infinite")
    except ValueError as error:
        way_out = f"; {WAY_OUT}" if isinstance(error, NotPiecewiseLinearError) else ""
        raise InputError(f"{place}: {error}{way_out}") from None
    return [output]


def _flat(arguments: Any) -> list[Affine]:
    if isinstance(arguments, Affine):
        return [arguments]
    parts = arguments.values() if isinstance(arguments, dict) else arguments
    return [tensor for part in parts if isinstance(part, (Affine, list, tuple, dict)) for tensor in _flat(part)]


def _outputs(model: Any, shapes: Sequence[tuple[int, ...]], values: Array) -> Array:
    """What the model itself gives for these samples."""
    import keras

    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = np.split(values.astype(np.float32), ends, axis=1)
    inputs = [part.reshape(len(values), *shape[1:]) for part, shape in zip(parts, shapes, strict=True)]
    outputs = model(inputs if len(inputs) > 1 else inputs[0], training=False)
    leaves = keras.tree.flatten(outputs)
    return np.concatenate([numbers(leaf).reshape(len(values), -1) for leaf in leaves], axis=1)
