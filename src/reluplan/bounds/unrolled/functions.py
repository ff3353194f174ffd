"""Rewards and constraints as one ReLU network over w, so that back-substitution goes through their maxima as well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.relu_compiler import ReluCompiler, pad

Array = NDArray[np.float64]


def functions_network(functions: Sequence[PiecewiseLinear], width: int) -> ReluNetwork:
    """The network whose outputs are the functions, with max(p, q) = p + max(0, q − p); units that do not read each
    other stand in one layer.

    >>> x = PiecewiseLinear.variable(0, 1)
    >>> functions_network([PiecewiseLinear.absolute(x), x], 1).forward([[-2.0], [3.0]])
    array([[ 2., -2.],
           [ 3.,  3.]])
    """
    compiler = ReluCompiler(width, [])
    rows = [compiler.append(function) for function in functions]
    weights = np.array([pad(row, compiler.width) for row, _ in rows]).reshape(len(rows), compiler.width)
    output = Layer(weights, np.array([bias for _, bias in rows], dtype=np.float64))
    return _levelled(ReluNetwork(width, tuple(compiler.hidden), output))


def _levelled(network: ReluNetwork) -> ReluNetwork:
    """The same network of single units, each in the first layer that has all that it reads before it."""
    inputs = network.input_count
    units = [(layer.weights[0], float(layer.bias[0])) for layer in network.hidden]
    level = np.zeros(len(units), dtype=np.int64)
    for index, (row, _) in enumerate(units):
        read = np.flatnonzero(row[inputs:])
        level[index] = 1 + level[read].max() if len(read) else 0
    order = np.argsort(level, kind="stable")
    columns = np.concatenate([np.arange(inputs), inputs + order])
    layers = []
    for depth in range(level.max() + 1 if len(units) else 0):
        members = np.flatnonzero(level == depth)
        width = inputs + int((level < depth).sum())
        rows = np.array([pad(units[index][0], network.output.weights.shape[1])[columns[:width]] for index in members])
        layers.append(Layer(rows, np.array([units[index][1] for index in members])))
    return ReluNetwork(inputs, tuple(layers), Layer(network.output.weights[:, columns], network.output.bias))
