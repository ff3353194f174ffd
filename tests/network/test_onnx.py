"""ONNX files: read and written networks against onnxruntime, and every error."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from onnx_cases import CASES
from reluplan.errors import InputError, OutputError
from reluplan.network.affine import Affine
from reluplan.network.onnx import OPERATORS, Call, read_onnx, write_onnx
from reluplan.network.onnx.refused import REASONS
from reluplan.network.relu_network import Array, Layer, ReluNetwork

Shape = Sequence[int | str] | None
RNG = np.random.default_rng(7)
A34, A43, B3, B4 = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 3)), RNG.normal(size=3), RNG.normal(size=4)
SIZES = (0.5, 2.0, -3.0, 0.25)


@dataclass(frozen=True)
class Graph:
    """A hand-built ONNX graph: its output is always "y", its default input "x" of shape (batch, 4)."""

    nodes: Sequence[onnx.NodeProto]
    weights: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    inputs: Mapping[str, Shape] = field(default_factory=lambda: {"x": ("batch", 4)})
    opset: int = 17
    outputs: Sequence[str] = ("y",)
    dtype: int = TensorProto.DOUBLE
    domains: Mapping[str, int] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "test",
            [helper.make_tensor_value_info(name, self.dtype, shape) for name, shape in self.inputs.items()],
            [helper.make_tensor_value_info(name, self.dtype, None) for name in self.outputs],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in self.weights.items()],
        )
        opsets = [helper.make_opsetid(*entry) for entry in {"": self.opset, **self.domains}.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def save(self, folder: Path) -> Path:
        path = folder / "graph.onnx"
        path.write_bytes(self.model().SerializeToString())
        return path

    def samples(self) -> list[dict[str, Array]]:
        """Random inputs for a batch of one."""
        rng = np.random.default_rng(1)
        shapes = {name: [d if isinstance(d, int) else 1 for d in shape or ()] for name, shape in self.inputs.items()}
        return [{name: rng.normal(scale=2.0, size=shape) for name, shape in shapes.items()} for _ in range(20)]


def node(operator: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """node("Add", "x b") adds the tensors x and b to give y; "_" is an input that is left out."""
    names = ["" if name == "_" else name for name in inputs.split()]
    name = f"{operator}_to_{outputs}".replace(" ", "_")
    return helper.make_node(operator, names, outputs.split(), name=name, **attributes)


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def random_network(sizes: Sequence[int], seed: int, *, dense: bool) -> ReluNetwork:
    rng = np.random.default_rng(seed)
    if not dense:
        weights = [rng.normal(size=(b, a)) for a, b in pairwise(sizes)]
        return ReluNetwork.sequential(weights, [rng.normal(size=b) for b in sizes[1:]])
    before = np.cumsum(sizes)
    layers = [Layer(rng.normal(size=(n, k)), rng.normal(size=n)) for n, k in zip(sizes[1:], before, strict=False)]
    return ReluNetwork(sizes[0], tuple(layers[:-1]), layers[-1])


def assert_same_weights(a: ReluNetwork, b: ReluNetwork) -> None:
    assert a.input_count == b.input_count
    for left, right in zip((*a.hidden, a.output), (*b.hidden, b.output), strict=True):
        assert np.array_equal(left.weights, right.weights)
        assert np.array_equal(left.bias, right.bias)


# ---------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("dense", [False, True], ids=["sequential", "dense"])
@pytest.mark.parametrize("sizes", [(3, 2), (3, 5, 2), (4, 6, 5, 1), (2, 8, 1, 8, 3), (5, 7, 6, 5, 4, 2)])
def test_round_trip_is_exact_and_agrees_with_onnxruntime(sizes: tuple[int, ...], dense: bool, tmp_path: Path) -> None:
    network = random_network(sizes, seed=sum(sizes), dense=dense)
    path = tmp_path / "network.onnx"
    network.save(path)
    assert_same_weights(ReluNetwork.load(path), network)
    assert ReluNetwork.load(path).fingerprint() == network.fingerprint()
    inputs = np.random.default_rng(0).normal(scale=3.0, size=(40, sizes[0]))
    (outputs,) = session(path).run(["outputs"], {"inputs": inputs})
    assert outputs.dtype == np.float64
    np.testing.assert_allclose(outputs, network.forward(inputs), rtol=0, atol=1e-9)


def test_sequential_network_becomes_a_plain_chain(tmp_path: Path) -> None:
    write_onnx(random_network((3, 4, 4, 2), seed=0, dense=False), tmp_path / "a.onnx")
    operators = [entry.op_type for entry in onnx.load(tmp_path / "a.onnx").graph.node]
    assert operators == ["Gemm", "Relu", "Gemm", "Relu", "Gemm"]


def test_a_chain_has_what_other_readers_ask_for(tmp_path: Path) -> None:
    """Tried with benchmarks/onnx_readers.py: OMLT 1.2.2, gurobi-machinelearning 1.7.0, onnxruntime 1.31.1, onnx 1.23.2.

    OMLT: Gemm with three inputs and with alpha, beta and transB written out, weights and bias as initialisers, nodes
    with names, and an input whose only fixed size is its width. gurobi-machinelearning: alpha = beta = 1, weights as
    initialisers, every tensor read once. onnx: the full check.
    """
    write_onnx(random_network((3, 4, 4, 2), seed=0, dense=False), tmp_path / "a.onnx")
    model = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(model, full_check=True)
    weights = {tensor.name for tensor in model.graph.initializer}
    for entry in model.graph.node:
        if entry.op_type == "Gemm":
            attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in entry.attribute}
            assert attributes == {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
            assert len(entry.input) == 3
            assert {*entry.input[1:]} <= weights
    read = [name for entry in model.graph.node for name in entry.input]
    names = [entry.name for entry in model.graph.node]
    assert all(names)
    assert len({*read}) == len(read)
    assert len({*names, *read}) == len(names) + len(read)
    (shape,) = (entry.type.tensor_type.shape for entry in model.graph.input)
    assert [dim.dim_value for dim in shape.dim] == [0, 3]


def test_only_the_blocks_with_weights_are_read(tmp_path: Path) -> None:
    """The output reads the inputs and the second layer, not the first."""
    network = random_network((2, 3, 3, 1), seed=1, dense=True)
    network.output.weights[:, 2:5] = 0.0
    write_onnx(network, tmp_path / "a.onnx")
    concats = [entry for entry in onnx.load(tmp_path / "a.onnx").graph.node if entry.op_type == "Concat"]
    assert [list(entry.input) for entry in concats] == [["inputs", "hidden_1"], ["inputs", "hidden_2"]]
    assert_same_weights(read_onnx(tmp_path / "a.onnx"), network)


def test_layers_that_read_nothing_and_empty_layers(tmp_path: Path) -> None:
    """A constant hidden layer, a layer without units, a constant output."""
    hidden = (Layer(np.zeros((2, 3)), np.array([1.0, -1.0])), Layer(np.zeros((0, 5)), np.zeros(0)))
    network = ReluNetwork(3, hidden, Layer(np.zeros((1, 5)), np.array([4.0])))
    write_onnx(network, tmp_path / "a.onnx")
    inputs = np.ones((6, 3))
    (outputs,) = session(tmp_path / "a.onnx").run(None, {"inputs": inputs})
    assert np.array_equal(outputs, np.full((6, 1), 4.0))
    assert np.array_equal(read_onnx(tmp_path / "a.onnx").forward(inputs), outputs)


def test_same_network_gives_same_bytes_and_no_other_file(tmp_path: Path) -> None:
    network = random_network((3, 4, 2), seed=2, dense=True)
    for name in ("a.onnx", "b.onnx", "b.onnx"):
        write_onnx(network, tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx", "b.onnx"]


def test_failed_write_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    network = random_network((1, 1), seed=0, dense=False)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for target in ("folder", "missing/a.onnx", "file/a.onnx"):
        with pytest.raises(OutputError, match="cannot be written"):
            write_onnx(network, tmp_path / target)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


def test_network_without_inputs_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without inputs"):
        write_onnx(ReluNetwork(0, (), Layer(np.zeros((1, 0)), np.zeros(1))), tmp_path / "a.onnx")


# ---------------------------------------------------------------------------------------------- reading

INT64_MAX = np.iinfo(np.int64).max
STATISTICS = {"s": np.array([1.0, -2.0, 0.5, 3.0]), "o": B4, "m": -B4, "v": np.array([0.1, 1.0, 4.0, 0.0])}


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


GRAPHS = {
    "gemm": Graph([node("Gemm", "x w b")], {"w": A43, "b": B3}),
    "gemm alpha beta transB": Graph(
        [node("Gemm", "x w b", alpha=0.5, beta=-2.0, transB=1)], {"w": A34, "b": B3[np.newaxis]}
    ),
    "gemm without bias": Graph([node("Gemm", "x w")], {"w": A43}),
    "gemm scalar bias": Graph([node("Gemm", "x w b")], {"w": A43, "b": np.array(2.0)}),
    "gemm transA": Graph([node("Gemm", "w x", transA=1, transB=1)], {"w": A43}, {"x": (1, 4)}),
    "gemm adds an expression": Graph(
        [node("Relu", "x", "p"), node("Gemm", "x w p", beta=3.0)], {"w": RNG.normal(size=(4, 4))}
    ),
    "matmul": Graph([node("MatMul", "x w")], {"w": A43}),
    "matmul of a plain vector": Graph([node("MatMul", "x w")], {"w": A43}, {"x": (4,)}),
    "matmul from the left": Graph([node("MatMul", "w x")], {"w": A34}, {"x": (4,)}),
    "matmul of a column": Graph(
        [node("Transpose", "x", "t", perm=[1, 0]), node("MatMul", "w t")], {"w": A34}, {"x": (1, 4)}
    ),
    "matmul with a vector": Graph([node("MatMul", "x w")], {"w": B4}),
    "matmul of rank 4": Graph([node("MatMul", "x w")], {"w": A43}, {"x": (1, 1, 1, 4)}),
    "matmul with a stack": Graph([node("MatMul", "x w")], {"w": RNG.normal(size=(5, 2, 4, 3))}, {"x": (1, 2, 1, 4)}),
    "matmul of a stack from the left": Graph([node("MatMul", "w x")], {"w": A34}, {"x": (1, 2, 4, 2)}),
    "matmul of a stack and a vector": Graph([node("MatMul", "w x")], {"w": RNG.normal(size=(2, 3, 4))}, {"x": (4,)}),
    "add": Graph([node("Add", "x b")], {"b": B4}),
    "add scalar first": Graph([node("Add", "b x")], {"b": np.array(1.5)}),
    "add expression and constant of higher rank": Graph(
        [node("Add", "x b")], {"b": RNG.normal(size=(1, 1, 4))}, {"x": (4,)}
    ),
    "sub": Graph([node("Sub", "x b")], {"b": B4[np.newaxis]}),
    "sub from constant": Graph([node("Sub", "b x")], {"b": B4}),
    "mul": Graph([node("Mul", "x b")], {"b": B4}),
    "mul constant first": Graph([node("Mul", "b x")], {"b": np.array([2.0])}),
    "div": Graph([node("Div", "x b")], {"b": np.array(SIZES)}),
    "sum": Graph([node("Relu", "x", "p"), node("Sum", "x p b p")], {"b": B4}),
    "neg": Graph([node("Neg", "x", "n"), node("Relu", "n")]),
    "constants fold": Graph(
        [node("Relu", "b", "p"), node("Div", "p d", "q"), node("Add", "x q")], {"b": B4, "d": np.array(SIZES)}
    ),
    "residual add": Graph(
        [node("Gemm", "x w b", "h"), node("Relu", "h", "p"), node("Add", "x p", "r"), node("Relu", "r")],
        {"w": RNG.normal(size=(4, 4)), "b": B4},
    ),
    "residual sub, unit used twice": Graph([node("Relu", "x", "p"), node("Sub", "p x", "q"), node("Add", "p q")]),
    "scalers before and after": Graph(
        [
            node("Sub", "x mean", "c"),
            node("Div", "c std", "s"),
            node("Gemm", "s w b", "h"),
            node("Relu", "h", "p"),
            node("Mul", "p range", "u"),
            node("Add", "u low"),
        ],
        {"mean": B4, "std": np.array(SIZES), "w": A43, "b": B3, "range": np.array([10.0, 0.1, 3.0]), "low": B3},
    ),
    "concat": Graph([node("Relu", "x", "p"), node("Concat", "x p", axis=1)]),
    "concat with a constant": Graph([node("Concat", "x b", "c", axis=-1), node("Relu", "c")], {"b": B3}, {"x": (4,)}),
    "concat of several inputs": Graph(
        [node("Concat", "u x", "c", axis=1), node("Gemm", "c w")],
        {"w": RNG.normal(size=(6, 2))},
        {"x": ("batch", 4), "u": ("batch", 2)},
    ),
    "identity": Graph([node("Identity", "x")]),
    "flatten": Graph([node("Flatten", "x", "f"), node("Gemm", "f w")], {"w": A43}, {"x": ("batch", 2, 2)}),
    "flatten axis": Graph([node("Flatten", "x", axis=-1)], {}, {"x": (1, 2, 2)}),
    "reshape": Graph(
        [node("Reshape", "x s", "r"), node("Reshape", "r t")], {"s": ints(0, 2, -1), "t": ints(-1)}, {"x": (1, 4)}
    ),
    "reshape by computed shape": Graph(
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "b", axis=0),
            node("Unsqueeze", "b axes", "u"),
            node("Concat", "u rest", "t", axis=0),
            node("Reshape", "x t"),
        ],
        {"zero": np.array(0), "axes": ints(0), "rest": ints(-1)},
        {"x": ("batch", 2, 2)},
    ),
    "squeeze": Graph([node("Squeeze", "x a")], {"a": ints(-2)}, {"x": (1, 1, 4)}),
    "squeeze by attribute": Graph([node("Squeeze", "x", axes=[0])], {}, {"x": (1, 4)}, opset=11),
    "squeeze everything": Graph([node("Squeeze", "x")], {}, {"x": (1, 1, 4)}),
    "unsqueeze": Graph(
        [node("Unsqueeze", "x a", "u"), node("MatMul", "u w")], {"a": ints(0, -2), "w": A43}, {"x": (4,)}
    ),
    "unsqueeze by attribute": Graph([node("Unsqueeze", "x", axes=[-1])], {}, {"x": (4,)}, opset=11),
    "transpose": Graph([node("Transpose", "x")], {}, {"x": (1, 2, 2)}),
    "transposed weights": Graph([node("Transpose", "w", "t"), node("MatMul", "x t")], {"w": A34}),
    "constant tensor": Graph([node("Constant", "", "c", value=numpy_helper.from_array(A43)), node("MatMul", "x c")]),
    "constant numbers": Graph(
        [
            node("Constant", "", "f", value_floats=[0.5, 2.0, -3.0, 0.25]),
            node("Constant", "", "g", value_float=1.25),
            node("Add", "f g", "h"),
            node("Cast", "h", "d", to=TensorProto.DOUBLE),
            node("Mul", "x d"),
        ]
    ),
    "constant integers": Graph(
        [
            node("Constant", "", "i", value_ints=[3, 0]),
            node("Constant", "", "j", value_int=-2),
            node("Gather", "x i", "g", axis=1),
            node("Gather", "x j", "h", axis=-1),
            node("Unsqueeze", "h one", "u"),
            node("Concat", "g u", axis=1),
        ],
        {"one": ints(1)},
    ),
    "cast constants": Graph(
        [
            node("Cast", "b", "i", to=TensorProto.INT64),
            node("Cast", "i", "f", to=TensorProto.DOUBLE),
            node("Cast", "b", "h", to=TensorProto.FLOAT16),
            node("Cast", "h", "g", to=TensorProto.DOUBLE),
            node("Mul", "x f", "z"),
            node("Add", "z g"),
        ],
        {"b": np.array([-2.7, 1.1, 2.9, 0.3])},
    ),
    "half-precision weights": Graph(
        [node("Cast", "w", "d", to=TensorProto.DOUBLE), node("MatMul", "x d")], {"w": A43.astype(np.float16)}
    ),
    "dropout": Graph([node("Dropout", "x r t")], {"r": np.array(0.5, np.float32), "t": np.array(False)}),
    "dropout, old": Graph([node("Dropout", "x", ratio=0.5)], opset=11),
    "batch normalisation": Graph([node("BatchNormalization", "x s o m v", epsilon=0.01)], STATISTICS),
    "batch normalisation, old": Graph([node("BatchNormalization", "x s o m v")], STATISTICS, opset=9),
    "batch normalisation of channels": Graph(
        [node("BatchNormalization", "x s o m v", "n"), node("Flatten", "n")], STATISTICS, {"x": ("batch", 4, 3)}
    ),
    "slice": Graph([node("Slice", "x a b c d")], {"a": ints(-1), "b": ints(-INT64_MAX), "c": ints(1), "d": ints(-2)}),
    "slice from before the first entry": Graph(
        [node("Slice", "x a b c d")], {"a": ints(-9), "b": ints(-INT64_MAX), "c": ints(1), "d": ints(-1)}
    ),
    "slice of nothing": Graph(
        [node("Slice", "x a b c", "s"), node("Concat", "x s", axis=1)], {"a": ints(3), "b": ints(1), "c": ints(1)}
    ),
    "slice to the end": Graph([node("Slice", "x a b")], {"a": ints(0, 1), "b": ints(1, INT64_MAX)}, {"x": (1, 4)}),
    "slice by attribute": Graph([node("Slice", "x", starts=[1], ends=[3], axes=[1])], opset=9),
    "slice without axes": Graph([node("Slice", "x a b _ d")], {"a": ints(0), "b": ints(4), "d": ints(3)}, {"x": (4,)}),
    "gather": Graph([node("Gather", "x i", axis=1)], {"i": ints(3, -4, 0, 3)}),
    "split": Graph([node("Split", "x s", "a b", axis=1), node("Concat", "b a", axis=1)], {"s": ints(1, 3)}),
    "split with an empty part": Graph(
        [node("Split", "x s", "a b", axis=1), node("Relu", "a", "p"), node("Concat", "b p", axis=1)],
        {"s": ints(0, 4)},
    ),
    "split by attribute": Graph(
        [node("Split", "x", "a b", axis=-1, split=[3, 1]), node("Concat", "b a", axis=1)], opset=11
    ),
    "split into equal parts": Graph([node("Split", "x", "a b", axis=1), node("Sub", "a b")]),
    "split into uneven parts": Graph(
        [node("Split", "x", "a b", axis=1, num_outputs=2), node("Concat", "b a", axis=1)],
        {},
        {"x": ("batch", 5)},
        opset=18,
    ),
    "newest operator set": Graph(
        [node("Gemm", "x w b", "h"), node("Relu", "h", "p"), node("Concat", "x p", axis=1)],
        {"w": A43, "b": B3},
        opset=21,
    ),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_operator_agrees_with_onnxruntime(graph: Graph, tmp_path: Path) -> None:
    path = graph.save(tmp_path)
    network, runtime = read_onnx(path), session(path)
    for sample in graph.samples():
        (expected,) = runtime.run(None, sample)
        inputs = np.concatenate([value.ravel() for value in sample.values()])
        np.testing.assert_allclose(network.forward(inputs), expected.ravel(), rtol=0, atol=1e-9)


def test_every_supported_operator_is_tested() -> None:
    drawn = {name.partition(" ")[0] for name in CASES}
    tested = {entry.op_type for graph in GRAPHS.values() for entry in graph.nodes} | drawn
    assert {name.removeprefix("ai.onnx.ml.") for name in {*OPERATORS.names()} - {*REASONS}} <= tested


def test_an_operator_is_registered_from_outside(tmp_path: Path) -> None:
    """A piecewise-linear one of another domain: the triangle wave max(0, 1 - |x|)."""

    def triangle(call: Call) -> Affine:
        return call.builder.relu(Affine.constant(1.0) - call.builder.absolute(call[0]))

    path = Graph([node("Triangle", "x", domain="com.acme")], domains={"com.acme": 1}).save(tmp_path)
    with pytest.raises(InputError, match=r"uses the operator com\.acme\.Triangle, which is not supported"):
        read_onnx(path)
    OPERATORS.register("com.acme.Triangle", triangle)
    try:
        assert np.array_equal(read_onnx(path).forward([-2.0, -0.25, 0.0, 0.5]), [0.0, 0.75, 1.0, 0.5])
    finally:
        OPERATORS.remove("com.acme.Triangle")


def test_a_batch_is_read_as_one_sample_each(tmp_path: Path) -> None:
    path = GRAPHS["scalers before and after"].save(tmp_path)
    inputs = np.random.default_rng(3).normal(size=(9, 4))
    (expected,) = session(path).run(None, {"x": inputs})
    np.testing.assert_allclose(read_onnx(path).forward(inputs), expected, rtol=0, atol=1e-9)


def test_a_fixed_batch_is_read_as_one_sample_if_all_are_alike(tmp_path: Path) -> None:
    graph = GRAPHS["scalers before and after"]
    path = Graph(graph.nodes, graph.weights, {"x": (9, 4)}).save(tmp_path)
    inputs = np.random.default_rng(3).normal(size=(9, 4))
    (expected,) = session(path).run(None, {"x": inputs})
    np.testing.assert_allclose(read_onnx(path).forward(inputs), expected, rtol=0, atol=1e-9)


def test_a_fixed_batch_of_several_inputs_and_outputs(tmp_path: Path) -> None:
    nodes = [node("Concat", "u x", "c", axis=1), node("Relu", "c", "y"), node("MatMul", "y w", "z")]
    inputs = {"x": (5, 4), "u": (5, 2)}
    path = Graph(nodes, {"w": RNG.normal(size=(6, 3))}, inputs, outputs=("z", "y")).save(tmp_path)
    sample = {name: RNG.normal(size=shape) for name, shape in inputs.items()}
    expected = np.hstack(session(path).run(None, sample))
    found = read_onnx(path).forward(np.hstack(list(sample.values())))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "first",
    [
        node("MatMul", "x w"),
        node("Gemm", "x t", transB=1),
        node("Gemm", "x w", transB=0),
        node("Sub", "x b"),
        node("Scaler", "x", domain="ai.onnx.ml", offset=[1.0, 2.0, 3.0, 4.0], scale=[1.0]),
    ],
    ids=lambda entry: entry.op_type,
)
def test_an_open_width_is_that_of_the_first_weights(first: onnx.NodeProto, tmp_path: Path) -> None:
    """As skl2onnx writes it for an input of shape [None, None]."""
    graph = Graph([first], {"w": A43, "t": A34, "b": B4}, {"x": ("batch", "n")}, domains={"ai.onnx.ml": 3})
    assert read_onnx(graph.save(tmp_path)).input_count == 4


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT])
def test_weights_of_lower_precision_are_read_exactly(kind: int, tmp_path: Path) -> None:
    model = Graph([node("MatMul", "x w", "h"), node("Relu", "h")], dtype=kind).model()
    numbers = [0.5, -1.25, 3.0, 2.0**-10]
    model.graph.initializer.append(helper.make_tensor("w", kind, [4, 1], numbers))
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    assert np.array_equal(read_onnx(tmp_path / "a.onnx").hidden[0].weights, [numbers])


def test_several_outputs_follow_each_other(tmp_path: Path) -> None:
    path = Graph([node("Relu", "x", "z"), node("Neg", "x", "y")], outputs=("y", "z")).save(tmp_path)
    assert np.array_equal(read_onnx(path).forward([1.0, -2.0, 3.0, 0.0]), [-1, 2, -3, 0, 1, 0, 3, 0])


def test_a_repeated_node_makes_no_further_units(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "a"), node("Relu", "x", "b"), node("Neg", "b", "c"), node("Neg", "a", "d")]
    path = Graph([*nodes, node("Add", "c d")]).save(tmp_path)
    network = read_onnx(path)
    assert network.relu_count == 4
    assert np.array_equal(network.forward([1.0, -2.0, 3.0, 0.0]), [-2, 0, -6, 0])


def test_each_relu_is_one_layer_however_often_it_is_used(tmp_path: Path) -> None:
    network = read_onnx(GRAPHS["residual sub, unit used twice"].save(tmp_path))
    assert [layer.unit_count for layer in network.hidden] == [4]
    assert np.array_equal(network.output.weights, np.hstack([-np.eye(4), 2 * np.eye(4)]))  # y = 2 p - x


def test_relu_of_a_constant_is_no_layer(tmp_path: Path) -> None:
    assert read_onnx(GRAPHS["constants fold"].save(tmp_path)).hidden == ()


def test_residual_weights_are_the_sum_of_both_paths(tmp_path: Path) -> None:
    """max(0, x + p): the second layer reads the inputs and the first layer with weight one."""
    network = read_onnx(GRAPHS["residual add"].save(tmp_path))
    assert np.array_equal(network.hidden[1].weights, np.hstack([np.eye(4), np.eye(4)]))


def test_single_precision_weights_are_read_exactly(tmp_path: Path) -> None:
    w, b = A43.astype(np.float32), B3.astype(np.float32)
    graph = Graph([node("Gemm", "x w b", "h"), node("Relu", "h")], {"w": w, "b": b}, dtype=TensorProto.FLOAT)
    path = graph.save(tmp_path)
    network = read_onnx(path)
    assert np.array_equal(network.hidden[0].weights, w.T.astype(np.float64))
    assert np.array_equal(network.hidden[0].bias, b.astype(np.float64))
    inputs = np.random.default_rng(5).normal(size=(9, 4)).astype(np.float32)
    (expected,) = session(path).run(None, {"x": inputs})
    np.testing.assert_allclose(network.forward(inputs), expected, rtol=0, atol=1e-5)


def test_weights_listed_as_inputs_are_not_inputs(tmp_path: Path) -> None:
    graph = GRAPHS["gemm"]
    old = Graph(graph.nodes, graph.weights, {"w": (4, 3), "x": (1, 4), "b": (3,)}, opset=8)
    assert_same_weights(read_onnx(old.save(tmp_path)), read_onnx(graph.save(tmp_path)))


def test_negative_zeros_are_read_as_zeros(tmp_path: Path) -> None:
    """So that the fingerprint of a network does not depend on how a zero came about."""
    network = ReluNetwork.sequential([-np.eye(3), [[1.0, -0.0, 2.0]]], [[-0.0, 1.0, 2.0], [0.0]])
    write_onnx(network, tmp_path / "a.onnx")
    loaded = read_onnx(tmp_path / "a.onnx")
    assert_same_weights(loaded, network)
    for layer in (*loaded.hidden, loaded.output):
        assert not np.signbit(layer.weights[layer.weights == 0.0]).any()
        assert not np.signbit(layer.bias[layer.bias == 0.0]).any()


def test_external_weights_are_found_next_to_the_file(tmp_path: Path) -> None:
    graph = GRAPHS["gemm"]
    path = tmp_path / "external.onnx"
    onnx.save(graph.model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert_same_weights(read_onnx(path), read_onnx(graph.save(tmp_path)))
    content = (tmp_path / "weights.bin").read_bytes()
    for damaged in (content[:10], None):
        (tmp_path / "weights.bin").unlink()
        if damaged is not None:
            (tmp_path / "weights.bin").write_bytes(damaged)
        with pytest.raises(InputError, match=r"external\.onnx: .*weights are kept in another file"):
            read_onnx(path)


# ----------------------------------------------------------------------------------------------- errors

NAN = np.array([1.0, np.nan, 1.0, 1.0])
RELU = [node("Relu", "x")]

BAD_GRAPHS = {
    "operator": (
        Graph([node("LSTMCell", "x")]),
        r"node 'LSTMCell_to_y' uses the operator LSTMCell, .* docs/networks\.md",
    ),
    "foreign domain": (Graph([node("Relu", "x", domain="com.acme")]), r"operator com\.acme\.Relu"),
    "nan": (Graph([node("Add", "x b")], {"b": NAN}), "weights 'b' .* NaN"),
    "infinite": (Graph([node("Add", "x b")], {"b": np.array(np.inf)}), r"\(Add\) .* NaN or infinite"),
    "nan in a node": (
        Graph([node("Constant", "", "c", value=numpy_helper.from_array(NAN)), node("Add", "x c")]),
        r"node 'Constant_to_c' \(Constant\) .* NaN",
    ),
    "division by zero": (
        Graph([node("Div", "x b")], {"b": np.array([1.0, 0.0, 1.0, 1.0])}),
        r"node 'Div_to_y' \(Div\) .* NaN or infinite",
    ),
    "overflow": (
        Graph([node("Mul", "x b", "z"), node("Mul", "z b")], {"b": np.array(1e200)}),
        r"\(Mul\) .* NaN or infinite",
    ),
    "negative variance": (
        Graph([node("BatchNormalization", "x s o m v")], {**STATISTICS, "v": -np.ones(4)}),
        r"\(BatchNormalization\) .* NaN or infinite",
    ),
    "choice that jumps": (
        Graph([node("Less", "x b", "c"), node("Where", "c x z")], {"b": np.ones(4), "z": np.zeros(4)}),
        r"\(Where\) .* jumps where the condition changes",
    ),
    "condition as a number": (
        Graph([node("Less", "x b", "c"), node("Cast", "c", to=TensorProto.DOUBLE)], {"b": np.ones(4)}),
        r"\(Cast\) .* condition on the inputs, which jumps; .*distil",
    ),
    "product": (Graph([node("Mul", "x x")]), r"\(Mul\) .* multiplies two tensors"),
    "matrix product": (
        Graph([node("Transpose", "x", "t"), node("MatMul", "x t")]),
        r"\(MatMul\) .* multiplies two tensors",
    ),
    "gemm of two expressions": (Graph([node("Gemm", "x x", transB=1)]), r"\(Gemm\) .* multiplies two tensors"),
    "division by an expression": (Graph([node("Div", "b x")], {"b": B4}), r"\(Div\) .* divides by"),
    "scale is no constant": (
        Graph([node("BatchNormalization", "x x o m v")], STATISTICS),
        r"\(BatchNormalization\) .* must be constant",
    ),
    "gather by an expression": (
        Graph([node("Gather", "x i")], {"i": B4}),
        r"\(Gather\) .* must be integers",
    ),
    "gather outside": (Graph([node("Gather", "x i", axis=1)], {"i": ints(9)}), r"\(Gather\) .* there is no index 9"),
    "shapes of add": (
        Graph([node("Add", "x b")], {"b": B3}),
        r"\(Add\) .* broadcast together \(inputs of shape \(1, 4\), \(3,\)\)",
    ),
    "shapes of matmul": (Graph([node("MatMul", "x w")], {"w": A34}), r"\(MatMul\) .* do not fit"),
    "stacks of matmul": (
        Graph([node("MatMul", "x w")], {"w": RNG.normal(size=(3, 4, 2))}, {"x": (1, 2, 1, 4)}),
        r"\(MatMul\) .* do not fit",
    ),
    "rank of gemm": (Graph([node("Gemm", "x w")], {"w": A43}, {"x": (4,)}), r"\(Gemm\) .* rank 2"),
    "bias of gemm": (
        Graph([node("Gemm", "x w b")], {"w": A43, "b": np.ones((2, 3))}),
        r"\(Gemm\) .* \(2, 3\) cannot be broadcast to \(1, 3\)",
    ),
    "rank of batch normalisation": (
        Graph([node("BatchNormalization", "x s o m v")], STATISTICS, {"x": (4,)}),
        r"\(BatchNormalization\) .* one number per channel",
    ),
    "axis of concat": (Graph([node("Concat", "x x", axis=2)]), r"\(Concat\) .* axis 2 does not exist"),
    "shapes of concat": (
        Graph([node("Concat", "x b", axis=1)], {"b": B4}),
        r"\(Concat\) .* do not fit a concatenation along axis 1",
    ),
    "lengths of slice": (
        Graph([node("Slice", "x a b")], {"a": ints(0), "b": ints(1, 2)}),
        r"\(Slice\) .* same length",
    ),
    "axis of unsqueeze": (Graph([node("Unsqueeze", "x a")], {"a": ints(5)}), r"\(Unsqueeze\) .* does not exist"),
    "squeeze of a wide axis": (Graph([node("Squeeze", "x a")], {"a": ints(1)}), r"\(Squeeze\) .* not equal to one"),
    "size of reshape": (
        Graph([node("Reshape", "x s")], {"s": ints(3, -1)}),
        r"\(Reshape\) .* \(1, 4\) cannot take the shape \(3, -1\)",
    ),
    "reshape by floats": (Graph([node("Reshape", "x s")], {"s": B3}), r"\(Reshape\) .* must hold integers"),
    "sizes of split": (
        Graph([node("Split", "x s", "a y", axis=1)], {"s": ints(1, 2)}),
        r"\(Split\) .* cannot be split",
    ),
    "integer division": (
        Graph([node("Div", "i i", "j"), node("Cast", "j", "d", to=11), node("Add", "x d")], {"i": ints(0)}),
        r"\(Div\) .* integers by zero",
    ),
    "cast to integers": (Graph([node("Cast", "x", to=TensorProto.INT64)]), r"\(Cast\) .* INT64"),
    "constant text": (
        Graph([node("Constant", "", "c", value_string="hello"), *RELU]),
        r"\(Constant\) .* value_string",
    ),
    "type of weights": (Graph(RELU, {"b": np.ones(4, complex)}, outputs=("b",)), "weights 'b' .* COMPLEX128"),
    "training dropout": (
        Graph([node("Dropout", "x _ t")], {"t": np.array(True)}),
        r"\(Dropout\) .* evaluation mode",
    ),
    "mask of dropout": (Graph([node("Dropout", "x", "z y")]), "tensor 'y'"),
    "training batch normalisation": (
        Graph([node("BatchNormalization", "x s o m v", training_mode=1)], STATISTICS),
        r"\(BatchNormalization\) .* training mode",
    ),
    "outputs of batch normalisation": (
        Graph([node("BatchNormalization", "x s o m v", "y a b")], STATISTICS),
        r"\(BatchNormalization\) .* several outputs",
    ),
    "no input": (Graph([node("Relu", "b")], {"b": B4}, {}), "no input"),
    "no output": (Graph(RELU, outputs=()), "has no output"),
    "output from nowhere": (Graph(RELU, outputs=("z",)), "z"),
    "input from nowhere": (Graph([node("Add", "x b")]), "not valid: .*'b'"),
    "missing operand": (Graph([node("Gemm", "x")], {}), "not valid: .*Gemm"),
    "unknown attribute": (Graph([node("Relu", "x", colour=3)]), "not valid: .*colour"),
    "unknown size": (Graph(RELU, inputs={"x": ("batch", "n")}), "input 'x' must have a fixed number"),
    "unknown length": (Graph(RELU, inputs={"x": ("n",)}), "input 'x' must have a fixed number"),
    "no shape": (Graph(RELU, inputs={"x": None}), "input 'x' must have a fixed number"),
    "fixed batch, in a shape": (
        Graph([node("Reshape", "x s", "f"), node("Relu", "f")], {"s": ints(32, 4)}, {"x": (32, 2, 2)}),
        r"fixed batch of 32 samples \(shape \(32, 2, 2\)\).* a batch of 1 or of any size",
    ),
    "fixed batch, mixed": (
        Graph([node("ReduceMean", "x", "m", axes=[0]), node("Sub", "x m")], {}, {"x": (32, 4)}),
        r"samples are not treated alike.* a batch of 1 or of any size",
    ),
    "fixed batch, exchanged": (
        Graph([node("Transpose", "x", "t"), node("Reshape", "t s")], {"s": ints(-1, 2)}, {"x": (32, 2)}),
        "samples are not treated alike",
    ),
    "integer input": (Graph(RELU, dtype=TensorProto.INT32), "input 'x' must hold floating-point numbers, not INT32"),
    "old operator set": (Graph(RELU, opset=5), "operator set 5"),
    "future operator set": (Graph(RELU, opset=999), "operator set 999"),
}


@pytest.mark.parametrize(("graph", "message"), BAD_GRAPHS.values(), ids=BAD_GRAPHS.keys())
def test_error_names_file_and_cause_in_one_paragraph(graph: Graph, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_onnx(graph.save(tmp_path))
    text = str(caught.value)
    assert caught.value.exit_code == 4
    assert text.startswith(str(tmp_path / "graph.onnx"))
    assert "\n" not in text


def test_node_without_a_name_is_counted(tmp_path: Path) -> None:
    unnamed = helper.make_node("Tanh", ["z"], ["y"])
    with pytest.raises(InputError, match=r"node 2 \(Tanh\) .* reluplan distil PROBLEM --teacher FILE"):
        read_onnx(Graph([node("Relu", "x", "z"), unnamed]).save(tmp_path))


def test_sparse_weights_are_refused(tmp_path: Path) -> None:
    model = Graph(RELU).model()
    values, indices = numpy_helper.from_array(np.ones(1), "s"), numpy_helper.from_array(ints(0), "i")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="sparse weights"):
        read_onnx(tmp_path / "a.onnx")


def sparse_file(path: Path, size: int) -> None:
    """A file of that size that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(size)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    sparse_file(tmp_path / "a.onnx", 600 * 10**6)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"the network has 600 MB; at most 500 MB are read"):
        read_onnx(tmp_path / "a.onnx")
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


@pytest.mark.parametrize("length", ["600000000", "", "300000000"])
def test_external_weights_that_are_too_large_are_not_read(length: str, tmp_path: Path) -> None:
    """Also where two tensors share a file, and where the length is left out."""
    tensors = []
    for name in ("w", "v"):
        tensor = onnx.TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4, 3], data_location="EXTERNAL")
        details = {"location": "weights.bin", **({"length": length} if length else {})}
        for key, value in details.items():
            tensor.external_data.add(key=key, value=value)
        tensors.append(tensor)
    model = Graph([node("Gemm", "x w")]).model()
    model.graph.initializer.extend(tensors)
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    sparse_file(tmp_path / "weights.bin", 600 * 10**6)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"at most 500 MB are read"):
        read_onnx(tmp_path / "a.onnx")
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.onnx")
    with pytest.raises(InputError, match="not a regular file"):
        read_onnx(tmp_path / "a.onnx")


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.onnx: .* No such file"):
        read_onnx(tmp_path / "absent.onnx")
    with pytest.raises(InputError, match="cannot be read"):
        read_onnx(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a network", b"\x00" * 20, b"PK\x03\x04", b'{"a": 1}'])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(content)
    with pytest.raises(InputError, match="not an ONNX file"):
        read_onnx(tmp_path / "a.onnx")


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    write_onnx(random_network((3, 4, 2), seed=0, dense=False), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError):
            read_onnx(path)
