"""One ReLU network for the whole transition: the learned part, deltas and known transitions together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter

import numpy as np

from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.relu_compiler import ReluCompiler, pad


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
    network predicts differences. A known transition is a piecewise-linear function of w = (s, a, x, s', x'), and those
    are ReLU networks as well (`relu_compiler`). The next states that it reads are continuous, predicted or earlier
    among the transitions (`transition_order`).
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
    next_states = slice(input_count, input_count + state_count)
    compiler = ReluCompiler(input_count, hidden, Layer(outputs, biases.copy()), next_states)
    is_read = {state for function in transitions.values() for state in _next_states_read(function, input_count)}
    rows = {}
    for state, function in transitions.items():
        rows[state] = compiler.append(function)
        if state in is_read:
            compiler.define(input_count + state, rows[state])
    outputs = pad(outputs, compiler.width)  # once: it is large if there are many states
    for state, (row, bias) in rows.items():
        outputs[state, : len(row)] = row
        biases[state] = bias
    return ReluNetwork(input_count, tuple(compiler.hidden), Layer(outputs, biases))


def transition_order(input_count: int, transitions: Mapping[int, PiecewiseLinear]) -> list[int]:
    """The states with known transitions in an order in which each reads only next states of those before it.

    Raises graphlib.CycleError if there is none.
    """
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for state, function in transitions.items():
        sorter.add(state, *(other for other in _next_states_read(function, input_count) if other in transitions))
    return list(sorter.static_order())


def _next_states_read(function: PiecewiseLinear, input_count: int) -> list[int]:
    """The states whose next values a function of w reads."""
    found: list[int] = np.flatnonzero(function.support()[input_count:]).tolist()
    return found


def _widen(layer: Layer, old_inputs: int, positions: Sequence[int], input_count: int) -> Layer:
    """The same layer, reading its inputs at their positions among all inputs."""
    weights = np.zeros((layer.unit_count, input_count + layer.weights.shape[1] - old_inputs))
    weights[:, list(positions)] = layer.weights[:, :old_inputs]
    weights[:, input_count:] = layer.weights[:, old_inputs:]
    return Layer(weights, layer.bias)
