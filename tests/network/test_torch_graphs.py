"""PyTorch modules with a forward of their own: what their graphs may hold, against the modules themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reluplan
from reluplan.errors import InputError
from reluplan.network.affine import Affine
from reluplan.network.relu_network import ReluNetwork
from reluplan.network.torch import ATEN_OPERATORS, from_torch

torch = pytest.importorskip("torch", reason="PyTorch is an optional package")
nn = torch.nn
F = torch.nn.functional


class Forward(nn.Module):  # type: ignore[misc, name-defined]
    """A module whose forward is the function, called with the module itself and its inputs."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def disturbed(module: Any) -> Any:
    """The module with running statistics away from their defaults."""
    generator = torch.Generator().manual_seed(0)
    for name, buffer in module.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
    return module.eval()


def largest_error(module: Any, network: ReluNetwork, shapes: list[tuple[int, ...]], scale: float = 2.0) -> float:
    """Over random samples, relative to the largest output; the module computes in double precision."""
    rng = np.random.default_rng(0)
    worst = 0.0
    module = getattr(module, "_orig_mod", module)  # not compiled: that takes long
    for sample in scale * rng.normal(size=(8, network.input_count)):
        parts = np.split(sample, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        tensors = [torch.tensor(part.reshape(1, *shape)) for part, shape in zip(parts, shapes, strict=True)]
        with torch.no_grad():
            outputs = torch.utils._pytree.tree_leaves(module.double()(*tensors))
        expected = np.concatenate([output.numpy().ravel() for output in outputs if output is not None])
        difference = np.abs(network.forward(sample) - expected).max()
        worst = max(worst, float(difference / (1.0 + np.abs(expected).max())))
    return worst


def on_linear(function: Callable[[Any], Any], outputs: int = 6) -> Callable[[], Any]:
    """A function of what a Linear gives."""
    return lambda: Forward(lambda self, x: function(self.linear(x)), linear=nn.Linear(4, outputs))


def activated(activation: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: nn.Sequential(nn.Linear(4, 6), activation(), nn.Linear(6, 2))


def filled(values: Any) -> Any:
    """Writes into views of a tensor."""
    result = torch.zeros(values.shape[0], 4, dtype=values.dtype)
    result[:, :2] = values[:, :2]
    result[:, 2] += values[:, 2].abs()
    return result


def aliased(values: Any) -> Any:
    """Writes into a tensor by other names of its memory."""
    column = values[:, 0]
    column += 1
    values.T[1].mul_(2)
    return values


def one_sample(values: Any) -> Any:
    assert len(values) == 1
    return values.relu()


def loop(self: Any, x: Any) -> Any:
    for layer in self.layers:
        x = torch.relu(layer(x)) + x
    return x


def without_gradient(self: Any, x: Any) -> Any:
    with torch.no_grad():
        return self.linear(x).relu()


MODULES: dict[str, Callable[[], Any]] = {
    # activations
    "LeakyReLU": activated(partial(nn.LeakyReLU, 0.2)),
    "LeakyReLU in place": activated(partial(nn.LeakyReLU, 0.2, inplace=True)),
    "PReLU": activated(nn.PReLU),
    "PReLU per unit": activated(partial(nn.PReLU, 6)),
    "RReLU": activated(nn.RReLU),
    "Hardtanh": activated(partial(nn.Hardtanh, -2.0, 1.5)),
    "ReLU6": activated(nn.ReLU6),
    "Hardsigmoid": activated(nn.Hardsigmoid),
    "Softshrink": activated(nn.Softshrink),
    "continuous Threshold": activated(partial(nn.Threshold, 0.3, 0.3)),
    "Dropouts": activated(lambda: nn.Sequential(nn.Dropout(), nn.AlphaDropout(), nn.ReLU())),
    "clamp": on_linear(lambda h: h.clamp(-1, 1) + h.clamp_min(0.2) + h.clamp_max(0.1)),
    "clamp to tensors": on_linear(lambda h: torch.clamp(h, -torch.arange(6.0), torch.ones(6))),
    "clamp to nothing": lambda: Forward(
        lambda self, x: torch.clamp(x, self.low, self.high),
        low=torch.tensor([-torch.inf, -1.0, 0.0, 1.0]),
        high=torch.tensor([1.0, torch.inf, torch.inf, 2.0]),
    ),
    "clamp to expressions": on_linear(lambda h: torch.clamp(h, h[:, :1], h[:, 1:2])),
    "maximum, minimum": on_linear(lambda h: torch.maximum(h[:, :3], h[:, 3:]) - torch.min(h[:, :3], h[:, 2:5])),
    "abs": on_linear(lambda h: h.abs()),
    "functional": on_linear(lambda h: F.relu6(F.leaky_relu(h, 0.3)) + F.hardtanh(h) + F.threshold(h, 0, 0)),
    "where": on_linear(lambda h: torch.where(h > 0.5, h, 0.1 * h + 0.45)),
    "where, the other way": on_linear(lambda h: torch.where(h <= 0, 0.1 * h, h)),
    "where some entries are constant": on_linear(
        lambda h: (lambda p: torch.where(p > 0, 2 * p, p))(F.pad(h, (1, 2), value=3.0))
    ),
    "mask as a factor": on_linear(lambda h: h * (h > 0)),
    # reductions
    "max over features": on_linear(lambda h: h.max(1).values),
    "maxout": on_linear(lambda h: h.view(-1, 3, 2).max(-1)[0]),
    "amax, amin": on_linear(lambda h: h.amax(-1, keepdim=True) - h.amin(1, keepdim=True)),
    "sum, mean": on_linear(lambda h: torch.stack([h.relu().sum(1), h.mean(-1)], 1)),
    "norms": on_linear(lambda h: h.norm(p=1, dim=1) + torch.linalg.vector_norm(h, ord=math.inf, dim=1)),
    "sort": on_linear(lambda h: h.sort(1, descending=True).values),
    "groups sorted": on_linear(lambda h: h.view(-1, 2, 3).sort(-1)[0].flatten(1)),
    "median, topk": on_linear(lambda h: torch.cat([h.median(1, keepdim=True)[0], h.topk(2, 1)[0]], 1)),
    # linear
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)),
    "residual loop": lambda: Forward(loop, layers=nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])),
    "dense skip": lambda: Forward(
        lambda self, x: self.b(torch.cat([x, self.a(x).relu()], 1)), a=nn.Linear(4, 8), b=nn.Linear(12, 4)
    ),
    "scaling by buffers": lambda: Forward(
        lambda self, x: self.linear((x - self.mean) / self.std) * self.std.sum() + 2 - x.sum(1, keepdim=True) / 3,
        linear=nn.Linear(4, 5),
        mean=torch.rand(4),
        std=1.0 + torch.rand(4),
    ),
    "F.linear, einsum": lambda: Forward(
        lambda self, x: torch.einsum("bi,oi->bo", F.linear(x, self.w).relu(), self.w.T), w=torch.randn(3, 4)
    ),
    "constant on the left": lambda: Forward(lambda self, x: (self.w @ x.T).T, w=torch.randn(3, 4)),
    "weight_norm": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), nn.ReLU()),
    "spectral_norm": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 5)), nn.ReLU()),
    "frozen": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU()).requires_grad_(False),
    "compiled": lambda: torch.compile(nn.Sequential(nn.Linear(4, 5), nn.ReLU())),
    "DataParallel": lambda: nn.DataParallel(nn.Sequential(nn.Linear(4, 5), nn.ReLU())),
    "no gradient": lambda: Forward(without_gradient, linear=nn.Linear(4, 3)),
    # entries that move
    "chunk, split": on_linear(lambda h: h.chunk(2, 1)[0].relu() - h.split([1, 2, 3], 1)[2]),
    "slices and indices": on_linear(lambda h: h[:, 1::2] + h[:, [2, 0, 0]] + h[..., -1:] + h.narrow(1, 1, 3)),
    "transpose, permute, flip": on_linear(
        lambda h: (
            h.view(-1, 2, 3).transpose(1, 2).reshape(len(h), -1)
            + h.view(-1, 3, 2).permute(0, 2, 1).flatten(1)
            + h.flip(1)
            + h.roll(1, 1)
        )
    ),
    "stack, unbind": on_linear(lambda h: torch.stack(h.unbind(1)[::-1], 1)),
    "expand, repeat": on_linear(lambda h: h.unsqueeze(1).expand(-1, 2, -1).flatten(1) + h.repeat(1, 2).relu()),
    "pad": on_linear(lambda h: F.pad(h, (1, 2), value=2.5)),
    "constant mask": on_linear(lambda h: h.masked_fill(torch.arange(6) % 2 == 0, -1.0)),
    "writing into views": on_linear(filled),
    "other names of the same memory": on_linear(aliased),
    "single samples only": on_linear(one_sample),
    "smooth but not used": on_linear(lambda h: (h.tanh(), h.relu())[1]),
    "ensemble in one product": lambda: Forward(
        lambda self, x: torch.baddbmm(self.b, x.expand(3, *x.shape), self.w).relu().mean(0),
        w=torch.randn(3, 4, 5),
        b=torch.randn(3, 1, 5),
    ),
    "in-place operations": on_linear(lambda h: h.relu_().add_(1).clamp_(max=2)),
    "constants": on_linear(lambda h: torch.cat([torch.ones_like(h), h.new_zeros(len(h), 1), h], 1)),
    "several outputs": on_linear(lambda h: {"b": (h.relu(), None), "a": h[:, 0]}),
}


@pytest.mark.parametrize("build", MODULES.values(), ids=MODULES.keys())
def test_network_computes_what_the_module_computes(build: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    module = disturbed(build().double())
    network = from_torch(module, input_shape=4)
    assert largest_error(module, network, [(4,)]) < 1e-13


SHAPED: dict[str, tuple[tuple[int, ...], Callable[[], Any]]] = {
    "Conv1d": ((2, 6), lambda: nn.Conv1d(2, 3, 3, stride=2, padding=1, dilation=2)),
    "Conv1d, circular": ((2, 6), lambda: nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular")),
    "Conv2d with groups": ((2, 6, 6), lambda: nn.Conv2d(2, 4, 3, stride=2, groups=2)),
    "Conv2d, same": ((1, 5, 5), lambda: nn.Conv2d(1, 2, (3, 2), padding="same", bias=False)),
    "Conv3d": ((1, 3, 3, 3), lambda: nn.Conv3d(1, 2, 2)),
    "ConvTranspose2d": ((2, 3, 3), lambda: nn.ConvTranspose2d(2, 1, 3, stride=2, output_padding=1)),
    "BatchNorm2d": ((2, 4, 4), lambda: nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3), nn.PReLU(3))),
    "MaxPool1d": ((2, 6), lambda: nn.MaxPool1d(2, stride=1, dilation=2)),
    "MaxPool2d": ((1, 6, 5), lambda: nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True)),
    "AvgPool2d": ((1, 4, 4), lambda: nn.AvgPool2d(2, stride=1, padding=1, count_include_pad=False)),
    "AdaptiveAvgPool2d": ((1, 5, 7), lambda: nn.AdaptiveAvgPool2d((2, 3))),
    "AdaptiveMaxPool2d": ((1, 4, 5), lambda: nn.AdaptiveMaxPool2d((2, 3))),
    "pads": ((1, 3, 4), lambda: nn.Sequential(nn.ZeroPad2d((1, 0, 2, 1)), nn.ReflectionPad2d(1))),
    "Upsample": ((1, 3, 3), lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.Upsample(5, mode="bilinear"))),
    "PixelShuffle, Unflatten": ((8,), lambda: nn.Sequential(nn.Unflatten(1, (4, 1, 2)), nn.PixelShuffle(2))),
    "RNN with ReLU": ((3, 2), lambda: Forward(lambda self, x: self.rnn(x)[0], rnn=nn.RNN(2, 3, nonlinearity="relu"))),
    "no parameters": ((3,), lambda: nn.ReLU()),
    "constant": ((3,), lambda: Forward(lambda self, x: 2.0 * x.new_ones(len(x), 2))),
}  # fmt: skip


@pytest.mark.parametrize(("shape", "build"), SHAPED.values(), ids=SHAPED.keys())
def test_modules_of_samples_with_a_shape(shape: tuple[int, ...], build: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    module = disturbed(build().double())
    if "RNN" in str(module):
        module.rnn.batch_first = True
    network = from_torch(module, example_input=torch.zeros(7, *shape))
    assert network.input_count == math.prod(shape)
    assert largest_error(module, network, [shape]) < 1e-13


def test_several_inputs_are_one_after_another() -> None:
    module = Forward(lambda self, x, u: x + self.linear(torch.cat([x, u], 1)).relu(), linear=nn.Linear(5, 3)).double()
    network = from_torch(module, input_shape=[(3,), (2,)])
    assert network.input_count == 5
    assert largest_error(module, network, [(3,), (2,)]) < 1e-13
    with pytest.raises(InputError, match="fails for inputs of shape"):
        from_torch(module)


def test_a_module_without_batches_is_given_an_example() -> None:
    module = Forward(lambda self, x: torch.stack([x[0] - x[2], self.linear(x).relu()[1]]), linear=nn.Linear(3, 2))
    network = from_torch(module.double(), example_input=np.zeros(3))
    x = np.array([0.3, -2.0, 0.7])
    np.testing.assert_allclose(network.forward(x), module(torch.tensor(x)).detach().numpy(), rtol=0, atol=1e-14)


def test_casts_do_not_round() -> None:
    module = Forward(lambda self, x: self.linear(x.float().half().float()), linear=nn.Linear(3, 2))
    network = from_torch(module)
    assert np.array_equal(network.output.weights, module.linear.weight.detach().double().numpy())


def test_parts_may_have_precisions_of_their_own() -> None:
    module = Forward(
        lambda self, x: self.b(self.a(x.half()).relu().float()), a=nn.Linear(3, 4).half(), b=nn.Linear(4, 2)
    )
    network = from_torch(module, input_shape=3)
    assert np.array_equal(network.hidden[0].weights, module.a.weight.detach().double().numpy())


def test_the_size_of_the_input_is_found_only_if_it_is_fixed() -> None:
    entries_unread = Forward(lambda self, x: self.linear(x[:, :3]), linear=nn.Linear(3, 2))
    with pytest.raises(InputError, match=r"input_shape=\(4,\)"):
        from_torch(entries_unread)
    assert from_torch(entries_unread, input_shape=(7,)).input_count == 7
    last_registered = Forward(lambda self, x: self.b(self.a(x).relu()), b=nn.Linear(9, 2), a=nn.Linear(4, 9))
    assert from_torch(last_registered).input_count == 4


@pytest.mark.parametrize("shape", [(0,), (-3,), "abc", 3.0, (None, 3), [], [(3,), ()]])
def test_shapes_that_are_none(shape: Any) -> None:
    with pytest.raises(InputError, match="shape"):
        from_torch(nn.Linear(3, 2), input_shape=shape)


LAYERS: list[Callable[[int], Any]] = [
    lambda size: nn.Linear(size, size),
    lambda size: nn.LeakyReLU(0.1),
    lambda size: nn.PReLU(size),
    lambda size: nn.Hardtanh(-0.5, 0.25),
    lambda size: nn.Hardsigmoid(),
    lambda size: nn.Softshrink(0.2),
    lambda size: disturbed(nn.BatchNorm1d(size)),
    lambda size: Forward(lambda self, x: x + self.inner(x).relu(), inner=nn.Linear(size, size)),
    lambda size: Forward(lambda self, x: torch.maximum(x, self.inner(x)), inner=nn.Linear(size, size)),
    lambda size: Forward(lambda self, x: torch.cat([x[:, 1:].abs(), x[:, :1]], 1)),
    lambda size: Forward(lambda self, x: x - x.amax(1, keepdim=True)),
]


@settings(max_examples=25)
@given(st.lists(st.integers(0, len(LAYERS) - 1), min_size=1, max_size=6), st.integers(1, 5), st.integers(0, 1000))
def test_modules_composed_at_random(choices: list[int], size: int, seed: int) -> None:
    torch.manual_seed(seed)
    module = nn.Sequential(*(LAYERS[choice](size) for choice in choices)).double().eval()
    network = from_torch(module, input_shape=size)
    assert largest_error(module, network, [(size,)]) < 1e-12


class Failing(nn.Module):  # type: ignore[misc, name-defined]
    """Can be traced, and fails after that."""

    def forward(self, x: Any) -> Any:
        if not torch.compiler.is_exporting():
            raise KeyError("no")
        return x


class Counting(nn.Module):  # type: ignore[misc, name-defined]
    """Changes an attribute, or a buffer, with every call."""

    def __init__(self, start: Any) -> None:
        super().__init__()
        if isinstance(start, torch.Tensor):
            self.register_buffer("calls", start)
        else:
            self.calls = start

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x * self.calls


def branching(self: Any, x: Any) -> Any:
    return x if x.sum() > 0 else -x


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    **{
        kind: (partial(getattr(nn, kind)), rf"module \({kind}\) .* not piecewise linear; .* reluplan distil")
        for kind in ("Tanh", "Sigmoid", "GELU", "SiLU", "Softplus", "ELU", "Mish", "Hardswish", "Softsign")
    },
    "softmax": (lambda: nn.Softmax(dim=1), "not piecewise linear"),
    "LayerNorm": (lambda: nn.LayerNorm(4), "LayerNorm.* not piecewise linear"),
    "Bilinear": (
        lambda: Forward(lambda self, x: self.b(x, x), b=nn.Bilinear(4, 4, 2)),
        r"module.b \(Bilinear\) .* not piecewise linear",
    ),
    "product of inputs": (lambda: Forward(lambda self, x: x * x), "multiplies two tensors .* distil"),
    "division by inputs": (lambda: Forward(lambda self, x: x / x.abs()), "divides by a tensor"),
    "power": (lambda: Forward(lambda self, x: x**2), "power is not piecewise linear"),
    "Hardshrink": (nn.Hardshrink, r"module \(Hardshrink\) .* jumps"),
    "Threshold": (lambda: nn.Threshold(0.1, 20.0), "jumps"),
    "where": (lambda: Forward(lambda self, x: torch.where(x > 0, x + 1, x)), "where.*choice jumps"),
    "sign": (lambda: Forward(lambda self, x: x.sign()), "sign.*jumps"),
    "rounding": (lambda: Forward(lambda self, x: x.long()), "rounds to torch.int64"),
    "comparison": (lambda: Forward(lambda self, x: x > 0), "returns a comparison"),
    "position": (lambda: Forward(lambda self, x: x.max(1)[1]), "positions, which jump"),
    "sum of comparisons": (lambda: Forward(lambda self, x: (x > 0).float().relu().sum(1)), "a condition, which jumps"),
    "both comparisons": (lambda: Forward(lambda self, x: x * ((x > 0) & (x < 1))), "jumps|not supported"),
    "index by inputs": (lambda: Forward(lambda self, x: x[x > 0]), "aten.index.* jumps"),
    "no tensor": (lambda: Forward(lambda self, x: 3), "returns 3"),
    "branch": (lambda: Forward(branching), "makes a Python number of a tensor .* torch.where"),
    "numpy": (lambda: Forward(lambda self, x: torch.from_numpy(x.numpy())), "makes a Python number"),
    "random": (lambda: Forward(lambda self, x: x + torch.rand(4)), "random"),
    "random elsewhere": (lambda: Forward(lambda self, x: x + np.random.default_rng().random()), "other outputs each"),
    "fails when called": (Failing, "fails when it is called with numbers: 'no'"),
    "dropout": (lambda: Forward(lambda self, x: F.dropout(x)), "training=self.training"),
    "counts calls": (lambda: Counting(0), "other outputs each time"),
    "counts calls in a buffer": (lambda: Counting(torch.zeros(())), "changes its buffer 'calls'"),
    "mean of the batch": (lambda: Forward(lambda self, x: x - x.mean(0)), "in a batch than alone"),
    "integers in": (lambda: nn.Embedding(4, 2), r"module \(Embedding\) .* fails for inputs of shape"),
    "infinite buffer": (lambda: Forward(lambda self, x: x * self.k, k=torch.tensor(torch.inf)), "NaN or infinite"),
    "infinite": (lambda: Forward(lambda self, x: x / self.zero, zero=torch.zeros(())), "NaN or infinite"),
    "too large": (lambda: Forward(lambda self, x: 1e20 * x), "below 1e"),
    "huge result": (lambda: Forward(lambda self, x: x.repeat(1, 10**9).sum(1)), "would be too large"),
    "huge constant": (lambda: Forward(lambda self, x: x + torch.ones(10**6, 10**6).sum()), "would be too large"),
    "no output": (lambda: Forward(lambda self, x: None), "no output"),
    "wrong size": (lambda: nn.Linear(5, 3), r"module \(Linear\) .* fails for inputs of shape \(1, 4\)"),
}  # fmt: skip


@pytest.mark.parametrize(("build", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals_say_what_and_where_in_one_line(
    build: Callable[[], Any], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        from_torch(build(), input_shape=4)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_the_module_and_its_attributes_stay_as_they_were() -> None:
    module = Counting(5).train()
    with pytest.raises(InputError):
        from_torch(module, input_shape=2)
    assert module.calls == 5
    assert module.training
    assert not module._forward_hooks


def test_too_many_weights_are_refused_before_they_are_copied() -> None:
    module = nn.Module()
    module.register_buffer("large", torch.zeros(1).expand(2**28))  # no memory behind it
    with pytest.raises(InputError, match="268,435,456 weights"):
        from_torch(module, input_shape=1)


def test_an_operator_is_added_without_a_fork() -> None:
    """sinc(x), taken for max(0, 1 - |x|)."""
    module = Forward(lambda self, x: torch.sinc(x))
    with pytest.raises(InputError, match=r"aten.sin|not supported|not piecewise linear"):
        from_torch(module, input_shape=1)

    def triangle(call: Any) -> Affine:
        hat: Affine = call.builder.relu(Affine.constant(1.0) - call.builder.absolute(call["self"]))
        return hat

    ATEN_OPERATORS.register("aten.sinc", triangle)
    try:
        with pytest.raises(InputError, match="gives other outputs"):  # the look at the result notices the swindle
            from_torch(module, input_shape=1)
    finally:
        ATEN_OPERATORS.remove("aten.sinc")


def test_public_name() -> None:
    assert reluplan.from_torch is from_torch
