"""What exporters write for an operator that ONNX lacks or that they take apart, written as operators that can be read.

Soft shrinkage is continuous, but its parts jump: torch's dynamo exporter writes

    Where(|x| > l, x - Sign(x) l, 0)        for        x - Clip(x, -l, l),        l >= 0.
"""

from __future__ import annotations

import copy

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

CLIP_TAKES_INPUTS = 11
"""The first operator set in which the bounds of Clip are inputs."""


def replace_idioms(graph: onnx.GraphProto, opset: int) -> None:
    """Write soft shrinkages that are taken apart by Clip, in place."""
    operators = {node.op_type for node in graph.node}
    if opset < CLIP_TAKES_INPUTS or "Sign" not in operators or "If" in operators:
        return
    known = _Graph(graph)
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        shrunk = known.soft_shrinkage(node)
        nodes += [copy.copy(node)] if shrunk is None else _by_clip(*shrunk, node.output[0])
    if len(nodes) > len(graph.node):
        del graph.node[:]
        graph.node.extend(_needed(nodes, {entry.name for entry in graph.output}))


class _Graph:
    """The nodes by what they compute, and the weights by name."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._made_by = {name: node for node in graph.node for name in node.output}
        self._weights = {tensor.name: tensor for tensor in graph.initializer}

    def soft_shrinkage(self, node: onnx.NodeProto) -> tuple[str, str] | None:
        """(x, l) if the node is the Where of a soft shrinkage by a number l."""
        condition, outer, inner = (list(node.input) + 3 * [""])[:3]
        compared = self._inputs(condition, "Greater")
        shifted = self._inputs(outer, "Sub")
        if node.op_type != "Where" or compared is None or shifted is None:
            return None
        x, bound = shifted[0], compared[1]
        size = self._inputs(shifted[1], "Mul")
        fits = (
            self._inputs(compared[0], "Abs") == [x]
            and size is not None
            and bound in size
            and self._inputs(next((name for name in size if name != bound), ""), "Sign") == [x]
            and self._is_zero(inner)
            and self._is_number_from_zero(bound)
        )
        return (x, bound) if fits else None

    def _inputs(self, name: str, operator: str) -> list[str] | None:
        """What an operator reads that computes this tensor; None if another one does."""
        node = self._made_by.get(name)
        return list(node.input) if node is not None and node.op_type == operator else None

    def _is_zero(self, name: str) -> bool:
        """Whether a tensor is zero, or something times zero."""
        factors = self._inputs(name, "Mul") or [name]
        return any(factor in self._weights and not self._value(factor).any() for factor in factors)

    def _is_number_from_zero(self, name: str) -> bool:
        return name in self._weights and self._value(name).size == 1 and bool((self._value(name) >= 0.0).all())

    def _value(self, name: str) -> NDArray[np.float64]:
        return np.asarray(numpy_helper.to_array(self._weights[name]))


def _by_clip(x: str, bound: str, result: str) -> list[onnx.NodeProto]:
    """x - Clip(x, -l, l)."""
    lower, clipped = f"{result}/lower", f"{result}/clipped"
    return [
        helper.make_node("Neg", [bound], [lower]),
        helper.make_node("Clip", [x, lower, bound], [clipped]),
        helper.make_node("Sub", [x, clipped], [result]),
    ]


def _needed(nodes: list[onnx.NodeProto], outputs: set[str]) -> list[onnx.NodeProto]:
    """The nodes that some output of the graph rests on."""
    read = set(outputs)
    kept = []
    for node in reversed(nodes):
        if read.intersection(node.output):
            kept.append(node)
            read.update(node.input)
    return kept[::-1]
