"""Moving idle units to where the error is largest, which gradients alone never do."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reluplan.learning.dense_net import DenseNet
from reluplan.learning.last_layer import LastLayer
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
    fit = LastLayer.of(net, inputs, targets, settings.emphasis)
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


def _candidates(fit: LastLayer, mask: Tensor, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
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
