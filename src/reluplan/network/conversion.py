"""What the importers of objects (PyTorch, scikit-learn, Keras) share: words for refusals, and a look at the result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reluplan.errors import InputError
from reluplan.network.relu_network import Array, ReluNetwork

WAY_OUT = "learn a ReLU network from it: reluplan distil PROBLEM --teacher FILE, with the model as an ONNX file"
"""What to do with a model that is not piecewise linear."""
SAMPLE_SCALES = (0.1, 1.0, 10.0)
"""Sizes of the random inputs at which a converted network is compared with what it was made from."""


def one_line(error: BaseException | str) -> str:
    """The first paragraph of a message, in one line; those of torch go on for pages."""
    text = str(error).strip().split("\n\n")[0]
    return " ".join(text.split()) or type(error).__name__


def sample_inputs(input_count: int, count: int = 4) -> Array:
    """A few random inputs of each size, the same for everyone."""
    rng = np.random.default_rng(0)
    return np.concatenate([scale * rng.normal(size=(count, input_count)) for scale in SAMPLE_SCALES])


def require_same(
    network: ReluNetwork, function: Callable[[Array], Array], what: str, tolerance: float = 1e-6
) -> ReluNetwork:
    """The network itself; InputError if the function gives other outputs at random inputs.

    The conversion is exact but for rounding. What differs by more is a function that is not of its input alone (random
    numbers, a state that changes with every call), or a class of the user's that computes something of its own.
    """
    inputs = sample_inputs(network.input_count)
    expected = np.asarray(function(inputs), dtype=np.float64).reshape(len(inputs), -1)
    outputs = network.forward(inputs)
    if expected.shape != outputs.shape:
        raise InputError(f"{what} has {expected.shape[1]} outputs, the network made from it {outputs.shape[1]}")
    error = np.abs(expected - outputs).max(initial=0.0)
    if not error <= tolerance * (1.0 + np.abs(expected).max(initial=0.0)):
        raise InputError(
            f"{what} gives other outputs than its parts do, by up to {error:.2g}: it is random, keeps a state between "
            f"calls, rounds to fewer digits (autocast), or has a method of its own"
        )
    return network
