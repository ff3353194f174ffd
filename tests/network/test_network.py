"""ReLU networks: the vectorised evaluation against loops, and what the class promises about itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reluplan.errors import InputError
from reluplan.network.relu_network import Array, Layer, ReluNetwork

widths = st.lists(st.integers(1, 4), min_size=0, max_size=4)
seeds = st.integers(0, 2**32 - 1)
quick = settings(deadline=None, max_examples=50)


def dense_network(input_count: int, hidden: list[int], output_count: int, seed: int) -> ReluNetwork:
    """Normal weights on all skips, about a third of them missing."""
    rng = np.random.default_rng(seed)
    layers = []
    width = input_count
    for count in (*hidden, output_count):
        weights = rng.normal(size=(count, width)) * (rng.random((count, width)) < 0.7)
        layers.append(Layer(weights, rng.normal(size=count)))
        width += count
    return ReluNetwork(input_count, tuple(layers[:-1]), layers[-1])


def naive(network: ReluNetwork, inputs: list[float]) -> tuple[list[float], list[float]]:
    """(pre-activations, outputs), one unit and one connection at a time."""

    def affine(layer: Layer, unit: int) -> float:
        total = float(layer.bias[unit])
        for column, value in enumerate(before):
            total += float(layer.weights[unit, column]) * value
        return total

    before, pre = list(inputs), []
    for layer in network.hidden:
        sums = [affine(layer, unit) for unit in range(layer.unit_count)]
        pre += sums
        before += [total if total > 0 else 0.0 for total in sums]
    return pre, [affine(network.output, unit) for unit in range(network.output_count)]


@quick
@given(st.integers(1, 4), widths, st.integers(1, 3), seeds)
def test_evaluation_equals_a_loop_over_units(input_count: int, hidden: list[int], output_count: int, seed: int) -> None:
    network = dense_network(input_count, hidden, output_count, seed)
    inputs = np.random.default_rng(seed).normal(scale=3.0, size=(5, input_count))
    expected_pre, expected = zip(*(naive(network, row) for row in inputs.tolist()), strict=True)
    pre, outputs = network.evaluate(inputs)
    assert pre.shape == (5, sum(hidden)) == (5, network.relu_count)
    np.testing.assert_allclose(pre, np.reshape(expected_pre, pre.shape), rtol=0, atol=1e-10)
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-10)
    assert np.array_equal(network.forward(inputs), outputs)
    assert np.array_equal(network.preactivations(inputs), pre)


@quick
@given(widths, seeds)
def test_leading_axes_are_samples(hidden: list[int], seed: int) -> None:
    network = dense_network(3, hidden, 2, seed)
    inputs = np.random.default_rng(seed).normal(size=(2, 4, 3))
    outputs = network.forward(inputs)
    assert outputs.shape == (2, 4, 2)
    np.testing.assert_allclose(network.forward(inputs[1, 2]), outputs[1, 2], rtol=0, atol=1e-12)


@quick
@given(st.lists(st.integers(1, 5), min_size=2, max_size=5), seeds)
def test_sequential_is_the_plain_chain(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(b, a)) for a, b in pairwise(sizes)]
    biases = [rng.normal(size=b) for b in sizes[1:]]
    network = ReluNetwork.sequential(weights, biases)
    value: Array = rng.normal(size=(6, sizes[0]))
    outputs = network.forward(value)
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        value = np.maximum(value @ w.T + b, 0.0)
    np.testing.assert_allclose(outputs, value @ weights[-1].T + biases[-1], rtol=0, atol=1e-10)


@quick
@given(widths, seeds, st.floats(0.0, 100.0))
def test_without_biases_it_is_positively_homogeneous(hidden: list[int], seed: int, factor: float) -> None:
    """f(t x) = t f(x) for t >= 0: true of every piecewise-linear function made of max(0, linear)."""
    biased = dense_network(3, hidden, 2, seed)
    layers = [Layer(layer.weights, np.zeros_like(layer.bias)) for layer in (*biased.hidden, biased.output)]
    network = ReluNetwork(3, tuple(layers[:-1]), layers[-1])
    inputs = np.random.default_rng(seed).normal(size=(4, 3))
    np.testing.assert_allclose(network.forward(factor * inputs), factor * network.forward(inputs), atol=1e-8)


def test_a_skip_makes_max_and_a_residual() -> None:
    """max(x, y) = y + max(0, x - y): the output reads an input and the unit."""
    network = ReluNetwork(
        2,
        (Layer(np.array([[1.0, -1.0]]), np.zeros(1)),),
        Layer(np.array([[0.0, 1.0, 1.0]]), np.zeros(1)),
    )
    inputs = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_allclose(network.forward(inputs)[:, 0], inputs.max(axis=1), rtol=0, atol=1e-15)


def test_unit_slices_number_the_units_in_order() -> None:
    network = dense_network(2, [3, 1, 4], 2, seed=1)
    assert network.unit_slices == (slice(0, 3), slice(3, 4), slice(4, 8))
    assert dense_network(2, [], 1, seed=1).unit_slices == ()


def test_fingerprint_tells_every_weight_apart() -> None:
    network = dense_network(2, [3, 2], 1, seed=2)
    assert network.fingerprint() == dense_network(2, [3, 2], 1, seed=2).fingerprint()
    changed = network.output.weights.copy()
    changed[0, -1] = np.nextafter(changed[0, -1], np.inf)
    other = ReluNetwork(2, network.hidden, Layer(changed, network.output.bias))
    assert other.fingerprint() != network.fingerprint()


def test_wrong_weight_shape_is_named() -> None:
    with pytest.raises(InputError, match=r"hidden layer 1 .* shape \(2, 3\), expected \(2, 4\)") as caught:
        ReluNetwork(4, (Layer(np.ones((2, 3)), np.zeros(2)),), Layer(np.ones((1, 6)), np.zeros(1)))
    assert caught.value.exit_code == 4


def test_an_output_layer_must_read_the_hidden_units_too() -> None:
    with pytest.raises(InputError, match=r"the output layer .* shape \(1, 4\), expected \(1, 6\)"):
        ReluNetwork(4, (Layer(np.ones((2, 4)), np.zeros(2)),), Layer(np.ones((1, 4)), np.zeros(1)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["weight", "bias"])
def test_nan_and_infinity_are_refused(bad: float, where: str) -> None:
    weights, bias = [[1.0, 2.0]], [0.0]
    if where == "weight":
        weights[0][1] = bad
    else:
        bias[0] = bad
    with pytest.raises(InputError, match=r"hidden layer 1 .* NaN or infinite"):
        ReluNetwork.sequential([weights, [[1.0]]], [bias, [0.0]])


def test_wrong_number_of_inputs_is_refused() -> None:
    with pytest.raises(InputError, match="takes 3 inputs, got 2"):
        dense_network(3, [2], 1, seed=3).forward([[1.0, 2.0]])
