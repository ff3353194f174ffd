"""Whole networks in the manner of exporters: of PyTorch by TorchScript, and by hand of MATLAB and of dynamo."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from onnx_cases import node
from reluplan.errors import InputError
from reluplan.network.onnx import read_onnx

RNG = np.random.default_rng(3)


class Applied(nn.Module):
    """A function between two linear layers."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.function = function
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.function(self.first(x)))
        return result


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "LeakyReLU": nn.LeakyReLU(0.1),
    "PReLU": nn.PReLU(6),
    "Hardtanh": nn.Hardtanh(-0.5, 0.7),
    "ReLU6": nn.ReLU6(),
    "Hardsigmoid": nn.Hardsigmoid(),
    "BatchNorm1d": nn.BatchNorm1d(6),
    "clamp": lambda h: h.clamp(min=-0.5),
    "maximum": lambda h: torch.maximum(h, 0.5 - h),
    "abs": torch.abs,
    "choice": lambda h: torch.where(h > 0.0, h, 0.1 * h),
    "view and amax": lambda h: h.view(h.shape[0], 3, 2).amax(dim=2).repeat(1, 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch_script(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Applied(FUNCTIONS[name]).double().eval()
    path = tmp_path / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = torch.zeros(1, 4, dtype=torch.float64)
        torch.onnx.export(module, (example,), str(path), input_names=["x"], dynamic_axes={"x": {0: "n"}}, dynamo=False)
    inputs = torch.randn(30, 4, dtype=torch.float64)
    expected = module(inputs).detach().numpy()
    np.testing.assert_allclose(read_onnx(path).forward(inputs.numpy()), expected, rtol=1e-6, atol=1e-7)


def saved(path: Path, model: onnx.ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def weights(**arrays: NDArray[np.float64]) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(value.astype(np.float32), name) for name, value in arrays.items()]


def test_matlab(tmp_path: Path) -> None:
    """Operator set 6: centred inputs (channels of one pixel), dense layers as Conv of 1x1, a batch of one."""
    mean, v, w = RNG.normal(size=(1, 3, 1, 1)), RNG.normal(size=(5, 3, 1, 1)), RNG.normal(size=(2, 5, 1, 1))
    b, c = RNG.normal(size=5), RNG.normal(size=2)
    nodes = [
        node("Sub", "x mean", "centred"),
        node("Conv", "centred v b", "first", kernel_shape=[1, 1], strides=[1, 1], pads=[0, 0, 0, 0], group=1),
        node("LeakyRelu", "first", "leaky", alpha=0.25),
        node("Conv", "leaky w c", "second", kernel_shape=[1, 1], dilations=[1, 1]),
        node("Clip", "second", "y", min=-1.0, max=1.0),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 1, 1]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 1, 1]),
    ]
    graph = helper.make_graph(nodes, "matlab", ends[:1], ends[1:], weights(mean=mean, v=v, b=b, w=w, c=c))
    path = saved(
        tmp_path / "m.onnx", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3)
    )
    x = RNG.normal(size=(20, 3))
    h = (x - mean.ravel()) @ v[:, :, 0, 0].T + b
    expected = np.clip(np.where(h > 0, h, 0.25 * h) @ w[:, :, 0, 0].T + c, -1.0, 1.0)
    np.testing.assert_allclose(read_onnx(path).forward(x), expected, rtol=1e-5, atol=1e-5)


def test_matlab_with_a_kernel_of_the_whole_image(tmp_path: Path) -> None:
    """A dense layer as Conv whose kernel is as large as the image, behind a convolution with same padding."""
    v, w = RNG.normal(size=(2, 1, 3, 3)), RNG.normal(size=(4, 2, 4, 5))
    nodes = [
        node("Conv", "x v", "first", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "first", "p"),
        node("Conv", "p w", "full", kernel_shape=[4, 5]),
        node("Flatten", "full", "y"),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, 4, 5]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4]),
    ]
    graph = helper.make_graph(nodes, "matlab", ends[:1], ends[1:], weights(v=v, w=w))
    path = saved(
        tmp_path / "m.onnx", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3)
    )
    network = read_onnx(path)
    assert np.count_nonzero(network.hidden[0].weights, axis=1).max() <= 9  # a convolution stays sparse
    x = RNG.normal(size=(10, 1, 4, 5))
    first = torch.conv2d(torch.tensor(x), torch.tensor(v), padding=1).relu()
    expected = torch.conv2d(first, torch.tensor(w)).flatten(1).numpy()
    np.testing.assert_allclose(network.forward(x.reshape(10, -1)), expected, rtol=1e-5, atol=1e-5)


def function_model(depth: int, calls: int) -> onnx.ModelProto:
    """x + 1 - 1 ... by functions, each of which calls the next one several times."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    functions = []
    for level in range(depth):
        names = ["x", *(f"h{i}" for i in range(calls - 1)), "y"]
        operator, domain = (f"f{level + 1}", "local") if level + 1 < depth else ("Relu", "")
        nodes = [helper.make_node(operator, [a], [b], domain=domain) for a, b in pairwise(names)]
        functions.append(helper.make_function("local", f"f{level}", ["x"], ["y"], nodes, opsets))
    ends = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["batch", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("f0", ["x"], ["y"], domain="local")], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)


def test_local_functions_are_written_out(tmp_path: Path) -> None:
    network = read_onnx(saved(tmp_path / "f.onnx", function_model(depth=2, calls=2)))
    assert np.array_equal(network.forward([-1.0, 0.0, 2.0]), [0.0, 0.0, 2.0])
    assert len(network.hidden) == 4


def test_functions_that_grow_without_bound_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"it has 1,099,511,627,776 nodes"):
        read_onnx(saved(tmp_path / "f.onnx", function_model(depth=40, calls=2)))


def test_functions_that_call_themselves_are_refused(tmp_path: Path) -> None:
    model = function_model(depth=2, calls=1)
    model.functions[1].node[0].op_type = "f0"
    model.functions[1].node[0].domain = "local"
    with pytest.raises(InputError):
        read_onnx(saved(tmp_path / "f.onnx", model))
