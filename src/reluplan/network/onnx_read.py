"""Reads an ONNX file as a ReLU network.

The graph is evaluated once with symbolic tensors in place of numbers, for a batch of one sample. The
result is the real-valued function of the file with its weights as stored: a network that was saved in
single precision is read exactly, but computes in double precision from then on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from reluplan.errors import InputError
from reluplan.network.affine import Affine, require_held
from reluplan.network.builder import NetworkBuilder
from reluplan.network.onnx_operators import FLOAT_TYPES, OPERATORS, Call, tensor_constant
from reluplan.network.relu_network import ReluNetwork

DEFAULT_DOMAINS = ("", "ai.onnx")
OLDEST_OPSET = 7  # before it, operators broadcast by other rules


def read_onnx(path: Path) -> ReluNetwork:
    """The network in the file; InputError names the node that cannot be read."""
    model = _load_model(path)
    try:
        _check_operators(model)
        _check_model(model)
        return _network(model.graph).require_moderate()
    except MemoryError:
        raise InputError(f"{path}: the network needs more memory than there is; export a smaller one") from None
    except (ValueError, InputError) as error:
        raise InputError(f"{path}: {_one_line(error)}") from None


def _load_model(path: Path) -> onnx.ModelProto:
    """The file with its external weights, if it has any."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: the network cannot be read: {error.strerror or error}") from None
    model = _parsed(content)
    if model is None:
        raise InputError(f"{path}: this is not an ONNX file")
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise InputError(
            f"{path}: its weights are kept in another file that cannot be read; "
            f"put that file in the same folder: {_one_line(error)}"
        ) from None
    return model


def _parsed(content: bytes) -> onnx.ModelProto | None:
    """None for bytes that are not an ONNX model; some of those still parse, as a model without a graph."""
    try:
        model = onnx.load_model_from_string(content)
    except Exception:  # protobuf's DecodeError, or whatever its version raises in place of it
        return None
    return model if model.ir_version and model.HasField("graph") else None


def _check_operators(model: onnx.ModelProto) -> None:
    for position, node in enumerate(model.graph.node):
        if node.domain not in DEFAULT_DOMAINS or (node.op_type != "Relu" and node.op_type not in OPERATORS):
            operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            raise ValueError(
                f"{_name(node, position)} uses the operator {operator}, which is not supported. "
                f"A ReLU network may use: {', '.join(sorted({*OPERATORS.names(), 'Relu'}))}"
            )


def _check_model(model: onnx.ModelProto) -> None:
    """Everything that ONNX itself asks of a file, so that the operators can rely on it."""
    opset = max((entry.version for entry in model.opset_import if entry.domain in DEFAULT_DOMAINS), default=0)
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise ValueError(f"it uses ONNX operator set {opset}; sets {OLDEST_OPSET} to {newest} can be read")
    if model.graph.sparse_initializer:
        raise ValueError("sparse weights are not supported: export the network with dense weights")
    for entry in (*model.graph.input, *model.graph.output):
        entry.type.tensor_type.shape.SetInParent()  # the checker asks for shapes that other tools may leave out
    try:
        onnx.checker.check_model(model)
    except (ValueError, onnx.checker.ValidationError) as error:
        raise ValueError(f"this ONNX file is not valid: {error}") from None


def _network(graph: onnx.GraphProto) -> ReluNetwork:
    values = {tensor.name: _initializer(tensor) for tensor in graph.initializer}
    # Old exporters list the weights as inputs too.
    inputs = [entry for entry in graph.input if entry.name not in values]
    if not inputs:
        raise ValueError("the network has no input")
    if len(graph.output) != 1:
        names = ", ".join(entry.name for entry in graph.output) or "none"
        raise ValueError(f"the network must have exactly one output, it has {len(graph.output)} ({names})")
    input_count = 0
    for entry in inputs:
        values[entry.name] = Affine.columns(input_count, _input_shape(entry))
        input_count += values[entry.name].size
    builder = NetworkBuilder(input_count)
    last_use = {name: position for position, node in enumerate(graph.node) for name in node.input}
    last_use[graph.output[0].name] = len(graph.node)
    held = sum(tensor.number_count for tensor in values.values())
    for position, node in enumerate(graph.node):
        _evaluate(node, _name(node, position), values, builder)
        held += sum(values[name].number_count for name in node.output if name in values)
        for name in {*node.input, *node.output}:
            if last_use.get(name, -1) <= position and name in values:  # what is not read again need not be held
                held -= values.pop(name).number_count
        require_held(held, f"at {_name(node, position)} the tensors that are still needed")
    return builder.finish(_lookup(values, graph.output[0].name))


def _initializer(tensor: onnx.TensorProto) -> Affine:
    try:
        return tensor_constant(tensor)
    except ValueError as error:
        raise ValueError(f"the weights '{tensor.name}' cannot be used: {error}") from None


def _input_shape(entry: onnx.ValueInfoProto) -> tuple[int, ...]:
    """(n,) or (1, n, ...): the first of several axes counts the samples of a batch and is taken as 1."""
    tensor_type = entry.type.tensor_type
    if tensor_type.elem_type not in FLOAT_TYPES:
        kind = TensorProto.DataType.Name(tensor_type.elem_type)
        raise ValueError(f"the input '{entry.name}' must hold floating-point numbers, not {kind}")
    sizes = [dim.dim_value for dim in tensor_type.shape.dim]  # 0 if symbolic
    batch, rest = (sizes[:1], sizes[1:]) if len(sizes) > 1 else ([], sizes)
    if not rest or min(rest) < 1:
        raise ValueError(f"the input '{entry.name}' must have a fixed number of entries, as in (n) or (batch, n)")
    if batch and batch[0] > 1:
        raise ValueError(
            f"the input '{entry.name}' is a fixed batch of {batch[0]} samples (shape {tuple(sizes)}): "
            f"export the network with a batch of 1 or of any size"
        )
    return (*(1 for _ in batch), *rest)


def _evaluate(node: onnx.NodeProto, name: str, values: dict[str, Affine], builder: NetworkBuilder) -> None:
    """Adds the outputs of the node to the values."""
    call = Call(node, tuple(_lookup(values, key) if key else None for key in node.input))
    try:
        with np.errstate(all="ignore"):  # an overflow shows up as infinity, and is reported as such
            result = builder.relu(call[0]) if node.op_type == "Relu" else OPERATORS[node.op_type](call)
        results = result if isinstance(result, list) else [result]
        if not all(tensor.is_finite for tensor in results):
            raise ValueError("it gives a weight that is NaN or infinite")
    except (ValueError, IndexError, TypeError, OverflowError) as error:  # attributes of any type stand in a file
        shapes = ", ".join(str(argument.shape) for argument in call.given)
        where = f" (inputs of shape {shapes})" if shapes else ""
        raise ValueError(f"{name} ({node.op_type}) cannot be read: {error}{where}") from None
    # A further output (the mask of Dropout) stays undefined, and is an error only if something reads it.
    values.update(zip(node.output, results, strict=False))


def _lookup(values: dict[str, Affine], name: str) -> Affine:
    if name not in values:
        raise ValueError(f"the tensor '{name}' is used but no supported operator computes it")
    return values[name]


def _name(node: onnx.NodeProto, position: int) -> str:
    return f"node '{node.name}'" if node.name else f"node {position + 1}"


def _one_line(error: Exception) -> str:
    """The message in one paragraph; names in a damaged file may hold anything."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(str(error).split()))
