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


def sample_shape(entry: onnx.ValueInfoProto, batch: int) -> tuple[int, ...]:
    """(n,) or (batch, n, ...): the first of several axes counts the samples."""
    if not entry.type.HasField("tensor_type"):
        raise ValueError(f"the input '{entry.name}' must be a tensor")
    kind = entry.type.tensor_type.elem_type
    if kind not in FLOAT_TYPES:
        raise ValueError(f"the input '{entry.name}' must hold floating-point numbers, not {_type_name(kind)}")
    sizes = _sizes(entry)
    first, rest = (sizes[:1], sizes[1:]) if len(sizes) > 1 else ([], sizes)
    if not rest or min(rest) < 1:
        raise ValueError(
            f"the input '{entry.name}' must have a fixed number of entries, as in (n) or (batch, n): "
            f"export the network with that shape"
        )
    return (*(batch for _ in first), *rest)


def _type_name(kind: int) -> str:
    return str(TensorProto.DataType.Name(kind)) if kind in TensorProto.DataType.values() else f"type {kind}"
