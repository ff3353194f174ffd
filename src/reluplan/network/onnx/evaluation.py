"""One walk through an ONNX graph, with symbolic tensors in place of numbers."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, MutableMapping
from typing import NamedTuple

import numpy as np
import onnx

from reluplan.network.affine import Affine, NotPiecewiseLinearError, concatenated, require_held
from reluplan.network.builder import NetworkBuilder
from reluplan.network.choice import Comparison
from reluplan.network.onnx.call import Call, tensor_constant
from reluplan.network.onnx.model_file import node_graphs, node_name, operator_name, opset_of, subgraphs
from reluplan.network.onnx.operators import OPERATORS
from reluplan.network.onnx.samples import network_inputs, sample_shape
from reluplan.network.relu_network import ReluNetwork

WAY_OUT = "learn a ReLU network from it: reluplan distil PROBLEM --teacher FILE"
CHOOSING = ("Where", "Not", "Identity")
Values = MutableMapping[str, Affine]


class Evaluated(NamedTuple):
    """The network, and how many of its inputs and outputs each tensor of the file has."""

    network: ReluNetwork
    input_sizes: list[int]
    output_sizes: list[int]


def evaluated(model: onnx.ModelProto, batch: int = 1) -> Evaluated:
    """The network of that many samples at once; several inputs or outputs follow each other, each row by row."""
    graph = model.graph
    entries = network_inputs(graph)
    if not entries or not graph.output:
        raise ValueError(f"the network has no {'output' if entries else 'input'}")
    inputs: dict[str, Affine] = {}
    count = 0
    for entry in entries:
        inputs[entry.name] = Affine.columns(count, sample_shape(graph, entry, batch))
        count += inputs[entry.name].size
    builder = NetworkBuilder(count)
    walk = _Walk(model, builder)
    outputs = walk.results(graph, inputs)
    result = concatenated([output.reshaped((-1,)) for output in outputs], 0)
    if not result.size:
        raise ValueError("the network has no output")
    sizes = [tensor.size for tensor in inputs.values()]
    return Evaluated(builder.finish(result), sizes, [output.size for output in outputs])


class _Walk:
    """The evaluation of a graph and of those in it, node by node, with a count of the numbers that are held."""

    def __init__(self, model: onnx.ModelProto, builder: NetworkBuilder) -> None:
        self._model = model
        self._builder = builder
        self._held = 0

    def results(self, graph: onnx.GraphProto, known: Values) -> list[Affine]:
        """The outputs of the graph; known: its inputs, or for a branch what stands outside of it."""
        values: Values = ChainMap({}, known) if known else {}
        weights = {tensor.name: tensor for tensor in graph.initializer}
        aliases = _aliases(graph)
        names = [[aliases.get(name, name) for name in node.input] for node in graph.node]
        outputs = [aliases.get(entry.name, entry.name) for entry in graph.output]
        last_use = _last_uses(graph, names)
        last_use.update((name, len(graph.node)) for name in outputs)
        for position, node in enumerate(graph.node):
            if node.output[:1] and node.output[0] in aliases:
                continue
            for name in _reads(node, names[position]):
                self._fetch(name, values, weights)
            results = self._evaluate(node, node_name(node, position), names[position], values)
            # A further output (the mask of Dropout) stays undefined, and is an error only if something reads it.
            values.update(zip(node.output, results, strict=False))
            self._held += sum(tensor.number_count for tensor in results)
            require_held(self._held, f"at {node_name(node, position)} the tensors that are still needed")
            for name in {*_reads(node, names[position]), *node.output}:
                if last_use.get(name, -1) <= position and name in values and name not in known:
                    self._held -= values.pop(name).number_count  # what is not read again need not be held
        for name in outputs:
            self._fetch(name, values, weights)
        return [_lookup(values, name) for name in outputs]

    def _fetch(self, name: str, values: Values, weights: dict[str, onnx.TensorProto]) -> None:
        """Weights become numbers when they are read first."""
        if name in weights and name not in values:
            values[name] = _initializer(weights[name])
            self._held += values[name].number_count

    def _evaluate(self, node: onnx.NodeProto, name: str, inputs: list[str], values: Values) -> list[Affine]:
        arguments = tuple(_lookup(values, key) if key else None for key in inputs)
        call = Call(node, arguments, self._builder, opset_of(self._model, node.domain))
        operator = operator_name(node)
        try:
            if operator == "If":
                return self.results(_branch(call), values)
            _check_conditions(call, operator)
            with np.errstate(all="ignore"):  # an overflow shows up as infinity, and is reported as such
                result = OPERATORS[operator](call)
            results = result if isinstance(result, list) else [result]
            if not all(tensor.is_constant or tensor.is_finite for tensor in results):
                raise ValueError("it gives a weight that is NaN or infinite")
        except NotPiecewiseLinearError as error:
            raise ValueError(f"{name} ({operator}) cannot be read: {error}; {WAY_OUT}") from None
        except (ValueError, IndexError, TypeError, OverflowError) as error:  # attributes of any type stand in a file
            shapes = ", ".join(str(argument.shape) for argument in call.given)
            where = f" (inputs of shape {shapes})" if shapes else ""
            raise ValueError(f"{name} ({operator}) cannot be read: {error}{where}") from None
        return results


def _check_conditions(call: Call, operator: str) -> None:
    """A condition that depends on the inputs may only be read by operators that make a choice."""
    if operator not in CHOOSING and any(isinstance(argument, Comparison) for argument in call.given):
        raise NotPiecewiseLinearError("it computes with a condition on the inputs, which jumps")


def _branch(call: Call) -> onnx.GraphProto:
    """The graph that an If takes; its condition must be a constant."""
    if not call[0].is_constant:
        raise NotPiecewiseLinearError("its condition depends on the inputs")
    branch: onnx.GraphProto = call.attribute("then_branch" if call[0].value.all() else "else_branch", None)
    return branch


def _initializer(tensor: onnx.TensorProto) -> Affine:
    try:
        return tensor_constant(tensor)
    except ValueError as error:
        raise ValueError(f"the weights '{tensor.name}' cannot be used: {error}") from None


def _lookup(values: Values, name: str) -> Affine:
    if name not in values:
        raise ValueError(f"the tensor '{name}' is used but no supported operator computes it")
    return values[name]


def _last_uses(graph: onnx.GraphProto, names: list[list[str]]) -> dict[str, int]:
    """The last node that reads each tensor."""
    return {name: position for position, node in enumerate(graph.node) for name in _reads(node, names[position])}


def _reads(node: onnx.NodeProto, inputs: list[str]) -> Iterator[str]:
    """The inputs of a node, and whatever the graphs in it may read."""
    yield from inputs
    for graph in node_graphs(node):
        for inner in graph.node:
            yield from _reads(inner, list(inner.input))
        yield from (entry.name for entry in graph.output)


def _aliases(graph: onnx.GraphProto) -> dict[str, str]:
    """Outputs of nodes that repeat an earlier one, by that one's outputs: units are not made twice."""
    if any(True for _ in subgraphs(graph)):
        return {}
    aliases: dict[str, str] = {}
    seen: dict[tuple[object, ...], list[str]] = {}
    for node in graph.node:
        if not node.input:
            continue
        attributes = sorted(attribute.SerializeToString() for attribute in node.attribute)
        inputs = (aliases.get(name, name) for name in node.input)
        first = seen.setdefault((operator_name(node), len(node.output), *attributes, *inputs), list(node.output))
        if first != list(node.output):
            aliases.update(zip(node.output, first, strict=True))
    return aliases
