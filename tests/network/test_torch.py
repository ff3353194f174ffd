"""PyTorch modules: the converted network against the module itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reluplan.errors import InputError, MissingExtraError
from reluplan.network.onnx import read_onnx
from reluplan.network.relu_network import Array, ReluNetwork
from reluplan.network.torch import from_torch

torch = pytest.importorskip("torch", reason="PyTorch is an optional package")
nn = torch.nn


def inputs(*shape: int) -> Array:
    return np.random.default_rng(0).normal(scale=2.0, size=shape)


def module_outputs(module: Any, values: Array) -> Array:
    """What the module computes in evaluation mode, in double precision."""
    with torch.no_grad():
        outputs: Array = module.double().eval()(torch.from_numpy(values)).numpy()
    return outputs


def batch_norm(size: int, **options: Any) -> Any:
    """A BatchNorm1d that has seen data, with weights away from their defaults."""
    module = nn.BatchNorm1d(size, **options).double()
    for _ in range(5):
        module(3.0 + 2.0 * torch.randn(20, size, dtype=torch.float64))
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


def shared() -> Any:
    """One Linear used twice, which is two layers with the same weights."""
    linear = nn.Linear(4, 4)
    return nn.Sequential(linear, nn.ReLU(), linear)


def doubled(self: Any, values: Any) -> Any:
    return 2.0 * nn.Linear.forward(self, values)


def patched() -> Any:
    module = nn.Linear(2, 2)
    module.forward = lambda values: values
    return module


MODULES: dict[str, Callable[[], Any]] = {
    "linear": lambda: nn.Linear(4, 2),
    "one hidden layer": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)),
    "no bias": lambda: nn.Sequential(nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 2, bias=False)),
    "nested": lambda: nn.Sequential(
        nn.Sequential(nn.Linear(4, 5), nn.ReLU()), nn.Sequential(nn.Sequential(nn.Linear(5, 5)), nn.ReLU())
    ),
    "two linears in a row": lambda: nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2)),
    "relu first": lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 2)),
    "identity, dropout, flatten": lambda: nn.Sequential(
        nn.Identity(), nn.Linear(4, 5), nn.Dropout(0.9), nn.ReLU(), nn.Flatten(), nn.Linear(5, 2)
    ),
    "batch norm after linear": lambda: nn.Sequential(nn.Linear(4, 5), batch_norm(5), nn.ReLU(), nn.Linear(5, 2)),
    "batch norm first": lambda: nn.Sequential(batch_norm(4, eps=0.1), nn.Linear(4, 5), nn.ReLU()),
    "batch norm without weights": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), batch_norm(5, affine=False)),
    "shared": shared,
    "own forward": lambda: type("Doubled", (nn.Linear,), {"forward": doubled})(4, 2),
    "forward of its own instance": lambda: nn.Sequential(patched(), nn.Linear(4, 2)),
    "flatten of a batch of one": lambda: nn.Sequential(nn.Flatten(0), nn.Linear(4, 1)),
    "parametrised": lambda: nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), nn.ReLU(), nn.Linear(5, 2)
    ),
}


@pytest.mark.parametrize("build", MODULES.values(), ids=MODULES.keys())
def test_network_computes_what_the_module_computes(build: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    module = build().double()
    values = inputs(30, 4)
    network = from_torch(module)
    expected = np.stack([module_outputs(module, value[None]).ravel() for value in values])
    np.testing.assert_allclose(network.forward(values), expected, rtol=0, atol=1e-12)


def test_flatten_in_front_takes_samples_of_any_shape() -> None:
    torch.manual_seed(1)
    module = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
    values = inputs(10, 2, 3)
    expected = module_outputs(module, values)
    np.testing.assert_allclose(from_torch(module).forward(values.reshape(10, 6)), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_weights_are_converted_exactly(dtype: str) -> None:
    torch.manual_seed(2)
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).to(getattr(torch, dtype))
    network = from_torch(module)
    assert np.array_equal(network.hidden[0].weights, module[0].weight.detach().double().numpy())
    assert np.array_equal(network.output.weights[:, 3:], module[2].weight.detach().double().numpy())
    assert not network.output.weights[:, :3].any()


def test_conversion_leaves_the_module_as_it_was() -> None:
    """Also in double precision, where torch would share its memory with numpy."""
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Dropout()).double().train()
    network = from_torch(module)
    network.hidden[0].weights[:] = 7.0
    assert module.training
    assert not (module[0].weight == 7.0).any()


def hooked() -> Any:
    module = nn.Linear(2, 2)
    module.register_forward_hook(lambda *_: None)
    return module


def negative_variance() -> Any:
    module = nn.BatchNorm1d(2)
    module.running_var.fill_(-1.0)
    return module


def with_nan() -> Any:
    module = nn.Linear(2, 2)
    nn.init.constant_(module.weight, float("nan"))
    return module


BAD_MODULES: dict[str, tuple[Callable[[], Any], str]] = {
    "sigmoid": (
        lambda: nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Sigmoid())),
        r"module\[1\]\[1\] \(Sigmoid\) .* not piecewise linear; .* reluplan distil",
    ),
    "convolution of unknown size": (lambda: nn.Conv1d(1, 1, 1), "input_shape"),
    "no module": (lambda: "network", "is a str"),
    "negative variance": (negative_variance, r"module \(BatchNorm1d\) .* NaN or infinite"),
    "hook": (lambda: nn.Sequential(hooked()), r"module\[0\] \(Linear\) .* has forward hooks"),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(2)), r"module\[0\] \(LazyLinear\) .* is lazy"),
    "sizes": (
        lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 1)),
        r"module\[1\] \(Linear\) .* fails for inputs of shape \(1, 2\)",
    ),
    "sizes of batch norm": (
        lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(4)),
        r"module\[1\] \(BatchNorm1d\) .* fails for inputs of shape \(1, 2\)",
    ),
    "no statistics": (
        lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, track_running_stats=False)),
        r"module\[1\] \(BatchNorm1d\) .* running statistics",
    ),
    "nan": (lambda: nn.Sequential(with_nan()), r"module\[0\] \(Linear\) .* NaN or infinite"),
    "complex": (lambda: nn.Linear(2, 2, dtype=torch.complex64), r"module \(Linear\) .*complex64"),
    "no memory": (lambda: nn.Linear(2, 2, device="meta"), r"module \(Linear\) .* meta"),
    "no size": (lambda: nn.Sequential(nn.ReLU()), "no Linear"),
    "TorchScript": (lambda: torch.jit.script(nn.Linear(2, 2)), "TorchScript"),
}


@pytest.mark.parametrize(("build", "message"), BAD_MODULES.values(), ids=BAD_MODULES.keys())
def test_error_names_the_module(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        from_torch(build())
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)


def residual_forward(self: Any, values: Any) -> Any:
    """Shape arithmetic, a residual sum, a concatenation and scaling, as users write them."""
    flat = (values.view(values.size(0), -1) - 0.5) / 3.0
    hidden = torch.relu(self.normalise(self.first(flat)))
    hidden = torch.relu(hidden + flat)
    return self.second(torch.cat([self.dropout(hidden), flat[:, 1:3]], dim=1)) * 10.0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_exported_module_reads_back_the_same(tmp_path: Path) -> None:
    torch.manual_seed(3)
    module = type("Residual", (nn.Module,), {"forward": residual_forward})()
    module.first, module.normalise, module.dropout = nn.Linear(6, 6), batch_norm(6), nn.Dropout()
    module.second = nn.Linear(8, 2)
    module.double().eval()
    values = inputs(15, 2, 3)
    example = (torch.from_numpy(values[:1]),)
    path = tmp_path / "exported.onnx"
    options = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    torch.onnx.export(module, example, str(path), dynamo=False, **options)  # the new exporter needs onnxscript
    network = read_onnx(path)
    assert [layer.unit_count for layer in network.hidden] == [6, 6]
    expected = module_outputs(module, values)
    np.testing.assert_allclose(network.forward(values.reshape(15, 6)), expected, rtol=0, atol=1e-9)


def test_without_torch_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = nn.Linear(1, 1)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'reluplan\[torch\]'"):
        from_torch(module)


def test_networks_and_onnx_files_do_not_import_torch(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    ReluNetwork.sequential([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]]).save(path)
    script = (
        "import sys, reluplan.network.relu_network, reluplan.network.torch\n"
        "network = reluplan.network.relu_network.ReluNetwork.load(sys.argv[1])\n"
        "assert network.forward([-3.0]) == 3.0\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == 0
