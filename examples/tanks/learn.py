"""How network.onnx was learned: transitions of the true system, a small dense ReLU network, L-BFGS.

Needs the extra `torch`. Run it from this folder: python learn.py
"""

from __future__ import annotations

import numpy as np
import torch

from reluplan.network.relu_network import Layer, ReluNetwork

CAPACITY = np.array([100.0, 200.0])
RAIN = np.array([5.0, 10.0])
UNITS = 12


def true_change(level: np.ndarray, flow: np.ndarray) -> np.ndarray:
    """Rain, evaporation, release, and what the upper reservoir releases into the lower one."""
    evaporated = 0.5 * np.sin(level / 1000.0) * level
    change = RAIN - evaporated - flow
    change[:, 1] += flow[:, 0]
    return change


def main() -> None:
    """Sample, fit in scaled units, fold the scales into the weights, save."""
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    level = rng.uniform(0.0, CAPACITY, (20000, 2))
    flow = rng.uniform(0.0, 1.0, (20000, 2)) * level
    scale = np.concatenate([CAPACITY, CAPACITY])
    inputs = torch.tensor(np.hstack([level, flow]) / scale)
    targets = torch.tensor(true_change(level, flow) / CAPACITY)
    hidden = torch.nn.Linear(4, UNITS, dtype=torch.float64)
    output = torch.nn.Linear(4 + UNITS, 2, dtype=torch.float64)
    optimiser = torch.optim.LBFGS(
        [*hidden.parameters(), *output.parameters()], max_iter=1000, line_search_fn="strong_wolfe"
    )

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        features = torch.cat([inputs, torch.relu(hidden(inputs))], dim=1)
        value = torch.nn.functional.mse_loss(output(features), targets)
        value.backward()
        return value

    optimiser.step(loss)
    first, last = hidden.weight.detach().numpy() / scale, output.weight.detach().numpy() * CAPACITY[:, None]
    last[:, :4] /= scale
    network = ReluNetwork(
        4,
        (Layer(first, hidden.bias.detach().numpy()),),
        Layer(last, output.bias.detach().numpy() * CAPACITY),
    )
    worst = np.abs(network.forward(np.hstack([level, flow])) - true_change(level, flow)).max(axis=0)
    print("largest error on the training data:", worst)
    network.save("network.onnx")


if __name__ == "__main__":
    main()
