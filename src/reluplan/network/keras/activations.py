"""Activations of Keras that are piecewise linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reluplan.network.affine import Affine, NotPiecewiseLinearError
from reluplan.network.builder import NetworkBuilder

Activation = Callable[[Affine, NetworkBuilder], Affine]

ACTIVATIONS: dict[str, Activation] = {
    "hard_sigmoid": lambda tensor, builder: builder.hard_sigmoid(tensor, 1 / 6, 0.5),
    "hard_tanh": lambda tensor, builder: builder.clip(tensor, -1.0, 1.0),
    "leaky_relu": lambda tensor, builder: builder.leaky_relu(tensor, 0.2),
    "linear": lambda tensor, builder: tensor,
    "relu": lambda tensor, builder: builder.relu(tensor),
    "relu6": lambda tensor, builder: builder.clip(tensor, 0.0, 6.0),
    "soft_shrink": lambda tensor, builder: tensor - builder.clip(tensor, -0.5, 0.5),
}
"""By name, with the default settings of Keras."""
JUMPING = ("hard_shrink", "threshold")


def activated(activation: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """The activation of a layer; ValueError for one that is not Keras's own or not piecewise linear."""
    import keras

    if activation is None:
        return tensor
    name = getattr(activation, "__name__", type(activation).__name__)
    if activation is not getattr(keras.activations, name, None):
        raise ValueError(f"the activation {name} is not one of keras.activations: use a layer of its own")
    if name in JUMPING:
        raise NotPiecewiseLinearError(f"the activation {name} jumps, and a ReLU network cannot jump")
    if name not in ACTIVATIONS:
        raise NotPiecewiseLinearError(f"the activation {name} is not piecewise linear")
    return ACTIVATIONS[name](tensor, builder)
