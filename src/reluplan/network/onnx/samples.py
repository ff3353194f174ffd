"""The inputs of an ONNX graph: which axis counts samples, and how many entries a sample has."""

from __future__ import annotations

from typing import NamedTuple

import onnx
from onnx import TensorProto

from reluplan.network.onnx.call import FLOAT_TYPES


class FixedBatch(NamedTuple):
    """An input that is made for several samples at once."""

    name: str
    size: int
    shape: tuple[int, ...]


def network_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Old exporters list the weights as inputs too."""
    weights = {tensor.name for tensor in graph.initializer}
    return [entry for entry in graph.input if entry.name not in weights]


def _sizes(entry: onnx.ValueInfoProto) -> list[int]:
    """0 where a size is left open."""
    return [dim.dim_value for dim in entry.type.tensor_type.shape.dim]


def fixed_batch(graph: onnx.GraphProto) -> FixedBatch | None:
    """The first input with a batch of a fixed size above 1."""
    for entry in network_inputs(graph):
        sizes = _sizes(entry)
        if len(sizes) > 1 and sizes[0] > 1:
            return FixedBatch(entry.name, sizes[0], tuple(sizes))
    return None


def sample_shape(graph: onnx.GraphProto, entry: onnx.ValueInfoProto, batch: int) -> tuple[int, ...]:
    """(n,) or (batch, n, ...): the first of several axes counts the samples."""
    if not entry.type.HasField("tensor_type"):
        raise ValueError(f"the input '{entry.name}' must be a tensor")
    kind = entry.type.tensor_type.elem_type
    if kind not in FLOAT_TYPES:
        raise ValueError(f"the input '{entry.name}' must hold floating-point numbers, not {_type_name(kind)}")
    sizes = _sizes(entry)
    first, rest = (sizes[:1], sizes[1:]) if len(sizes) > 1 else ([], sizes)
    if first and rest == [0]:
        rest = [_width_by_use(graph, entry.name)]
    if not rest or min(rest) < 1:
        raise ValueError(
            f"the input '{entry.name}' must have a fixed number of entries, as in (n) or (batch, n): "
            f"export the network with that shape"
        )
    return (*(batch for _ in first), *rest)


def _width_by_use(graph: onnx.GraphProto, name: str) -> int:
    """The entries of an input (batch, ?) that the first node with constants expects; 0 if there is none to be seen."""
    weights = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if list(node.input[:1]) != [name]:
            continue
        attributes = {attribute.name: attribute for attribute in node.attribute}
        shape = weights.get(node.input[1], []) if len(node.input) > 1 else []
        if node.op_type in ("MatMul", "Gemm") and len(shape) == 2:
            return int(shape[1 if "transB" in attributes and attributes["transB"].i else 0])
        if node.op_type in ("Add", "Sub", "Mul", "Div") and shape[-1:] > [1]:
            return int(shape[-1])
        if node.op_type == "Scaler" and len(attributes["offset"].floats if "offset" in attributes else []) > 1:
            return len(attributes["offset"].floats)
    return 0


def _type_name(kind: int) -> str:
    return str(TensorProto.DataType.Name(kind)) if kind in TensorProto.DataType.values() else f"type {kind}"
