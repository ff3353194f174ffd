"""Random graphs of several operators, and damaged files: equal numbers, or InputError and nothing else."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnx_cases import CASES, node
from reluplan.errors import InputError
from reluplan.network.onnx import read_onnx

WIDTH = 3
UNARY: dict[str, dict[str, Any]] = {
    "Relu": {},
    "Neg": {},
    "Abs": {},
    "LeakyRelu": {"alpha": 0.25},
    "HardSigmoid": {"alpha": 0.5, "beta": 0.25},
    "Identity": {},
    "Transpose": {"perm": [0, 2, 1]},
    "Clip": {},
}
BINARY = ("Add", "Sub", "Max", "Min")
CONSTANT = ("Add", "Mul", "Div", "MatMul", "PRelu", "Max", "Min")


class Composer:
    """Grows a graph of tensors (1, WIDTH, WIDTH), by choices that hypothesis draws."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.names = ["x"]

    def constant(self, *values: float) -> str:
        name = f"w{len(self.weights)}"
        numbers = np.array(values) if len(values) == 1 else np.array(values).reshape(WIDTH, WIDTH)
        self.weights.append(numpy_helper.from_array(numbers.reshape(()) if len(values) == 1 else numbers, name))
        return name

    def grow(self) -> None:
        source = self.draw(st.sampled_from(self.names))
        kind = self.draw(st.sampled_from(["unary", "binary", "constant", "pool", "reduce", "conv", "halves"]))
        getattr(self, f"_{kind}")(source)

    def _append(self, operator: str, inputs: str, **attributes: Any) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(node(operator, inputs, name, **attributes))
        self.names.append(name)

    def _unary(self, source: str) -> None:
        operator = self.draw(st.sampled_from(sorted(UNARY)))
        if operator == "Clip":
            low, high = sorted(self.draw(st.tuples(st.floats(-2, 2), st.floats(-2, 2))))
            source = f"{source} {self.constant(low)} {self.constant(high)}"
        self._append(operator, source, **UNARY[operator])

    def _binary(self, source: str) -> None:
        self._append(self.draw(st.sampled_from(BINARY)), f"{source} {self.draw(st.sampled_from(self.names))}")

    def _numbers(self) -> list[float]:
        seed = self.draw(st.integers(0, 1000))
        values: list[float] = (np.random.default_rng(seed).integers(1, 9, size=WIDTH**2) / 4.0 - 1.125).tolist()
        return values

    def _constant(self, source: str) -> None:
        self._append(self.draw(st.sampled_from(CONSTANT)), f"{source} {self.constant(*self._numbers())}")

    def _pool(self, source: str) -> None:
        operator = self.draw(st.sampled_from(["MaxPool", "AveragePool"]))
        self.nodes.append(node("Pad", f"{source} widths", f"p{len(self.nodes)}", mode="edge"))
        self._append(operator, self.nodes[-1].output[0], kernel_shape=[3], strides=[1])

    def _conv(self, source: str) -> None:
        weights = self.constant(*self._numbers())
        self.nodes.append(node("Unsqueeze", f"{weights} last", f"{weights}u"))
        self._append("Conv", f"{source} {weights}u", kernel_shape=[1])

    def _reduce(self, source: str) -> None:
        operator = self.draw(st.sampled_from(["ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum"]))
        axis = self.draw(st.sampled_from(["one", "last"]))
        self.nodes.append(node(operator, f"{source} {axis}", f"r{len(self.nodes)}"))
        self._append("Sub", f"{source} {self.nodes[-1].output[0]}")

    def _halves(self, source: str) -> None:
        parts = f"a{len(self.nodes)} b{len(self.nodes)}"
        self.nodes.append(node("Split", f"{source} sizes", parts, axis=2))
        self._append("Concat", " ".join(reversed(parts.split())), axis=-1)

    def model(self) -> onnx.ModelProto:
        shared: dict[str, NDArray[np.int64]] = {"one": np.array([1]), "last": np.array([-1]), "sizes": np.array([1, 2])}
        shared["widths"] = np.array([0, 0, 1, 0, 0, 1])
        weights = [*self.weights, *(numpy_helper.from_array(value, name) for name, value in shared.items())]
        shape: list[str | int | None] = ["batch", WIDTH, WIDTH]
        ends = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape) for name in ("x", self.names[-1])]
        graph = helper.make_graph(self.nodes, "composed", ends[:1], ends[1:], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "network.onnx"


@given(st.data(), st.integers(1, 9))
def test_composed_operators_agree_with_the_reference(path: Path, data: st.DataObject, count: int) -> None:
    composer = Composer(data.draw)
    for _ in range(count):
        composer.grow()
    model = composer.model()
    path.write_bytes(model.SerializeToString())
    samples = np.random.default_rng(count).normal(scale=2.0, size=(3, 1, WIDTH, WIDTH)).round(2)
    evaluator: Any = ReferenceEvaluator(model)
    expected = np.array([evaluator.run(None, {"x": sample})[0].ravel() for sample in samples])
    found = read_onnx(path).forward(samples.reshape(3, -1))
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)


def read_or_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with suppress(InputError):
        read_onnx(path)


@given(st.sampled_from(sorted(CASES)), st.integers(0, 99), st.data())
def test_damaged_files_are_read_or_refused(path: Path, name: str, seed: int, data: st.DataObject) -> None:
    """Bytes that are changed, left out or cut off."""
    content = bytearray(CASES[name](np.random.default_rng(seed)).model().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    read_or_refused(path, bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))]))


@given(st.sampled_from(sorted(CASES)), st.integers(0, 99), st.data())
def test_files_of_strange_numbers_are_read_or_refused(path: Path, name: str, seed: int, data: st.DataObject) -> None:
    """Attributes and weights of other sizes and signs, and nodes with other inputs, in files that are well-formed."""
    model = CASES[name](np.random.default_rng(seed)).model()
    numbers = st.sampled_from([-(2**62), -(2**31), -7, -2, -1, 0, 1, 2, 3, 7, 1000, 2**31, 2**62])
    for entry in model.graph.node:
        for attribute in entry.attribute:
            if data.draw(st.booleans()):
                attribute.i = data.draw(numbers)
                attribute.ints[:] = [data.draw(numbers) for _ in attribute.ints]
        if len(entry.input) > 1 and data.draw(st.integers(0, 5)) == 0:
            entry.input[:] = data.draw(st.permutations(entry.input))
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.INT64 and data.draw(st.booleans()):
            values = numpy_helper.to_array(tensor)
            tensor.raw_data = np.array([data.draw(numbers) for _ in range(values.size)], dtype=np.int64).tobytes()
        elif data.draw(st.integers(0, 5)) == 0:
            tensor.dims[:] = [data.draw(numbers) for _ in tensor.dims]
    read_or_refused(path, model.SerializeToString())
