"""Scaling: exact, harmless, and the cure for models in odd units, for every solver."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from random_models import Array, feasible_model, in_other_units, optimum, random_model
from reluplan.optimisation.model import Model
from reluplan.optimisation.scaling import column_sizes, row_sizes, scale_model, widen
from reluplan.optimisation.solvers import SOLVER_NAMES, get_solver
from reluplan.optimisation.solvers.base import Progress, SolveOptions, SolveStatus

seeds = st.integers(0, 100_000)


@given(seed=seeds, spread=st.sampled_from([0.0, 3.0, 12.0]))
def test_values_are_the_same_and_the_way_back_is_exact(seed: int, spread: float) -> None:
    model, rng = _oddly_scaled(seed, spread), np.random.default_rng(seed)
    scaled = scale_model(model)
    for _ in range(5):
        x = rng.normal(size=model.column_count) * 10.0 ** rng.uniform(-9, 9, model.column_count)
        z = scaled.to_scaled(x)
        np.testing.assert_array_equal(scaled.from_scaled(z), x)
        assert scaled.from_scaled_value(scaled.model.value(z)) == model.value(x)
    np.testing.assert_array_equal(scaled.from_scaled(scaled.model.column_upper), model.column_upper)


@settings(deadline=None)
@given(seed=seeds)
def test_the_optimum_is_the_same(seed: int) -> None:
    model = random_model(seed)
    scaled = scale_model(model, 1e-9)
    best, scaled_best = optimum(model), optimum(scaled.model)
    assert (best is None) == (scaled_best is None)
    if best is not None and scaled_best is not None:
        assert scaled.from_scaled_value(scaled_best) == pytest.approx(best, abs=1e-6)


@given(seed=seeds, spread=st.sampled_from([0.0, 3.0, 12.0]))
def test_boxes_and_rows_have_size_one(seed: int, spread: float) -> None:
    model = _oddly_scaled(seed, spread)
    scaled = scale_model(model).model
    free = (scaled.column_lower < scaled.column_upper) & ~scaled.integer
    sizes = column_sizes(scaled)[free]
    assert ((sizes >= 1.0) & (sizes < 2.0)).all()
    np.testing.assert_array_equal(scaled.integer, model.integer)
    np.testing.assert_array_equal(scaled.column_upper[model.integer], model.column_upper[model.integer])
    used = (abs(scaled.matrix) @ free.astype(float)) > 0.0
    assert (row_sizes(scaled)[used] < 4.0).all()


@given(seed=seeds, spread=st.sampled_from([6.0, 20.0]), smallest=st.sampled_from([1e-12, 1e-9, 1e-3]))
def test_small_entries_leave_without_cutting_anything(seed: int, spread: float, smallest: float) -> None:
    """Rows that are tight at a point of the box stay satisfied there, and no entry is left for a solver to drop."""
    rng = np.random.default_rng(seed)
    count = 6
    lower = rng.normal(size=count)
    upper = lower + rng.uniform(0.0, 2.0, count) * rng.integers(0, 2, count)
    matrix = rng.normal(size=(4, count)) * 10.0 ** -rng.uniform(0.0, spread, (4, count))
    point = rng.uniform(lower, upper)
    model = _model(np.ones(count), matrix, matrix @ point, matrix @ point, lower, upper)
    scaled = scale_model(model, smallest)
    assert (np.abs(scaled.model.matrix.data) > smallest).all()
    assert scaled.model.violation(scaled.to_scaled(point)) <= 1e-9


def test_moved_entry_widens_the_row_by_its_range() -> None:
    """x + 1e-13 y = 1, 0 <= x, y <= 1: what is left is 1 - 1e-13 <= x <= 1."""
    model = _model(np.ones(2), np.array([[1.0, 1e-13]]), np.ones(1), np.ones(1), np.zeros(2), np.ones(2))
    scaled = scale_model(model, 1e-12).model
    np.testing.assert_array_equal(scaled.matrix.toarray(), [[1.0, 0.0]])
    np.testing.assert_array_equal(scaled.row_upper, [1.0])
    np.testing.assert_allclose(1.0 - scaled.row_lower, [1e-13], rtol=1e-2)
    np.testing.assert_array_equal(scale_model(model, 1e-14).model.matrix.toarray(), model.matrix.toarray())


def test_small_entry_of_an_endless_column_stays_and_grows() -> None:
    upper = np.array([1.0, math.inf])
    model = _model(np.ones(2), np.array([[1.0, 1e-13]]), np.ones(1), np.ones(1), np.zeros(2), upper)
    scaled = scale_model(model, 1e-12).model
    assert (scaled.matrix.data > 1e-12).all()
    assert scaled.matrix.data[0] / scaled.matrix.data[1] == pytest.approx(1e13)


def test_rows_of_whole_numbers_and_ordinary_models_stay_as_they_are() -> None:
    matrix = np.array([[3.0, 5.0, 700.0, 0.0], [0.0, 0.0, 1.0, -1.5]])
    model = _model(np.ones(4), matrix, np.zeros(2), np.ones(2), np.zeros(4), np.array([9.0, 9.0, 9.0, 1.0]))
    scaled = scale_model(replace(model, integer=np.arange(4) < 3), 1e-9)
    np.testing.assert_array_equal(scaled.model.matrix.toarray(), matrix)
    assert not scaled.exponents.any()


def test_a_narrow_box_far_from_zero_keeps_its_width() -> None:
    """In units of 1e8 the width of 1 would vanish in the tolerance."""
    lower, upper = np.array([1e8, 1e8]), np.array([1e8 + 1.0, 1e8])
    scaled = scale_model(_model(np.ones(2), np.ones((1, 2)), np.zeros(1), np.full(1, 3e8), lower, upper)).model
    assert scaled.column_upper[0] - scaled.column_lower[0] > 1e-3
    assert scaled.matrix.nnz == 1  # the fixed column has left


def test_widening_is_relative_and_spares_integers() -> None:
    lower, upper = np.array([0.0, -4e6, 0.0]), np.array([2e6, math.inf, 7.0])
    model = _model(np.ones(3), np.array([[1e-6, 0.0, 0.0]]), np.zeros(1), np.array([5.0]), lower, upper)
    wide = widen(replace(model, integer=np.array([False, False, True])), 1e-6)
    np.testing.assert_allclose(wide.column_lower, [-2.0, -4e6 - 4.0, 0.0])
    np.testing.assert_allclose(wide.column_upper, [2e6 + 2.0, math.inf, 7.0])
    np.testing.assert_allclose([wide.row_lower[0], wide.row_upper[0]], [-2e-6, 5.0 + 5e-6])


@pytest.mark.parametrize("name", SOLVER_NAMES)
@pytest.mark.parametrize("unit", [1e-9, 1e-6, 1e6, 1e9])
def test_units_do_not_matter(name: str, unit: float) -> None:
    for seed in range(0, 24, 4):
        model = _boxed(feasible_model(seed))
        best = optimum(model)
        other = in_other_units(model, np.where(model.integer, 1.0, unit))
        result = get_solver(name).solve(other, SolveOptions(gap=0.0))
        assert result.status is SolveStatus.OPTIMAL
        assert result.objective == pytest.approx(best, abs=1e-6)
        assert result.dual_bound == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("name", SOLVER_NAMES)
@pytest.mark.parametrize("exponent", [9, 12, 15])
def test_small_weights_of_large_inputs_are_kept(name: str, exponent: int) -> None:
    """max y, y <= w x + z + b, z - w x <= 0.5, w = 10^-exponent, x up to 1/w, z up to 1, b binary: 1 + 1 + 1."""
    weight = 10.0**-exponent
    matrix = np.array([[1.0, -weight, -1.0, -1.0], [0.0, -weight, 1.0, 0.0]])
    upper = np.array([10.0, 1.0 / weight, 1.0, 1.0])
    model = _model(np.eye(4)[0], matrix, np.full(2, -math.inf), np.array([0.0, 0.5]), np.zeros(4), upper)
    model = replace(model, integer=np.arange(4) == 3)
    result = get_solver(name).solve(model, SolveOptions())
    assert result.status is SolveStatus.OPTIMAL
    assert result.objective == pytest.approx(3.0, abs=1e-4)


@pytest.mark.parametrize("name", SOLVER_NAMES)
def test_starts_and_reports_are_in_the_units_of_the_caller(name: str) -> None:
    model = _boxed(next(m for m in map(feasible_model, range(1000)) if m.integer.any() and not m.integer.all()))
    other = in_other_units(model, np.where(model.integer, 1.0, 1e6))
    best = get_solver("highs").solve(other, SolveOptions(gap=0.0))
    seen: list[Progress] = []
    get_solver(name).solve(other, SolveOptions(gap=0.0, warm_start=best.solution, on_progress=seen.append))
    solutions = [progress for progress in seen if progress.solution is not None]
    for progress in solutions:
        assert progress.solution is not None
        assert other.value(progress.solution) == progress.incumbent
        assert other.violation(progress.solution) <= 1e-6 * 1e6


def _oddly_scaled(seed: int, spread: float) -> Model:
    """A random model whose continuous columns are measured in units that differ by many orders of magnitude."""
    model, rng = random_model(seed), np.random.default_rng(seed)
    factors = 10.0 ** rng.uniform(-spread, spread, model.column_count)
    return in_other_units(model, np.where(model.integer, 1.0, factors))


def _boxed(model: Model) -> Model:
    """Free columns have no unit to be scaled by; they reach at most 20 in these models."""
    return replace(
        model,
        column_lower=np.maximum(model.column_lower, -100.0),
        column_upper=np.minimum(model.column_upper, 100.0),
    )


def _model(objective: Array, matrix: Array, low: Array, high: Array, lower: Array, upper: Array) -> Model:
    integer = np.zeros(len(objective), dtype=bool)
    return Model(objective, 0.0, sparse.csr_array(matrix), low, high, lower, upper, integer)
