"""Taking out units that cannot matter: sparse networks have some."""

from __future__ import annotations

import numpy as np

from reluplan.network.relu_network import Layer, ReluNetwork


def compact(network: ReluNetwork) -> ReluNetwork:
    """The same function without units that nothing reads and units that read nothing, which are constants."""
    layers = [Layer(layer.weights.copy(), layer.bias.copy()) for layer in (*network.hidden, network.output)]
    for index in range(len(layers) - 1):
        _move_constants_to_biases(layers, index, _first_column(layers, index, network.input_count))
    for index in reversed(range(len(layers) - 1)):
        start = _first_column(layers, index, network.input_count)
        columns = slice(start, start + layers[index].unit_count)
        used = np.any([np.any(later.weights[:, columns] != 0.0, axis=0) for later in layers[index + 1 :]], axis=0)
        dead = start + np.flatnonzero(~used)
        layers[index] = Layer(layers[index].weights[used], layers[index].bias[used])
        for later in range(index + 1, len(layers)):
            layers[later] = Layer(np.delete(layers[later].weights, dead, axis=1), layers[later].bias)
    hidden = tuple(layer for layer in layers[:-1] if layer.unit_count)
    return ReluNetwork(network.input_count, hidden, layers[-1])


def _first_column(layers: list[Layer], index: int, input_count: int) -> int:
    return input_count + sum(layer.unit_count for layer in layers[:index])


def _move_constants_to_biases(layers: list[Layer], index: int, start: int) -> None:
    """A unit that reads nothing is max(0, b) always."""
    for unit in np.flatnonzero(~layers[index].weights.any(axis=1)).tolist():
        value = max(0.0, float(layers[index].bias[unit]))
        for later in range(index + 1, len(layers)):
            layer = layers[later]
            bias = layer.bias + layer.weights[:, start + unit] * value
            layer.weights[:, start + unit] = 0.0
            layers[later] = Layer(layer.weights, bias)
