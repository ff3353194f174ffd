"""Writes a ReLU network as an ONNX file in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from reluplan.errors import InputError
from reluplan.files import write_atomically
from reluplan.network.relu_network import Array, Layer, ReluNetwork

OPSET = 17  # Gemm, Relu and Concat in double precision, for every onnxruntime since 1.12
IR_VERSION = 8  # the file format of that operator set
GEMM: dict[str, Any] = {
    "alpha": 1.0,
    "beta": 1.0,
    "transA": 0,
    "transB": 1,
}  # ONNX's defaults too: OMLT does not know them
LARGEST_FILE = 2**31 - 1  # bytes, the limit of protobuf


def write_onnx(network: ReluNetwork, path: Path) -> None:
    """A file with the input "inputs" (batch, n) and the output "outputs" (batch, m).

    Each layer is one Gemm, on the Concat of those earlier blocks that it gives any weight; a sequential network is a
    plain chain Gemm, Relu, ..., Gemm, as readers of sequential networks ask for (OMLT, gurobi-machinelearning). The
    same network always gives the same bytes. The file appears in one step, so that nobody reads half of it.
    """
    if not network.input_count or not network.output_count:
        raise InputError(f"{path}: a network without inputs or without outputs cannot be written")
    model = _model(network)
    if model.ByteSize() > LARGEST_FILE:
        raise InputError(f"{path}: the network has {model.ByteSize():,} bytes, more than an ONNX file can hold")
    onnx.checker.check_model(model, full_check=True)
    write_atomically(path, model.SerializeToString(deterministic=True), create_folder=False)


def _model(network: ReluNetwork) -> onnx.ModelProto:
    graph = helper.make_graph(
        [],
        "relu_network",
        [helper.make_tensor_value_info("inputs", TensorProto.DOUBLE, ["batch", network.input_count])],
        [helper.make_tensor_value_info("outputs", TensorProto.DOUBLE, ["batch", network.output_count])],
    )
    blocks = [("inputs", network.input_count)]
    for number, layer in enumerate(network.hidden, start=1):
        name = f"hidden_{number}"
        if layer.unit_count:  # onnxruntime has no empty matrices
            _add_affine(graph, layer, blocks, f"{name}_before_relu")
            graph.node.append(helper.make_node("Relu", [f"{name}_before_relu"], [name], name=f"{name}_relu"))
            blocks.append((name, layer.unit_count))
    _add_affine(graph, network.output, blocks, "outputs")
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, producer_name="reluplan", opset_imports=[opset], ir_version=IR_VERSION)


def _add_affine(graph: onnx.GraphProto, layer: Layer, blocks: list[tuple[str, int]], name: str) -> None:
    """name = weights (blocks) + bias."""
    names, weights = zip(*_read_blocks(layer, blocks), strict=True)
    source = names[0]
    if len(names) > 1:
        source = f"{name}_reads"
        graph.node.append(helper.make_node("Concat", names, [source], name=source, axis=1))
    parameters = {f"{name}_weights": np.hstack(weights), f"{name}_bias": layer.bias}
    for key, values in parameters.items():
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values, dtype=np.float64), key))
    graph.node.append(helper.make_node("Gemm", [source, *parameters], [name], name=f"{name}_gemm", **GEMM))


def _read_blocks(layer: Layer, blocks: list[tuple[str, int]]) -> Iterator[tuple[str, Array]]:
    """Name and weights of each block that the layer reads; of the inputs if it reads none."""
    ends = np.cumsum([size for _, size in blocks])
    parts = np.split(layer.weights, ends[:-1], axis=1)
    reads_nothing = not layer.weights.any()
    for position, ((name, _), part) in enumerate(zip(blocks, parts, strict=True)):
        if part.any() or (reads_nothing and position == 0):
            yield name, part
