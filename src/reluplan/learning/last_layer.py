"""What each unit of the last hidden layer is worth, by the least-squares fit of the output."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reluplan.learning.dense_net import DenseNet, least_squares_matrix


@dataclass(frozen=True, eq=False)
class LastLayer:
    """The least-squares fit of the output layer: what units are worth in it.

    read: what the last hidden layer reads. features: what the output reads, with a column of ones; inverse: (ZᵀZ)⁻¹
    of them. residuals: targets minus outputs. emphasis: the weight of each output.
    """

    read: Tensor
    features: Tensor
    inverse: Tensor
    residuals: Tensor
    emphasis: Tensor

    @classmethod
    def of(cls, net: DenseNet, inputs: Tensor, targets: Tensor, emphasis: float, least: float = 0.0) -> LastLayer:
        """emphasis: outputs count by this power of their mean squared error, taken for `least` where it is below."""
        features = net.features(inputs)
        residuals = targets - torch.addmm(net.biases[-1], features, net.weights[-1].T)
        errors = torch.mean(residuals**2, dim=0).clamp_min(least)
        read = features[:, : net.weights[-2].shape[1]]
        features = torch.cat([features, torch.ones(len(features), 1, dtype=torch.float64)], dim=1)
        inverse = torch.linalg.inv(least_squares_matrix(features))
        return cls(read, features, inverse, residuals, (errors / errors.mean().clamp_min(1e-300)) ** emphasis)

    def costs(self, output_weights: Tensor) -> Tensor:
        """What dropping each unit j adds to the squared error after a new fit: Σ_k w_kj² / [(ZᵀZ)⁻¹]_jj."""
        units = slice(self.read.shape[1], -1)
        return self.emphasis @ output_weights[:, self.read.shape[1] :] ** 2 / self.inverse.diagonal()[units]

    def gains(self, values: Tensor) -> Tensor:
        """What adding each unit takes off the squared error: Σ_k (uᵀ e_k)² / ‖u − its projection on the features‖²."""
        along = self.features.T @ values
        norms = torch.sum(values**2, dim=0)
        apart = norms - torch.sum(along * (self.inverse @ along), dim=0)
        new = apart > 1e-6 * norms
        return torch.where(new, (values.T @ self.residuals) ** 2 @ self.emphasis / apart.clamp_min(1e-300), 0.0)
