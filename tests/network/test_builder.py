"""Piecewise-linear operations as ReLU units: formulas that hold for all numbers, with no more units than needed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from reluplan.network import affine
from reluplan.network.affine import Affine, concatenated
from reluplan.network.builder import NetworkBuilder
from reluplan.network.relu_network import Array, ReluNetwork

INPUTS = 5
Built = Callable[[NetworkBuilder, Affine], Affine]


def network_of(build: Built) -> ReluNetwork:
    """The network of a function of the inputs (INPUTS,) and of a builder."""
    builder = NetworkBuilder(INPUTS)
    return builder.finish(build(builder, Affine.columns(0, (INPUTS,))))


def values(rng: np.random.Generator, count: int = 40) -> Array:
    """Inputs on both sides of zero, zeros and equal entries among them."""
    return np.round(rng.normal(scale=2.0, size=(count, INPUTS)), 1)


def assert_computes(build: Built, expected: Callable[[Array], Array], seed: int = 0) -> None:
    network = network_of(build)
    for sample in values(np.random.default_rng(seed)):
        wanted = np.asarray(expected(sample)).ravel()
        np.testing.assert_allclose(network.forward(sample), wanted, rtol=1e-13, atol=1e-13)


SLOPES = st.floats(-3.0, 3.0)
SEEDS = st.integers(0, 10**6)


@given(st.lists(SLOPES, min_size=INPUTS, max_size=INPUTS), SEEDS)
def test_leaky_relu_has_one_slope_per_entry(slopes: list[float], seed: int) -> None:
    a = np.array(slopes)
    assert_computes(lambda builder, x: builder.leaky_relu(x, a), lambda x: np.where(x > 0, x, a * x), seed)


def test_coefficients_in_any_order() -> None:
    """Sparse products leave the columns of a row in any order, and scaled tensors share them."""
    parts = (np.array([2.0, -3.0]), np.array([4, 1]), np.array([0, 2]))
    tensor = Affine(np.zeros(1), sparse.csr_array(parts, shape=(1, INPUTS)))

    def leaky(x: Array) -> Array:
        total = np.array([2.0 * x[4] - 3.0 * x[1]])
        return np.where(total > 0, total, 0.5 * total)

    assert_computes(lambda builder, x: builder.leaky_relu(tensor, 0.5), leaky)


BOUNDS = st.one_of(st.floats(-3.0, 3.0), st.just(-np.inf), st.just(np.inf))


@given(st.lists(st.tuples(BOUNDS, BOUNDS), min_size=INPUTS, max_size=INPUTS), SEEDS)
def test_clip_takes_any_bounds(bounds: list[tuple[float, float]], seed: int) -> None:
    low, high = np.array([(min(a, b), max(a, b)) for a, b in bounds]).T
    low[low == np.inf] = 0.0
    high[high == -np.inf] = 1.0
    assert_computes(lambda builder, x: builder.clip(x, low, high), lambda x: np.clip(x, low, high), seed)


def test_clip_with_its_bounds_exchanged_is_its_upper_bound() -> None:
    network = network_of(lambda builder, x: builder.clip(x, 2.0, -1.0))
    assert network.relu_count == 0
    assert np.array_equal(network.forward(np.ones(INPUTS)), np.full(INPUTS, -1.0))


@pytest.mark.parametrize("bound", [(np.nan, 1.0), (0.0, np.nan), (np.inf, np.inf), (-np.inf, -np.inf)])
def test_clip_to_no_number_is_refused(bound: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="clips to"):
        network_of(lambda builder, x: builder.clip(x, *bound))


@given(SEEDS, st.integers(1, 9))
def test_maximum_and_minimum_of_several_tensors(seed: int, count: int) -> None:
    weights = np.random.default_rng(seed).normal(size=(count, INPUTS, INPUTS)).round(1)

    def parts(x: Affine) -> list[Affine]:
        return [Affine.constant(matrix) @ x for matrix in weights]

    assert_computes(lambda builder, x: builder.maximum_of(parts(x)), lambda x: (weights @ x).max(axis=0), seed)
    assert_computes(lambda builder, x: builder.minimum_of(parts(x)), lambda x: (weights @ x).min(axis=0), seed)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 100])
def test_a_maximum_of_n_is_a_balanced_tree_of_n_minus_one_units(count: int) -> None:
    builder = NetworkBuilder(count)
    network = builder.finish(builder.maximum_along(Affine.columns(0, (count,)), 0))
    assert network.relu_count == count - 1
    assert len(network.hidden) == np.ceil(np.log2(count))
    sample = np.random.default_rng(count).normal(size=count)
    assert network.forward(sample) == pytest.approx(sample.max(), rel=1e-14)


@given(SEEDS, st.floats(-2.0, 2.0), st.floats(-2.0, 2.0))
def test_absolute_and_hard_sigmoid(seed: int, alpha: float, beta: float) -> None:
    assert_computes(lambda builder, x: builder.absolute(x), np.abs, seed)
    expected = lambda x: np.clip(alpha * x + beta, 0.0, 1.0)  # noqa: E731
    assert_computes(lambda builder, x: builder.hard_sigmoid(x, alpha, beta), expected, seed)


@pytest.mark.parametrize(
    ("build", "units"),
    [
        (lambda builder, x: builder.leaky_relu(x, 0.1), INPUTS),
        (lambda builder, x: builder.leaky_relu(x, 1.0), 0),
        (lambda builder, x: builder.clip(x, -1.0, 1.0), 2 * INPUTS),
        (lambda builder, x: builder.clip(x, high=1.0), INPUTS),
        (lambda builder, x: builder.clip(x, low=0.0), INPUTS),
        (lambda builder, x: builder.clip(x), 0),
        (lambda builder, x: builder.maximum(x, x), 0),
        (lambda builder, x: builder.maximum(x, x + Affine.constant(1.0)), 0),
        (lambda builder, x: builder.maximum(x, x.taken(np.zeros(INPUTS, dtype=int))), INPUTS - 1),
        (lambda builder, x: builder.absolute(x), INPUTS),
        (lambda builder, x: concatenated([builder.absolute(x), builder.leaky_relu(x, 0.5)], 0), INPUTS),
        (lambda builder, x: builder.absolute(x.taken(np.zeros(9, dtype=int))), 1),
    ],
)
def test_no_more_units_than_needed(build: Built, units: int) -> None:
    """Constants take none, and equal entries share one, also with an earlier operation."""
    network = network_of(build)
    assert network.relu_count == units
    assert len(network.hidden) == bool(units)


@pytest.mark.parametrize("operation", ["relu", "absolute"])
def test_constants_stay_constants_of_their_kind(operation: str) -> None:
    builder = NetworkBuilder(1)
    for value in (np.array([-2, 3]), np.array([-2.0, 3.0])):
        result = getattr(builder, operation)(Affine.constant(value)).value
        assert result.dtype == value.dtype
        assert np.array_equal(result, np.maximum(value, 0) if operation == "relu" else np.abs(value))


def test_layers_are_bounded_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affine, "LARGEST_TENSOR", 1000)
    monkeypatch.setattr(affine, "LARGEST_HELD", 2000)
    builder = NetworkBuilder(40)
    with pytest.raises(ValueError, match="too large"):
        builder.relu(Affine.columns(0, (40,)))
    builder = NetworkBuilder(20)
    for _ in range(3):
        builder.relu(Affine.columns(0, (15,)))
    with pytest.raises(ValueError, match="layers of the network hold"):
        builder.relu(Affine.columns(0, (15,)))
