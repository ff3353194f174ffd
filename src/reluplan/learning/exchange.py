"""Moving idle units to where the error is largest, which gradients alone never do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reluplan.learning.dense_net import DenseNet, least_squares_matrix
from reluplan.learning.settings import ExchangeSettings

DEFAULT = ExchangeSettings()


@torch.no_grad()
def exchange_units(
    net: DenseNet, inputs: Tensor, targets: Tensor, rng: np.random.Generator, settings: ExchangeSettings = DEFAULT
) -> int:
    """Replace units of the last hidden layer that are missed least by new ones, and fit the output anew.

    Returns how many. Measured to pay with one hidden layer; with more, the output that fits the moment best disturbs
    the layers below, and errors grow tenfold.
    """
    rows = torch.from_numpy(rng.permutation(len(inputs))[: settings.rows])
    count = 0
    while count < settings.most and _exchange_one(net, inputs[rows], targets[rows], rng, settings):
        count += 1
    net.refit_output(inputs, targets)
    return count


def _exchange_one(
    net: DenseNet, inputs: Tensor, targets: Tensor, rng: np.random.Generator, settings: ExchangeSettings
) -> bool:
    net.refit_output(inputs, targets)
    fit = _LastLayer.of(net, inputs, targets, settings.emphasis)
    costs = fit.costs(net.weights[-1])
    idle = int(costs.argmin())
    weights, biases = _candidates(fit, net.masks[-2][idle], settings.candidates, rng)
    gains = fit.gains(torch.relu(torch.addmm(biases, fit.read, weights.T)))
    best = int(gains.argmax())
    if gains[best] <= settings.gain_over_cost * costs[idle]:
        return False
    net.weights[-2][idle] = weights[best]
    net.biases[-2][idle] = biases[best]
    return True


@dataclass(frozen=True, eq=False)
class _LastLayer:
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
    def of(cls, net: DenseNet, inputs: Tensor, targets: Tensor, emphasis: float) -> _LastLayer:
        features = net.features(inputs)
        residuals = targets - torch.addmm(net.biases[-1], features, net.weights[-1].T)
        errors = torch.mean(residuals**2, dim=0)
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


def _candidates(fit: _LastLayer, mask: Tensor, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Units that read some inputs at random and switch at rows drawn by their squared error."""
    width = fit.read.shape[1]
    scale = fit.read.std(dim=0).clamp_min(1e-9)
    reads = rng.random((count, width)) < rng.uniform(1.0 / width, 1.0, (count, 1))
    reads[np.arange(count), rng.integers(0, width, count)] = True
    weights = torch.from_numpy(rng.normal(size=reads.shape) * reads) * mask
    weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-9) / scale
    errors = (fit.residuals**2 @ fit.emphasis).numpy() + 1e-300
    rows = torch.from_numpy(rng.choice(len(errors), count, p=errors / errors.sum()))
    return weights, -torch.sum(fit.read[rows] * weights, dim=1)
