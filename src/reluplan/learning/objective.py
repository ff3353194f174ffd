"""What training minimises: the error, and how many ReLUs a planner has to branch on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reluplan.learning.dense_net import DenseNet


@dataclass(frozen=True, eq=False)
class Objective:
    """mean (f(x) − y)² + sparsity · mean |w| + stability · instability over the box [lower, upper]."""

    sparsity: float
    stability: float
    lower: Tensor
    upper: Tensor

    def loss(self, net: DenseNet, inputs: Tensor, targets: Tensor) -> Tensor:
        loss = torch.mean((net.forward(inputs) - targets) ** 2)
        if self.sparsity:
            loss = loss + self.sparsity * torch.cat([weights.flatten() for weights in net.weights]).abs().mean()
        if self.stability:
            loss = loss + self.stability * instability(net, self.lower, self.upper)
        return loss


def instability(net: DenseNet, lower: Tensor, upper: Tensor) -> Tensor:
    """mean over units of 2 min(−l, u)⁺ / (u − l): 0 if the unit cannot switch, 1 if the box is halved.

    [l, u] are interval bounds of the pre-activation. Unlike −tanh(1 + l u) of Xiao et al. (2019), it does not change
    when a unit's inputs are scaled down and its outputs up, which would only hide the unit from the penalty.
    """
    parts = []
    for weights, bias in zip(net.weights[:-1], net.biases[:-1], strict=True):
        centre = (upper + lower) / 2.0 @ weights.T + bias
        radius = (upper - lower) / 2.0 @ weights.abs().T + 1e-12
        parts.append(torch.relu(1.0 - centre.abs() / radius))
        lower = torch.cat([lower, torch.relu(centre - radius)])
        upper = torch.cat([upper, torch.relu(centre + radius)])
    return torch.cat(parts).mean()
