"""ONNX files as they come: bounded, parsed, with external weights and local functions in place, and valid."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import onnx
from onnx import TensorProto

from reluplan.errors import InputError
from reluplan.network.onnx.idioms import replace_idioms

DEFAULT_DOMAINS = ("", "ai.onnx")
OLDEST_OPSET = 6
LARGEST_FILE = 500_000_000
"""Bytes of a model with its external weights: it is read into memory, and no plan is found for a larger one."""
LARGEST_GRAPH = 100_000
"""Nodes, after functions that call functions are written out."""


def load_model(path: Path) -> onnx.ModelProto:
    """The file with its external weights and without functions of its own; InputError or ValueError says why not."""
    model = _parsed(_content(path))
    if model is None:
        raise InputError(f"{path}: this is not an ONNX file")
    _check_external_size(model, path)
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise InputError(
            f"{path}: its weights are kept in another file that cannot be read; "
            f"put that file in the same folder: {one_line(error)}"
        ) from None
    return model


def _content(path: Path) -> bytes:
    """Its bytes, after a look at how many there are."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError(f"{path}: the network cannot be read: this is not a regular file")
        _check_size(path.stat().st_size, path)
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: the network cannot be read: {error.strerror or error}") from None


def _check_size(size: int, path: Path) -> None:
    if size > LARGEST_FILE:
        raise InputError(
            f"{path}: the network has {size / 1e6:,.0f} MB; at most {LARGEST_FILE / 1e6:,.0f} MB are read: "
            f"a plan needs a network of thousands of units, not millions; train a smaller one"
        )


def _parsed(content: bytes) -> onnx.ModelProto | None:
    """None for bytes that are not an ONNX model; some of those still parse, as a model without a graph."""
    try:
        model = onnx.load_model_from_string(content)
    except Exception:  # protobuf's DecodeError, or whatever its version raises in place of it
        return None
    return model if model.ir_version and model.HasField("graph") else None


def _check_external_size(model: onnx.ModelProto, path: Path) -> None:
    """The bytes of all external weights together, as they are declared or as their files have them."""
    total = 0
    for tensor in _tensors(model.graph):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        details = {entry.key: entry.value for entry in tensor.external_data}
        length = details.get("length", "")
        file = path.parent / details.get("location", "")
        if file.exists() and not file.is_file():
            raise InputError(f"{path}: its weights are kept in '{file.name}', which is not a regular file")
        total += int(length) if length.isdecimal() else (file.stat().st_size if file.exists() else 0)
        total += max(0, math.prod(tensor.dims)) if total <= LARGEST_FILE else 0
    _check_size(total, path)


def _tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """All tensors of a graph and of the graphs in it."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
    for inner in subgraphs(graph):
        yield from _tensors(inner)


def subgraphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graphs that the nodes of a graph hold: the branches of If."""
    for node in graph.node:
        yield from node_graphs(node)


def node_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node holds."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions of its own, valid by ONNX's rules, so that operators can rely on them."""
    opset = opset_of(model, "")
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise ValueError(f"it uses ONNX operator set {opset}; sets {OLDEST_OPSET} to {newest} can be read")
    if model.graph.sparse_initializer:
        raise ValueError("sparse weights are not supported: export the network with dense weights")
    model.ir_version = max(model.ir_version, 4)  # before it, weights had to be listed as inputs too; some were not
    for entry in (*model.graph.input, *model.graph.output):
        if not entry.type.WhichOneof("value"):
            entry.type.tensor_type.SetInParent()
        if entry.type.HasField("tensor_type"):
            entry.type.tensor_type.shape.SetInParent()  # the checker asks for shapes that other tools may leave out
    try:
        onnx.checker.check_model(model)
    except (ValueError, onnx.checker.ValidationError) as error:
        raise ValueError(f"this ONNX file is not valid: {error}") from None
    inlined = _inlined(model)
    replace_idioms(inlined.graph, opset)
    return inlined


def opset_of(model: onnx.ModelProto, domain: str) -> int:
    """Which version of the operators of a domain the file uses."""
    domains = DEFAULT_DOMAINS if domain in DEFAULT_DOMAINS else (domain,)
    return int(max((entry.version for entry in model.opset_import if entry.domain in domains), default=0))


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Local functions written out; how many nodes that gives is counted first."""
    total = _node_count(model)
    if total > LARGEST_GRAPH:
        raise ValueError(f"it has {total:,} nodes, with its functions written out; at most {LARGEST_GRAPH:,} are read")
    if not model.functions:
        return model
    from onnx import inliner  # here, because few files need it

    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # the binding raises plain RuntimeErrors and others of its own
        raise ValueError(f"its functions cannot be written out: {error}") from None


def _node_count(model: onnx.ModelProto) -> int:
    """With its functions written out."""
    functions = {(function.domain, function.name): function for function in model.functions}
    calls = {key: [(node.domain, node.op_type) for node in function.node] for key, function in functions.items()}

    @cache
    def count(key: tuple[str, str]) -> int:
        return sum(map(count, calls[key])) if key in calls else 1

    try:
        return sum(count((node.domain, node.op_type)) for node in model.graph.node)
    except RecursionError:
        raise ValueError("its functions call themselves, or each other too deeply") from None


def operator_name(node: onnx.NodeProto) -> str:
    """With its domain, unless that is ONNX's own."""
    return str(node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}")


def node_name(node: onnx.NodeProto, position: int) -> str:
    """How messages call it."""
    return f"node '{node.name}'" if node.name else f"node {position + 1}"


def one_line(error: Exception | str) -> str:
    """The message in one paragraph; names in a damaged file may hold anything."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(str(error).split()))
