"""Standardising inputs and targets, and taking it back by folding it into the weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.network.relu_network import Layer, ReluNetwork

Array = NDArray[np.float64]

CONSTANT = 1e-12
"""A column that varies by less than this share of its values is constant: nothing can be learned from it."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """x ↦ (x − mean) / scale, column by column; a constant column has scale 1 and is marked."""

    mean: Array
    scale: Array
    constant: NDArray[np.bool_]

    @classmethod
    def of(cls, values: Array, spread: Array | None = None) -> Scaling:
        """The scaling that gives the columns mean 0 and deviation 1; spread: other deviations to divide by."""
        mean, deviation = values.mean(axis=0), values.std(axis=0)
        constant = deviation <= CONSTANT * np.maximum(np.abs(values).max(axis=0), 1e-300)
        scale = deviation if spread is None else np.where(spread > CONSTANT * deviation, spread, deviation)
        return cls(mean, np.where(constant, 1.0, scale), constant)

    def apply(self, values: Array) -> Array:
        return np.asarray((values - self.mean) / self.scale)


def fold(network: ReluNetwork, inputs: Scaling, outputs: Scaling) -> ReluNetwork:
    """The network of raw values: with x = (x̂ − μ)/σ, W x + b = (W/σ) x̂ + (b − (W/σ) μ); outputs are scaled back."""
    count = network.input_count
    hidden = tuple(_fold_inputs(layer, count, inputs) for layer in network.hidden)
    last = _fold_inputs(network.output, count, inputs)
    scaled = Layer(last.weights * outputs.scale[:, None], last.bias * outputs.scale + outputs.mean)
    return ReluNetwork(count, hidden, scaled)


def _fold_inputs(layer: Layer, count: int, inputs: Scaling) -> Layer:
    weights = layer.weights.copy()
    weights[:, :count] /= inputs.scale
    return Layer(weights, layer.bias - weights[:, :count] @ inputs.mean)
