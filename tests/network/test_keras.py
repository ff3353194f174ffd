"""Keras models: the converted network against the model itself.

Keras is large and not installed with the other packages of the tests; where it is, its backend may be any.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import reluplan
from reluplan.errors import InputError, MissingExtraError
from reluplan.network.keras import KERAS_LAYERS, from_keras
from reluplan.network.relu_network import ReluNetwork

if importlib.util.find_spec("tensorflow") is None:
    os.environ.setdefault("KERAS_BACKEND", "torch")
TOLERANCE = 1e-6  # products of Keras are of single precision with every backend, whatever its settings say
needs_keras = pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="Keras is an optional package")


def keras() -> Any:
    import keras

    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    keras.utils.set_random_seed(0)
    return keras


def largest_error(model: Any, network: ReluNetwork) -> float:
    """At random samples, relative to the largest output."""
    rng = np.random.default_rng(0)
    samples = 2.0 * rng.normal(size=(20, network.input_count))
    shapes = [tensor.shape[1:] for tensor in model.inputs]
    parts = np.split(samples, np.cumsum([math.prod(shape) for shape in shapes])[:-1], axis=1)
    inputs = [part.reshape(20, *shape) for part, shape in zip(parts, shapes, strict=True)]
    outputs = keras().tree.flatten(model(inputs if len(inputs) > 1 else inputs[0], training=False))
    flat = [keras().ops.convert_to_numpy(output).reshape(20, -1) for output in outputs]
    expected = np.concatenate(flat, axis=1)
    return float(np.abs(network.forward(samples) - expected).max() / (1.0 + np.abs(expected).max()))


def disturbed(model: Any) -> Any:
    """The model with every weight away from its default."""
    rng = np.random.default_rng(1)
    for weight in model.weights:
        if weight.dtype == "float64":
            weight.assign(
                rng.uniform(0.3, 0.9, size=weight.shape) * (-1) ** rng.integers(0, 2 - ("variance" in weight.path))
            )
    return model


def sequential(shape: tuple[int | None, ...], *layers: Any) -> Any:
    return disturbed(keras().Sequential([keras().Input(shape), *layers]))


def activations() -> Any:
    dense = keras().layers.Dense
    names = ["relu", "linear", "leaky_relu", "relu6", "hard_sigmoid", "hard_tanh", "soft_shrink", None]
    return sequential((4,), *(dense(5, activation=name) for name in names))


def bends() -> Any:
    layers = keras().layers
    return sequential(
        (4,),
        layers.Dense(5, activation=layers.LeakyReLU(negative_slope=0.3)),
        layers.ReLU(max_value=2.0, negative_slope=0.1),
        layers.PReLU(),
        layers.Activation("hard_tanh"),
        layers.ReLU(),
    )


def normalisation() -> Any:
    layers = keras().layers
    normalise = layers.Normalization()
    normalise.adapt(np.random.default_rng(0).normal(3.0, 2.0, size=(50, 4)))
    dense = layers.Dense(4)
    steps = [normalise, dense, layers.BatchNormalization(), layers.Dropout(0.5), layers.GaussianNoise(1.0)]
    return keras().Sequential([keras().Input((4,)), *steps, layers.Rescaling(0.5, offset=[1, 2, 3, 4])])


def shapes() -> Any:
    layers = keras().layers
    return sequential(
        (6,), layers.Reshape((2, 3)), layers.Permute((2, 1)), layers.Dense(2, "relu"), layers.ZeroPadding1D((1, 2)),
        layers.Cropping1D((0, 1)), layers.Flatten(), layers.RepeatVector(2), layers.Flatten(),
    )  # fmt: skip


def convolution() -> Any:
    layers = keras().layers
    return sequential(
        (6, 5, 2),
        layers.Conv2D(4, (3, 2), strides=(2, 1), padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.MaxPooling2D(2, strides=1, padding="same"),
        layers.Conv2D(2, 2, groups=2, use_bias=False),
        layers.AveragePooling2D(2, strides=1, padding="same"),
        layers.GlobalAveragePooling2D(),
    )


def causal() -> Any:
    layers = keras().layers
    return sequential(
        (6, 2), layers.Conv1D(3, 2, padding="causal", dilation_rate=2), layers.PReLU(shared_axes=[1]),
        layers.MaxPooling1D(2), layers.GlobalMaxPooling1D(),
    )  # fmt: skip


def functional() -> Any:
    layers = keras().layers
    ops = keras().ops
    x = keras().Input((4,))
    u = keras().Input((2,))
    hidden = layers.Dense(4, activation="relu")(layers.Concatenate()([x, u]))
    merged = layers.Add()([x, hidden])
    least = layers.Minimum()([layers.Subtract()([x, merged]), layers.Average()([x, hidden, merged])])
    greatest = ops.maximum(layers.Maximum()([least, x]) * 2.0 + 1.0, x[:, :1] / 3.0)
    written = ops.clip(-greatest, -1, 1) + ops.absolute(x) - ops.sum(x, axis=1, keepdims=True)
    return disturbed(keras().Model([x, u], [written, hidden]))


def nested() -> Any:
    layers = keras().layers
    inner = keras().Sequential([layers.Dense(4, activation="relu"), layers.Dense(4)])
    x = keras().Input((4,))
    return disturbed(keras().Model(x, inner(inner(x)) + x))


MODELS = [activations, bends, normalisation, shapes, convolution, causal, functional, nested]


@needs_keras
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_network_computes_what_the_model_computes(build: Callable[[], Any]) -> None:
    model = build()
    assert largest_error(model, from_keras(model)) < TOLERANCE


@needs_keras
def test_weights_of_single_precision_are_converted_exactly() -> None:
    layers = keras().layers
    model = keras().Sequential([keras().Input((3,), dtype="float32"), layers.Dense(2, dtype="float32")])
    weights = keras().ops.convert_to_numpy(model.layers[0].kernel)
    assert weights.dtype == np.float32
    assert np.array_equal(from_keras(model).output.weights, weights.T.astype(np.float64))


def with_call() -> Any:
    model = type("Own", (keras().Model,), {"call": lambda self, x: 2.0 * x})()
    model(np.zeros((1, 3)))
    return model


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no model": (lambda: 3, "is a int"),
    "not built": (lambda: keras().Sequential([keras().layers.Dense(2)]), r"model.build\(\(None, 4\)\)"),
    "own call": (with_call, "functional model"),
    "size": (lambda: sequential((None, 2), keras().layers.Dense(2)), "fixed size"),
    "tanh": (
        lambda: sequential((2,), keras().layers.Dense(2, activation="tanh", name="second")),
        r"second \(Dense\) .* tanh is not piecewise linear; .* reluplan distil",
    ),
    "function": (lambda: sequential((2,), keras().layers.Dense(2, activation=abs)), "abs is not one of keras.activa"),
    "threshold": (lambda: sequential((2,), keras().layers.ReLU(threshold=1.0)), "jumps"),
    "hard_shrink": (lambda: sequential((2,), keras().layers.Activation("hard_shrink")), "jumps"),
    "layer": (lambda: sequential((2,), keras().layers.Softmax(name="last")), r"last \(Softmax\) .* distil"),
    "product": (
        lambda: (lambda x: keras().Model(x, keras().layers.Multiply()([x, x])))(keras().Input((2,))),
        "multiplies two tensors .* distil",
    ),
}  # fmt: skip


@needs_keras
@pytest.mark.parametrize(("build", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals_say_what_and_where_in_one_line(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        from_keras(build())
    assert "\n" not in str(caught.value)


@needs_keras
def test_a_layer_is_added_without_a_fork() -> None:
    doubling = type("Doubling", (keras().layers.Layer,), {"call": lambda self, x: 2.0 * x})
    model = sequential((3,), keras().layers.Dense(2), doubling())
    with pytest.raises(InputError, match=r"\(Doubling\) of the Keras model is not supported"):
        from_keras(model)
    KERAS_LAYERS.register("Doubling", lambda layer, arguments, builder: arguments[0] + arguments[0])
    try:
        assert largest_error(model, from_keras(model)) < TOLERANCE
    finally:
        KERAS_LAYERS.remove("Doubling")


def test_without_keras_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'reluplan\[keras\]'"):
        from_keras(None)


def test_public_name() -> None:
    assert reluplan.from_keras is from_keras
