"""One ReLU network for the whole transition: the learned part, deltas and known transitions together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.piecewise import MaxTerm, PiecewiseLinear

Array = NDArray[np.float64]


def compose_dynamics(
    input_count: int,
    state_count: int,
    network: ReluNetwork | None,
    network_inputs: Sequence[int],
    network_outputs: Sequence[int],
    predicts_delta: bool,
    transitions: Mapping[int, PiecewiseLinear],
) -> ReluNetwork:
    """The network F with F(s, a, auxiliaries) = s' for all states.

    Inputs are ordered states, actions, auxiliaries. A predicted state i has F_i = f_i(x), or s_i + f_i(x) when the
    network predicts differences. A known transition is a piecewise-linear function of the inputs, and those are
    ReLU networks as well: max(p, q) = p + max(0, q − p).
    """
    hidden: list[Layer] = []
    outputs = np.zeros((state_count, input_count))
    biases = np.zeros(state_count)
    if network is not None:
        hidden = [_widen(layer, network.input_count, network_inputs, input_count) for layer in network.hidden]
        last = _widen(network.output, network.input_count, network_inputs, input_count)
        outputs = np.zeros((state_count, last.weights.shape[1]))
        outputs[list(network_outputs)] = last.weights
        biases[list(network_outputs)] = last.bias
        if predicts_delta:
            outputs[list(network_outputs), list(network_outputs)] += 1.0
    rows = {state: _append_function(hidden, input_count, function, {}) for state, function in transitions.items()}
    outputs = _pad(outputs, _width(hidden, input_count))  # once: it is large if there are many states
    for state, (row, bias) in rows.items():
        outputs[state, : len(row)], biases[state] = row, bias
    return ReluNetwork(input_count, tuple(hidden), Layer(outputs, biases))


def _widen(layer: Layer, old_inputs: int, positions: Sequence[int], input_count: int) -> Layer:
    """The same layer, reading its inputs at their positions among all inputs."""
    weights = np.zeros((layer.unit_count, input_count + layer.weights.shape[1] - old_inputs))
    weights[:, list(positions)] = layer.weights[:, :old_inputs]
    weights[:, input_count:] = layer.weights[:, old_inputs:]
    return Layer(weights, layer.bias)


def _append_function(
    hidden: list[Layer], input_count: int, function: PiecewiseLinear, known: dict[int, tuple[Array, float]]
) -> tuple[Array, float]:
    """Append the ReLUs that the function needs; returns its row over inputs and hidden units, and its constant.

    known: the rows and constants of maxima, by key, that have their ReLUs already.
    """
    row, bias = function.coefficients[:input_count], function.constant
    for term in function.terms:
        if term.key not in known:
            known[term.key] = _append_maximum(hidden, input_count, term, known)
        largest, offset = known[term.key]
        width = max(len(row), len(largest))
        row = _pad(row, width) + term.weight * _pad(largest, width)
        bias += term.weight * offset
    return _pad(row, _width(hidden, input_count)), bias


def _append_maximum(
    hidden: list[Layer], input_count: int, term: MaxTerm, known: dict[int, tuple[Array, float]]
) -> tuple[Array, float]:
    """The row and constant of the unweighted maximum."""
    largest, offset = _append_function(hidden, input_count, term.arguments[0], known)
    for argument in term.arguments[1:]:
        other, other_offset = _append_function(hidden, input_count, argument, known)
        largest = _pad(largest, len(other))
        hidden.append(Layer((other - largest)[None, :], np.array([other_offset - offset])))
        largest = np.append(largest, 1.0)
    return largest, offset


def _width(hidden: list[Layer], input_count: int) -> int:
    """How many values a layer behind these ones reads."""
    return hidden[-1].weights.shape[1] + hidden[-1].unit_count if hidden else input_count


def _pad(array: Array, width: int) -> Array:
    """Zeros on the right, up to the width."""
    missing = width - array.shape[-1]
    if not missing:
        return array
    return np.concatenate([array, np.zeros((*array.shape[:-1], missing))], axis=-1)
