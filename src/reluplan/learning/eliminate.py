"""Taking hidden units out of a trained network, those first that are missed least."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from reluplan.learning.dense_net import DenseNet
from reluplan.learning.last_layer import LastLayer

ROWS = 4096
"""Rows that stand for all of them when units are compared."""


@torch.no_grad()
def eliminate(
    net: DenseNet, inputs: Tensor, targets: Tensor, count: int, negligible: float, rng: np.random.Generator
) -> DenseNet:
    """The network without `count` units, one after the other, the output fitted anew each time.

    A unit is missed by Σ_k Δ_k / max(e_k, negligible): e_k is the mean squared error of an output, Δ_k what it grows
    by. So outputs count by how much of their accuracy they would lose. An empty layer stays, as one without units.
    """
    rows = torch.from_numpy(rng.permutation(len(inputs))[:ROWS])
    for _ in range(count):
        net = _without_one(net, inputs[rows], targets[rows], negligible)
    net.refit_output(inputs, targets)
    return net


def _without_one(net: DenseNet, inputs: Tensor, targets: Tensor, negligible: float) -> DenseNet:
    net.refit_output(inputs, targets)
    costs = [_ablation_costs(net, layer, inputs, targets, negligible) for layer in range(len(net.weights) - 2)]
    last = LastLayer.of(net, inputs, targets, emphasis=-1.0, least=negligible)
    costs.append(last.costs(net.weights[-1]).tolist())
    least = min((min(part), layer) for layer, part in enumerate(costs) if part)[1]
    return net.without(least, int(np.argmin(costs[least])))


def _ablation_costs(net: DenseNet, layer: int, inputs: Tensor, targets: Tensor, negligible: float) -> list[float]:
    """What taking out each unit of a lower layer adds, by doing it: later layers stay, the output is fitted anew."""
    emphasis, scale = _emphasis(net, inputs, targets, negligible)
    before = _errors(net, inputs, targets)
    costs = []
    for unit in range(len(net.biases[layer])):
        smaller = net.without(layer, unit)
        smaller.refit_output(inputs, targets)
        costs.append(float(emphasis @ (_errors(smaller, inputs, targets) - before)) * scale)
    return costs


def _emphasis(net: DenseNet, inputs: Tensor, targets: Tensor, negligible: float) -> tuple[Tensor, float]:
    """The weights that `LastLayer` gives to the outputs, and its unit: a sum over rows."""
    errors = _errors(net, inputs, targets).clamp_min(negligible)
    return errors.mean() / errors, float(len(inputs))


def _errors(net: DenseNet, inputs: Tensor, targets: Tensor) -> Tensor:
    return torch.mean((net.forward(inputs) - targets) ** 2, dim=0)


def group_size(units: int, share: float) -> int:
    """How many units are taken out at a time: the share of those that are left, at least one."""
    return max(1, math.floor(share * units))
