"""Reads an ONNX file as a ReLU network.

The graph is evaluated once with symbolic tensors in place of numbers, for a batch of one sample. The
result is the real-valued function of the file with its weights as stored: a network that was saved in
single precision is read exactly, but computes in double precision from then on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.network.onnx.evaluation import Evaluated, evaluated
from reluplan.network.onnx.model_file import load_model, node_graphs, node_name, one_line, operator_name, prepared
from reluplan.network.onnx.operators import OPERATORS
from reluplan.network.onnx.samples import fixed_batch
from reluplan.network.relu_network import ReluNetwork

TRIED_SAMPLES = 16
"""Pairs of random samples, at each of several scales, on which a fixed batch is compared with single samples."""


def read_onnx(path: Path) -> ReluNetwork:
    """The network in the file; InputError names the node that cannot be read."""
    try:
        model = load_model(path)
        _check_operators(model.graph, {function.name for function in model.functions})
        return _network(prepared(model)).require_moderate()
    except (MemoryError, RecursionError):
        raise InputError(f"{path}: the network needs more memory than there is; export a smaller one") from None
    except (ValueError, InputError) as error:
        message = one_line(error)
        raise InputError(message if message.startswith(str(path)) else f"{path}: {message}") from None


def _check_operators(graph: onnx.GraphProto, functions: set[str]) -> None:
    for position, node in enumerate(graph.node):
        name = operator_name(node)
        if name not in OPERATORS and name != "If" and node.op_type not in functions:
            raise ValueError(
                f"{node_name(node, position)} uses the operator {name}, which is not supported: docs/networks.md lists "
                f"those that are, and how to add one"
            )
        for inner in node_graphs(node):
            _check_operators(inner, functions)


def _network(model: onnx.ModelProto) -> ReluNetwork:
    """The network of one sample; a file that is made for more must treat each like any other."""
    batch = fixed_batch(model.graph)
    if batch is None:
        return evaluated(model).network
    try:
        single = evaluated(model)
        pair = evaluated(model, batch=2)
        if not _is_independent(single, pair):
            raise ValueError("its samples are not treated alike, each by itself")
    except ValueError as error:
        raise ValueError(
            f"the input '{batch.name}' is a fixed batch of {batch.size} samples (shape {batch.shape}), and one sample "
            f"cannot be read on its own ({error}): export the network with a batch of 1 or of any size"
        ) from None
    return single.network


def _is_independent(single: Evaluated, pair: Evaluated) -> bool:
    """Whether the results for two samples at once are those for each of them, on random samples."""
    if pair.output_sizes != [2 * size for size in single.output_sizes]:
        return False
    rng = np.random.default_rng(0)
    scales = np.repeat([0.1, 1.0, 10.0], TRIED_SAMPLES)[:, np.newaxis, np.newaxis]
    samples = scales * rng.normal(size=(len(scales), 2, single.network.input_count))
    apart = _joined(single.network.forward(samples), single.output_sizes)
    together = pair.network.forward(_joined(samples, single.input_sizes))
    return bool(np.allclose(together, apart, rtol=1e-7, atol=1e-9 * max(1.0, float(np.abs(apart).max(initial=0.0)))))


def _joined(values: NDArray[np.float64], sizes: list[int]) -> NDArray[np.float64]:
    """(..., samples, entries) as a file of both samples has them: tensor by tensor, in each sample by sample."""
    parts = np.split(values, np.cumsum(sizes)[:-1], axis=-1)
    return np.concatenate([part.reshape(*values.shape[:-2], -1) for part in parts], axis=-1)
