"""CROWN bounds contain every sample, are never looser than intervals, and are exact where the network is affine."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_network
from reluplan.bounds.crown import CrownBounds, affine_upper_bounds, crown_bounds, unit_relaxation
from reluplan.bounds.lp import bound_step
from reluplan.network.relu_network import ReluNetwork

seeds = st.integers(0, 2**32 - 1)
widths = st.lists(st.integers(1, 6), min_size=0, max_size=3)


def boxes(rng: np.random.Generator, count: int, inputs: int) -> tuple[np.ndarray, np.ndarray]:
    lower = rng.uniform(-2, 1, (count, inputs))
    return lower, lower + rng.uniform(0, 2, (count, inputs)) * (rng.random((count, inputs)) < 0.9)


@settings(max_examples=60, deadline=None)
@given(seeds, widths, st.booleans())
def test_no_sample_leaves_the_bounds(seed: int, hidden: list[int], dense: bool) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, hidden, 2, dense)
    lower, upper = boxes(rng, 20, 3)
    bounds = crown_bounds(network, lower, upper)
    low, high = bounds.output_box(lower, upper)
    for _ in range(50):
        x = rng.uniform(lower, upper)
        units, outputs = network.evaluate(x)
        assert (bounds.unit_lower <= units).all()
        assert (units <= bounds.unit_upper).all()
        assert (evaluate(bounds, x, False) <= outputs).all()
        assert (outputs <= evaluate(bounds, x, True)).all()
        assert (low <= outputs).all()
        assert (outputs <= high).all()


def evaluate(bounds: CrownBounds, x: np.ndarray, upper: bool) -> np.ndarray:
    slope, offset = (bounds.upper_slope, bounds.upper_offset) if upper else (bounds.lower_slope, bounds.lower_offset)
    return np.asarray(np.einsum("bij,bj->bi", slope, x) + offset)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_unit_bounds_are_never_looser_than_intervals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, [5, 4], 2)
    lower, upper = boxes(rng, 10, 3)
    bounds = crown_bounds(network, lower, upper)
    for b in range(len(lower)):
        interval = bound_step(network, lower[b], upper[b], [], 3, np.zeros(3, dtype=bool), deadline=0.0)
        assert (bounds.unit_lower[b] >= interval.unit_lower - 1e-8).all()
        assert (bounds.unit_upper[b] <= interval.unit_upper + 1e-8).all()


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 8))
def test_any_direction_is_bounded(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 2, [6, 5], 3)
    lower, upper = boxes(rng, 10, 2)
    directions = rng.normal(size=(count, 3))
    slope, offset = affine_upper_bounds(network, unit_relaxation(network, lower, upper), directions)
    x = rng.uniform(lower, upper)
    value = np.einsum("bij,bj->bi", slope, x) + offset
    assert (network.forward(x) @ directions.T <= value).all()


def test_bounds_are_exact_where_no_unit_switches() -> None:
    rng = np.random.default_rng(3)
    network = random_network(rng, 3, [6, 6], 2)
    lower = rng.uniform(-2, 2, (200, 3))
    upper = lower + 1e-3
    bounds = crown_bounds(network, lower, upper)
    stable = ~bounds.unstable.any(axis=1)
    assert stable.any()
    x = rng.uniform(lower, upper)
    gap = evaluate(bounds, x, True) - evaluate(bounds, x, False)
    assert np.abs(gap[stable]).max() < 1e-10


def test_an_absolute_value_gets_its_chord_and_a_slope_below() -> None:
    network = ReluNetwork.sequential([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])
    bounds = crown_bounds(network, np.array([[-1.0]]), np.array([[3.0]]))
    x = np.array([[-1.0], [0.0], [3.0]])
    upper = x @ bounds.upper_slope[0].T + bounds.upper_offset[0]
    np.testing.assert_allclose(upper[[0, 2], 0], [1.0, 3.0], atol=1e-6)
    assert (x @ bounds.lower_slope[0].T + bounds.lower_offset[0] <= np.abs(x)).all()
