"""The network while it is trained: torch weights with a mask for those that stay zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reluplan.network.relu_network import Layer, ReluNetwork

RIDGE = 1e-10
"""Relative size of the diagonal that keeps least squares solvable when features repeat each other."""


@dataclass(frozen=True, eq=False)
class DenseNet:
    """z_0 = x, z_l = (z_{l−1}, max(0, W_l z_{l−1} + b_l)), output W_out z_L + b_out, in float64.

    weights, biases: one per hidden layer, the output last. masks: 1 where a weight may be other than zero.
    """

    input_count: int
    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]
    masks: tuple[Tensor, ...]

    @classmethod
    def random(
        cls, input_count: int, hidden: Sequence[int], output_count: int, dense: bool, rng: np.random.Generator
    ) -> DenseNet:
        """Weights and biases uniform in ±1/sqrt(fan-in); without skips, each layer reads the one before it alone."""
        weights, biases, masks = [], [], []
        width, previous = input_count, input_count
        for units in (*hidden, output_count):
            mask = torch.ones(units, width, dtype=torch.float64)
            if not dense:
                mask[:, : width - previous] = 0.0
            bound = 1.0 / np.sqrt(width if dense else previous)
            weights.append(torch.from_numpy(rng.uniform(-bound, bound, (units, width))) * mask)
            biases.append(torch.from_numpy(rng.uniform(-bound, bound, units)))
            masks.append(mask)
            width, previous = width + units, units
        return cls(input_count, tuple(weights), tuple(biases), tuple(masks)).trainable()

    def parameters(self) -> list[Tensor]:
        return [*self.weights, *self.biases]

    def features(self, inputs: Tensor) -> Tensor:
        """z_L, what the output layer reads, shape (N, width)."""
        values = inputs
        for weights, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = torch.cat([values, torch.relu(torch.addmm(bias, values, weights.T))], dim=1)
        return values

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.addmm(self.biases[-1], self.features(inputs), self.weights[-1].T)

    def mask_gradients(self) -> None:
        """Weights without a gradient stay at zero, under Adam and L-BFGS alike."""
        for weights, mask in zip(self.weights, self.masks, strict=True):
            if weights.grad is not None:
                weights.grad.mul_(mask)

    @torch.no_grad()
    def apply_masks(self) -> None:
        for weights, mask in zip(self.weights, self.masks, strict=True):
            weights.mul_(mask)

    def ignore_inputs(self, ignored: Tensor) -> None:
        """What never varied in the data must not sway the network once it does."""
        for mask in self.masks:
            mask[:, : self.input_count][:, ignored] = 0.0
        self.apply_masks()

    @torch.no_grad()
    def refit_output(self, inputs: Tensor, targets: Tensor) -> None:
        """The best output layer for the hidden layers as they are: linear least squares for each output."""
        features = self.features(inputs)
        features = torch.cat([features, torch.ones(len(features), 1, dtype=torch.float64)], dim=1)
        gram = least_squares_matrix(features)
        right = features.T @ targets
        for output, mask in enumerate(self.masks[-1]):
            read = torch.cat([mask, torch.ones(1, dtype=torch.float64)]) > 0.0
            solution = torch.zeros(len(gram), dtype=torch.float64)
            solution[read] = torch.linalg.solve(gram[read][:, read], right[read, output])
            self.weights[-1][output], self.biases[-1][output] = solution[:-1], solution[-1]

    def without(self, layer: int, unit: int) -> DenseNet:
        """The network without a hidden unit, whatever read it."""
        column = self.weights[layer].shape[1] + unit
        parts = [
            tuple(_without(part, at, layer, unit, column) for at, part in enumerate(group))
            for group in (self.weights, self.biases, self.masks)
        ]
        return DenseNet(self.input_count, *parts).trainable()

    def copy(self) -> DenseNet:
        """The same network, to be changed apart from this one."""
        parts = [tuple(part.detach().clone() for part in group) for group in (self.weights, self.biases, self.masks)]
        return DenseNet(self.input_count, *parts).trainable()

    def trainable(self) -> DenseNet:
        """This network, its weights and biases marked as what is trained."""
        for parameter in self.parameters():
            parameter.requires_grad_()
        return self

    def snapshot(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.parameters()]

    @torch.no_grad()
    def restore(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.parameters(), values, strict=True):
            parameter.copy_(value)

    def to_network(self) -> ReluNetwork:
        """The same function of standardised values."""
        layers = [Layer(_array(weights), _array(bias)) for weights, bias in zip(self.weights, self.biases, strict=True)]
        return ReluNetwork(self.input_count, tuple(layers[:-1]), layers[-1])


def least_squares_matrix(features: Tensor) -> Tensor:
    """ZᵀZ with a small diagonal added."""
    gram = features.T @ features
    return gram + RIDGE * gram.diagonal().max() * torch.eye(len(gram), dtype=torch.float64)


def _without(part: Tensor, at: int, layer: int, unit: int, column: int) -> Tensor:
    """A weight matrix, bias or mask of layer `at` after a unit of a layer is gone: its row there, its column later."""
    part = part.detach()
    if at == layer:
        return torch.cat([part[:unit], part[unit + 1 :]])
    if at > layer and part.ndim == 2:
        return torch.cat([part[:, :column], part[:, column + 1 :]], dim=1)
    return part.clone()


def _array(tensor: Tensor) -> NDArray[np.float64]:
    return tensor.detach().numpy().copy()
