"""What exporters take apart into operators that jump is read as what it was; what only looks like it is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from reluplan.errors import InputError
from reluplan.network.relu_network import ReluNetwork


def shrinkage(path: Path, bound: float = 0.3, sign_of: str = "x", inner: float = 0.0, scale: str = "l") -> Path:
    """Where(|x| > l, x - Sign(x) l, 0 x) behind a layer, as torch's dynamo exporter writes Softshrink."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(3, 4)), "l": np.array(bound), "other": np.array(0.5 * bound), "zero": np.array(inner),
    }  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["input", "w"], ["x"]),
        helper.make_node("Abs", ["x"], ["size"]),
        helper.make_node("Neg", ["x"], ["negative"]),
        helper.make_node("Greater", ["size", "l"], ["outside"]),
        helper.make_node("Sign", [sign_of], ["sign"]),
        helper.make_node("Mul", ["sign", scale], ["shift"]),
        helper.make_node("Sub", ["x", "shift"], ["shifted"]),
        helper.make_node("Mul", ["x", "zero"], ["none"]),
        helper.make_node("Where", ["outside", "shifted", "none"], ["output"]),
    ]
    graph = helper.make_graph(
        nodes,
        "shrinkage",
        [helper.make_tensor_value_info("input", TensorProto.DOUBLE, [1, 3])],
        [helper.make_tensor_value_info("output", TensorProto.DOUBLE, [1, 4])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


@pytest.mark.parametrize("bound", [0.3, 0.0, 2.5])
def test_soft_shrinkage_taken_apart_is_read(bound: float, tmp_path: Path) -> None:
    path = shrinkage(tmp_path / "soft.onnx", bound)
    network = ReluNetwork.load(path)
    assert network.relu_count == (8 if bound else 0)
    session = onnxruntime.InferenceSession(str(path))
    for x in np.random.default_rng(1).normal(scale=2.0, size=(50, 1, 3)):
        np.testing.assert_allclose(network.forward(x), session.run(None, {"input": x})[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "changed",
    [{"bound": -0.3}, {"sign_of": "negative"}, {"inner": 1.0}, {"scale": "other"}],
    ids=["negative bound", "the other sign", "not zero inside", "another shift"],
)
def test_what_jumps_is_refused(changed: dict[str, float], tmp_path: Path) -> None:
    path = shrinkage(tmp_path / "jumps.onnx", **changed)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Sign"):
        ReluNetwork.load(path)
