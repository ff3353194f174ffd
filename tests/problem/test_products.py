"""Products with known numbers: values, bounds, slopes, rows and linear forms of functions that have them."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_function, with_products
from reluplan.optimisation.model import Index, ModelBuilder
from reluplan.optimisation.piecewise_rows import PiecewiseEncoder, Side
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.problem.piecewise import Array, PiecewiseLinear, product_bounds
from reluplan.problem.relu_compiler import ReluCompiler
from reluplan.search.slopes import largest_slope, value_and_slope
from reluplan.search.step_forms import StepForms, step_forms

WIDTH, VARIABLES, SERIES = 5, [0, 1, 2], [3, 4]
quick = settings(deadline=None, max_examples=100)
seeds = st.integers(0, 2**32 - 1)
X, Y, Z, P, Q = (PiecewiseLinear.variable(i, WIDTH) for i in range(WIDTH))


def drawn(rng: np.random.Generator, depth: int = 2) -> PiecewiseLinear:
    return with_products(rng, random_function(rng, VARIABLES, WIDTH, depth), SERIES)


def boxes(rng: np.random.Generator, count: int, points: bool) -> tuple[Array, Array]:
    """Boxes of variables; series have one value each where points are asked for."""
    lower = np.round(rng.normal(scale=2.0, size=(count, WIDTH)), 1)
    upper = lower + np.round(rng.exponential(2.0, size=(count, WIDTH)), 1)
    if points:
        upper[:, SERIES] = lower[:, SERIES]
    return lower, upper


def test_values() -> None:
    w = np.random.default_rng(0).normal(size=(50, WIDTH))
    x, y, _, p, q = w.T
    cases = [
        (X.times(P) - Y.times(Q, divides=True) * 3.0, x * p - 3.0 * y / q),
        (PiecewiseLinear.absolute(X.times(P) + Y), np.abs(x * p + y)),
        (PiecewiseLinear.maximum([X.times(P), Y.times(Q), X]), np.maximum(np.maximum(x * p, y * q), x)),
        ((PiecewiseLinear.absolute(X) + Y).times(PiecewiseLinear.absolute(P) + Q), (np.abs(x) + y) * (np.abs(p) + q)),
        (X.times(P.times(Q)) / 4.0, x * p * q / 4.0),
        (PiecewiseLinear.total([X.times(P), X, X.times(P)]), 2.0 * x * p + x),
        (-X.times(P) * 0.0, np.zeros(50)),
    ]
    for function, expected in cases:
        np.testing.assert_allclose(function.evaluate(w), expected, rtol=1e-12, atol=1e-12)
        assert (function * 0.0).is_constant
    assert X.times(P).has_products
    assert PiecewiseLinear.absolute(X.times(P)).has_products
    assert not PiecewiseLinear.absolute(X).has_products
    np.testing.assert_array_equal(PiecewiseLinear.absolute(X.times(P) + Z).support(), [True, False, True, True, False])
    assert not PiecewiseLinear.absolute(X.times(P, divides=True) + PiecewiseLinear.constant_of(np.inf, WIDTH)).is_finite


def test_a_product_is_no_relu() -> None:
    with pytest.raises(ValueError, match="series"):
        ReluCompiler(WIDTH, []).append(X.times(P))


def test_other_products_have_other_digests() -> None:
    functions = [X, X.times(P), X.times(Q), Y.times(P), X.times(P, divides=True), X.times(P) * 2.0, X.times(P * 2.0)]
    assert len({function.digest() for function in functions}) == len(functions)
    copy = pickle.loads(pickle.dumps(functions))
    assert [function.digest() for function in copy] == [function.digest() for function in functions]


def test_products_of_intervals() -> None:
    infinite, zero = (np.array(-np.inf), np.array(np.inf)), (np.array(0.0), np.array(0.0))
    assert [float(side) for side in product_bounds(infinite, zero)] == [0.0, 0.0]
    low, high = product_bounds((np.array(-1.0), np.array(2.0)), (np.array(-3.0), np.array(0.5)))
    assert low <= -6.0 <= low + 1e-12
    assert high - 1e-12 <= 3.0 <= high


@quick
@given(seeds, st.booleans())
def test_bounds_hold_everywhere(seed: int, points: bool) -> None:
    rng = np.random.default_rng(seed)
    function = drawn(rng)
    lower, upper = boxes(rng, 3, points)
    low, high = function.bounds(lower, upper)
    share = rng.random((200, 3, WIDTH))
    share = np.where(rng.random(share.shape) < 0.4, np.round(share), share)
    values = function.evaluate(lower + share * (upper - lower))
    scale = 1e-9 * np.maximum(1.0, np.abs(values))
    assert (values >= low - scale).all()
    assert (values <= high + scale).all()


@quick
@given(seeds)
def test_slopes_are_those_of_the_values(seed: int) -> None:
    """The difference along a short way of the variables, wherever no maximum changes its argument on it."""
    rng = np.random.default_rng(seed)
    function = drawn(rng)
    w = rng.normal(size=(30, WIDTH))
    value, slope = value_and_slope(function, w)
    np.testing.assert_allclose(value, function.evaluate(w), rtol=1e-9, atol=1e-9)
    way = np.zeros(WIDTH)
    way[VARIABLES] = 1e-7 * rng.normal(size=len(VARIABLES))
    ahead = function.evaluate(w + way) - value
    behind = value - function.evaluate(w - way)
    scale = 1e-9 * np.maximum(1.0, np.abs(value))
    smooth = np.abs(ahead - behind) <= scale
    np.testing.assert_allclose(ahead[smooth], (slope @ way)[smooth], atol=float(5.0 * scale.max()))
    box = w.min(axis=0), w.max(axis=0)
    if np.isfinite(function.bounds(*box)).all():  # otherwise a divisor may be zero, for all that is known
        assert np.abs(slope[:, VARIABLES]).max() <= largest_slope(function, *box) * (1.0 + 1e-9)


def extreme(builder: ModelBuilder, form: StepForms, fixed: tuple[Index, Array], direction: float) -> Array:
    """The largest (or smallest) value of a form at each step, with some columns fixed."""
    model = builder.build()
    lower, upper = model.column_lower.copy(), model.column_upper.copy()
    lower[fixed[0]] = upper[fixed[0]] = fixed[1]
    found = []
    for columns, coefficients, constant in zip(form.columns, form.coefficients, form.constants, strict=True):
        objective = np.zeros(model.column_count)
        np.add.at(objective, columns, direction * coefficients)
        changed = dataclasses.replace(model, column_lower=lower, column_upper=upper, objective=objective)
        outcome = HighsSolver().solve(changed, SolveOptions(gap=0.0))
        assert outcome.objective is not None
        found.append(direction * outcome.objective + constant)
    return np.array(found)


DIRECTIONS = {Side.BELOW: (1.0,), Side.ABOVE: (-1.0,), Side.EXACT: (1.0, -1.0)}


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from(list(Side)), st.booleans())
def test_rows_hold_the_value(seed: int, side: Side, points: bool) -> None:
    """Where series have one value at each step, the encoded function stops at its value; otherwise not before it."""
    rng = np.random.default_rng(seed)
    function = drawn(rng, depth=1)
    lower, upper = boxes(rng, 3, points)
    builder = ModelBuilder()
    columns = builder.add_columns(lower, upper)
    encoder = PiecewiseEncoder(builder, columns, lower, upper)
    encoded = encoder.encode(function, side, "reward")
    form = StepForms(encoded.columns, np.tile(encoded.coefficients, (3, 1)), np.full(3, encoded.constant))
    w = lower + rng.random((3, WIDTH)) * (upper - lower)
    expected = function.evaluate(w)
    scale = 1e-6 * max(1.0, float(np.abs(function.bounds(lower, upper)).max()))
    for direction in DIRECTIONS[side]:
        found = extreme(builder, form, (columns, w), direction)
        assert (direction * (found - expected) >= -scale).all()
        if points:
            np.testing.assert_allclose(found, expected, atol=scale)
    x = np.zeros(builder.build().column_count)
    x[columns] = w
    for term in encoder.terms:
        term.fill(x, w)
    assert builder.build().violation(x) <= scale
    np.testing.assert_allclose((x[form.columns] * form.coefficients).sum(axis=1) + form.constants, expected, atol=scale)


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from([Side.BELOW, Side.ABOVE]))
def test_linear_forms_around_a_plan(seed: int, side: Side) -> None:
    """They have the function's value at the plan, and elsewhere nothing beyond it on the side that is excluded."""
    rng = np.random.default_rng(seed)
    function = drawn(rng, depth=1)
    w = np.round(rng.normal(size=(3, WIDTH)), 2)
    builder = ModelBuilder()
    reach = np.where(np.isin(np.arange(WIDTH), SERIES), 0.0, 2.0)
    columns = builder.add_columns(w - reach, w + reach)
    form = step_forms(builder, function, side, columns, w)
    direction = DIRECTIONS[side][0]
    np.testing.assert_allclose(extreme(builder, form, (columns, w), direction), function.evaluate(w), atol=1e-6)


def test_a_long_chain_of_products_takes_linear_work() -> None:
    function = X
    for _ in range(60):
        function = PiecewiseLinear.absolute(function.times(P))
    assert len(function.maxima()) == 60
    w = np.array([[2.0, 0.0, 0.0, 0.99, 0.0]])
    assert function.evaluate(w) == pytest.approx(2.0 * 0.99**60)
    assert float(function.bounds(w, w)[1][0]) == pytest.approx(2.0 * 0.99**60)
    assert value_and_slope(function, w)[1][0, 0] == pytest.approx(0.99**60)
