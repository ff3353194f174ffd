"""Smooth networks as ONNX files, for tests of distilling."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from scipy import special

Array = NDArray[np.float64]
UNITS = 8
ACTIVATIONS = ("Tanh", "Sigmoid", "Gelu", "SiLU", "Softplus")


def smooth_teacher(
    path: Path, activation: str, inputs: int, outputs: int, *, batch: int | str = "N", dtype: type = np.float64
) -> Path:
    """x -> act(x W + b) V + x S in a file; SiLU is written as x sigmoid(x), as exporters do."""
    weights = _weights(inputs, outputs)
    if activation == "SiLU":
        acts = [helper.make_node("Sigmoid", ["h"], ["g"]), helper.make_node("Mul", ["h", "g"], ["a"])]
    else:
        acts = [helper.make_node(activation, ["h"], ["a"])]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["h"]),
        *acts,
        helper.make_node("MatMul", ["a", "v"], ["o"]),
        helper.make_node("MatMul", ["x", "s"], ["skip"]),
        helper.make_node("Add", ["o", "skip"], ["y"]),
    ]
    kind = TensorProto.DOUBLE if dtype is np.float64 else TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "teacher",
        [helper.make_tensor_value_info("x", kind, [batch, inputs])],
        [helper.make_tensor_value_info("y", kind, [batch, outputs])],
        [numpy_helper.from_array(value.astype(dtype), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), str(path))
    return path


def smooth_values(activation: str, points: Array, outputs: int) -> Array:
    """The same function in numpy."""
    weights = _weights(points.shape[1], outputs)
    h = points @ weights["w"] + weights["b"]
    sigmoid = 1.0 / (1.0 + np.exp(-h))
    values = {
        "Tanh": np.tanh(h),
        "Sigmoid": sigmoid,
        "Gelu": 0.5 * h * (1.0 + special.erf(h / np.sqrt(2.0))),
        "SiLU": h * sigmoid,
        "Softplus": np.logaddexp(0.0, h),
    }
    return np.asarray(values[activation] @ weights["v"] + points @ weights["s"])


def _weights(inputs: int, outputs: int) -> dict[str, Array]:
    rng = np.random.default_rng(7)
    return {
        "w": rng.normal(size=(inputs, UNITS)),
        "b": rng.normal(size=UNITS),
        "v": rng.normal(size=(UNITS, outputs)) / UNITS,
        "s": np.full((inputs, outputs), 0.3),
    }
