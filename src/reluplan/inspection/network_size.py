"""How large a network is: layers, weights, zeros, skips, magnitudes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.network.relu_network import Layer, ReluNetwork

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LayerSize:
    """One layer. weights: those that could be other than zero, reading everything before it; nonzeros: those that are;
    skips: nonzeros that read anything but the layer just before. Smallest and largest: of |w| among the nonzeros."""

    units: int
    weights: int
    nonzeros: int
    skips: int
    smallest_weight: float | None
    largest_weight: float | None
    largest_bias: float


@dataclass(frozen=True)
class NetworkSize:
    """A network. layers: the hidden ones, and the output last. unread_inputs: places of inputs without any weight."""

    inputs: int
    outputs: int
    units: int
    layers: tuple[LayerSize, ...]
    unread_inputs: tuple[int, ...]

    @property
    def hidden(self) -> tuple[int, ...]:
        """Units of each hidden layer."""
        return tuple(layer.units for layer in self.layers[:-1])

    @property
    def weights(self) -> int:
        return sum(layer.weights for layer in self.layers)

    @property
    def nonzeros(self) -> int:
        return sum(layer.nonzeros for layer in self.layers)

    @property
    def skips(self) -> int:
        return sum(layer.skips for layer in self.layers)

    @property
    def sparsity(self) -> float:
        """The share of weights that are zero."""
        return 1.0 - self.nonzeros / max(1, self.weights)


def network_size(network: ReluNetwork) -> NetworkSize:
    """Count everything.

    >>> size = network_size(ReluNetwork.sequential([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]]))
    >>> size.hidden, size.weights, size.nonzeros, size.skips
    ((2,), 5, 4, 0)
    """
    sizes = []
    previous = network.input_count
    read = np.zeros(network.input_count, dtype=bool)
    for layer in (*network.hidden, network.output):
        sizes.append(_layer_size(layer, previous))
        read |= (layer.weights[:, : network.input_count] != 0.0).any(axis=0)
        previous = layer.unit_count
    unread = tuple(np.flatnonzero(~read).tolist())
    return NetworkSize(network.input_count, network.output_count, network.relu_count, tuple(sizes), unread)


def _layer_size(layer: Layer, previous: int) -> LayerSize:
    """previous: how many of the last columns are the layer just before."""
    count = int(np.count_nonzero(layer.weights))
    sizes = np.abs(layer.weights)
    return LayerSize(
        units=layer.unit_count,
        weights=layer.weights.size,
        nonzeros=count,
        skips=int(np.count_nonzero(layer.weights[:, : layer.weights.shape[1] - previous])),
        smallest_weight=float(sizes.min(where=sizes > 0.0, initial=np.inf)) if count else None,
        largest_weight=float(sizes.max()) if count else None,
        largest_bias=float(np.abs(layer.bias).max(initial=0.0)),
    )
