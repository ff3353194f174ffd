"""Piecewise-linear functions: the algebra keeps values, and bounds hold for every box, finite or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_function
from reluplan.problem.piecewise import Array, MaxTerm, PiecewiseLinear

WIDTH = 4
quick = settings(deadline=None, max_examples=150)
seeds = st.integers(0, 2**32 - 1)
X, Y, Z = (PiecewiseLinear.variable(i, 3) for i in range(3))
ONE = PiecewiseLinear.constant_of(1.0, 3)


def functions(rng: np.random.Generator, count: int, depth: int = 3) -> list[PiecewiseLinear]:
    return [random_function(rng, list(range(WIDTH)), WIDTH, depth) for _ in range(count)]


def random_box(rng: np.random.Generator, endless: float) -> tuple[Array, Array]:
    """Bounds of which a share is infinite, and some are points."""
    lower = rng.normal(scale=3.0, size=WIDTH)
    upper = lower + rng.exponential(3.0, size=WIDTH) * (rng.random(WIDTH) < 0.9)
    lower[rng.random(WIDTH) < endless] = -np.inf
    upper[rng.random(WIDTH) < endless] = np.inf
    return lower, upper


def samples(rng: np.random.Generator, lower: Array, upper: Array, count: int = 200) -> Array:
    """Points of a box, far out on its infinite sides, on corners among others."""
    far = 10.0 ** rng.uniform(0, 6, size=(count, WIDTH))
    low = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0.0) - far)
    high = np.where(np.isfinite(upper), upper, np.where(np.isfinite(lower), lower, 0.0) + far)
    share = rng.random((count, WIDTH))
    share = np.where(rng.random((count, WIDTH)) < 0.4, np.round(share), share)
    points: Array = np.clip(low + share * (high - low), lower, upper)
    return points


def assert_bounds(function: PiecewiseLinear, lower: Array, upper: Array, low: float, high: float) -> None:
    """The bounds are these, rounded outward if at all."""
    got_low, got_high = map(float, function.bounds(lower, upper))
    assert got_low <= low
    assert got_high >= high
    assert (got_low, got_high) == pytest.approx((low, high), rel=1e-12, abs=1e-12)


@quick
@given(seeds, st.floats(-5, 5))
def test_arithmetic_acts_on_values(seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    f, g = functions(rng, 2)
    w = rng.normal(scale=3.0, size=(20, WIDTH))
    at_f, at_g = f.evaluate(w), g.evaluate(w)

    def check(function: PiecewiseLinear, expected: Array) -> None:
        np.testing.assert_allclose(function.evaluate(w), expected, rtol=1e-9, atol=1e-9)

    check(f + g, at_f + at_g)
    check(f - g, at_f - at_g)
    check(-f, -at_f)
    check(f * factor, at_f * factor)
    check(PiecewiseLinear.maximum([f, g]), np.maximum(at_f, at_g))
    check(PiecewiseLinear.minimum([f, g]), np.minimum(at_f, at_g))
    if abs(factor) > 1e-3:
        check(f / factor, at_f / factor)


@quick
@given(seeds, st.integers(1, 4))
def test_flattening_keeps_values(seed: int, depth: int) -> None:
    """Maxima of maxima, with weights and affine parts between, computed by numpy from the leaves up."""
    rng = np.random.default_rng(seed)
    w = rng.normal(scale=3.0, size=(20, WIDTH))
    function, expected = functions(rng, 1, depth=0)[0], np.zeros(20)
    expected = function.evaluate(w)
    for _ in range(depth):
        others = functions(rng, 2, depth=0)
        weight = float(rng.choice([-2.0, -0.5, 0.0, 0.5, 2.0]))
        function = PiecewiseLinear.maximum([function * weight + others[0], others[1]])
        expected = np.maximum(expected * weight + others[0].evaluate(w), others[1].evaluate(w))
    np.testing.assert_allclose(function.evaluate(w), expected, rtol=1e-9, atol=1e-9)


def test_nested_maxima_become_one() -> None:
    inner = PiecewiseLinear.maximum([Y, Z])
    (term,) = PiecewiseLinear.maximum([X, inner * 2.0 + ONE]).terms
    assert term.weight == 1.0
    assert [(a.coefficients.tolist(), a.constant) for a in term.arguments] == [
        ([1.0, 0.0, 0.0], 0.0),
        ([0.0, 2.0, 0.0], 1.0),
        ([0.0, 0.0, 2.0], 1.0),
    ]


def test_a_minimum_inside_a_maximum_stays() -> None:
    (term,) = PiecewiseLinear.maximum([X, PiecewiseLinear.minimum([Y, Z])]).terms
    assert [len(argument.terms) for argument in term.arguments] == [0, 1]


@quick
@given(seeds, st.sampled_from([0.0, 0.3, 1.0]))
def test_bounds_contain_every_value(seed: int, endless: float) -> None:
    rng = np.random.default_rng(seed)
    lower, upper = random_box(rng, endless)
    (function,) = functions(rng, 1)
    low, high = function.bounds(lower, upper)
    assert not np.isnan([low, high]).any()
    assert low < np.inf
    assert high > -np.inf
    values = function.evaluate(samples(rng, lower, upper))
    slack = 1e-9 * np.maximum(1.0, np.abs(values))
    assert (values >= low - slack).all()
    assert (values <= high + slack).all()


@quick
@given(seeds)
def test_bounds_of_many_boxes_are_those_of_each(seed: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = [random_box(rng, 0.2) for _ in range(5)]
    (function,) = functions(rng, 1)
    low, high = function.bounds(np.array([b for b, _ in boxes]), np.array([b for _, b in boxes]))
    each = [function.bounds(*box) for box in boxes]
    np.testing.assert_allclose(low, [a for a, _ in each], rtol=1e-12)
    np.testing.assert_allclose(high, [b for _, b in each], rtol=1e-12)


@quick
@given(seeds)
def test_bounds_of_affine_functions_are_attained(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lower, upper = random_box(rng, 0.0)
    (function,) = functions(rng, 1, depth=0)
    corners = np.array(np.meshgrid(*zip(lower, upper, strict=True))).reshape(WIDTH, -1).T
    values = function.evaluate(corners)
    np.testing.assert_allclose(function.bounds(lower, upper), [values.min(), values.max()], rtol=1e-9, atol=1e-9)


def test_bounds_of_maxima_of_separate_variables_are_attained() -> None:
    lower, upper = np.array([1.0, 3.0, -1.0]), np.array([5.0, 4.0, 0.0])
    assert_bounds(PiecewiseLinear.maximum([X, Y, Z]), lower, upper, 3.0, 5.0)
    assert_bounds(PiecewiseLinear.minimum([X, Y, ONE]) * 2.0, lower, upper, 2.0, 2.0)


def test_an_absolute_value_is_never_negative_even_without_bounds() -> None:
    endless = np.full(3, np.inf)
    size = PiecewiseLinear.maximum([X, -X])
    assert_bounds(size, -endless, endless, 0.0, np.inf)
    assert_bounds(size * -2.0 + ONE, -endless, endless, -np.inf, 1.0)


def test_infinite_sides_that_are_not_read_do_not_matter() -> None:
    lower, upper = np.array([-np.inf, 1.0, -np.inf]), np.array([np.inf, 2.0, np.inf])
    assert_bounds(Y * 3.0, lower, upper, 3.0, 6.0)
    assert_bounds(X * 0.0 + ONE, lower, upper, 1.0, 1.0)
    assert_bounds(PiecewiseLinear.maximum([X, Z]) * 0.0 + Y, lower, upper, 1.0, 2.0)
    assert_bounds(PiecewiseLinear.constant_of(0.0, 3), lower, upper, 0.0, 0.0)


def test_a_weight_that_underflows_is_dropped() -> None:
    """Otherwise 0 · inf would make bounds of unbounded variables NaN."""
    endless = np.full(3, np.inf)
    for tiny in (PiecewiseLinear.maximum([X, Y]) * 1e-200 * 1e-200, PiecewiseLinear.maximum([X, Y]) / 1e200 / 1e200):
        assert tiny.terms == ()
        assert_bounds(tiny, -endless, endless, 0.0, 0.0)


@quick
@given(seeds)
def test_only_the_support_is_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    function = random_function(rng, sorted(rng.choice(WIDTH, size=2, replace=False).tolist()), WIDTH)
    w = rng.normal(size=(10, WIDTH))
    other = np.where(function.support(), w, rng.normal(size=(10, WIDTH)))
    np.testing.assert_array_equal(function.evaluate(w), function.evaluate(other))


@pytest.mark.parametrize(
    ("function", "constant"),
    [(ONE, True), (X - X, True), (X * 0.0, True), (X, False), (PiecewiseLinear.maximum([X, Y]) * 0.0, True)],
)
def test_constants_are_recognised(function: PiecewiseLinear, constant: bool) -> None:
    assert function.is_constant is constant


def test_one_argument_is_its_own_maximum() -> None:
    assert PiecewiseLinear.maximum([X]) is X
    assert PiecewiseLinear.minimum([X]).coefficients.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_is_finite_looks_everywhere(bad: float) -> None:
    inside = PiecewiseLinear.maximum([X, PiecewiseLinear.minimum([Y, Z])])
    assert inside.is_finite
    assert not (inside + PiecewiseLinear.constant_of(bad, 3)).is_finite
    assert not PiecewiseLinear.maximum([X, PiecewiseLinear.constant_of(bad, 3)]).is_finite
    assert not PiecewiseLinear(X.coefficients, 0.0, (MaxTerm(bad, (X, Y)),)).is_finite


@quick
@given(seeds)
def test_the_digest_tells_functions_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (function,) = functions(rng, 1)
    (again,) = functions(np.random.default_rng(seed), 1)
    assert function.digest() == again.digest()
    assert function.digest() != (function + PiecewiseLinear.constant_of(1e-9, WIDTH)).digest()
    assert PiecewiseLinear.maximum([X, Y]).digest() != PiecewiseLinear.maximum([X, Z]).digest()
