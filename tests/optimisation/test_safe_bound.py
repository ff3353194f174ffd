"""The safe bound: never below the optimum, whatever the duals; on it, with optimal ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from random_models import optimum, random_model
from reluplan.optimisation.model import Model
from reluplan.optimisation.safe_bound import highs_row_duals, safe_upper_bound, safe_upper_bound_of_arrays
from reluplan.optimisation.solvers.adapter import import_solver

Array = NDArray[np.float64]
seeds = st.integers(0, 100_000)


@given(seed=seeds, data=st.data())
def test_any_duals_give_a_bound(seed: int, data: st.DataObject) -> None:
    model = random_model(seed)
    best = optimum(_relaxed(model))
    duals = data.draw(st.lists(st.floats(width=64, allow_nan=True), min_size=model.row_count, max_size=model.row_count))
    if best is not None:
        assert safe_upper_bound(model, np.array(duals)) >= best - 1e-9


@given(seed=seeds, noise=st.sampled_from([0.0, 1e-6, 1.0]))
def test_near_optimal_duals_give_a_bound(seed: int, noise: float) -> None:
    model = random_model(seed)
    best = optimum(_relaxed(model))
    if best is not None:
        duals = highs_row_duals(_solved(model)) + noise * np.random.default_rng(seed).normal(size=model.row_count)
        assert safe_upper_bound(model, duals) >= best - 1e-9


@given(seed=seeds)
def test_optimal_duals_give_the_optimum(seed: int) -> None:
    model = _boxed(random_model(seed))
    best = optimum(_relaxed(model))
    if best is not None:
        assert safe_upper_bound(model, highs_row_duals(_solved(model))) == pytest.approx(best, abs=1e-6)
        assert safe_upper_bound(model, highs_row_duals(_solved(model, negated=True))) == pytest.approx(best, abs=1e-6)


@given(seed=seeds)
def test_dense_and_sparse_matrices_agree(seed: int) -> None:
    model = random_model(seed)
    duals = np.random.default_rng(seed).normal(size=model.row_count)
    others = (model.row_lower, model.row_upper, model.column_lower, model.column_upper, duals)
    sparsely = safe_upper_bound_of_arrays(model.objective, model.matrix, *others)
    densely = safe_upper_bound_of_arrays(model.objective, model.matrix.toarray(), *others)
    assert densely == pytest.approx(sparsely, abs=1e-9)


def test_it_is_exact_arithmetic_that_decides_about_infinite_columns() -> None:
    """0.1 + 0.2 - 0.3 rounds to 5.6e-17 and is 2.8e-17 exactly: not zero, so a free column makes it worthless."""
    matrix = sparse.csr_array(np.array([[0.1], [0.2], [-0.3]]))
    row, duals = np.full(3, 1.0), np.ones(3)
    free, none = np.array([math.inf]), np.zeros(1)
    assert safe_upper_bound_of_arrays(none, matrix, -row, row, -free, free, duals) == math.inf
    exact = sparse.csr_array(np.array([[0.5], [0.25], [-0.75]]))
    assert safe_upper_bound_of_arrays(none, exact, -row, row, -free, free, duals) == pytest.approx(3.0)


def test_rounding_is_outward() -> None:
    """A column of size 1e16 turns the rounding error of its reduced cost, about 1e-16, into whole units."""
    matrix = sparse.csr_array(np.array([[0.1], [0.2], [-0.3]]))
    row, wide = np.zeros(3), np.array([1e16])
    bound = safe_upper_bound_of_arrays(np.zeros(1), matrix, row, row, -wide, wide, -np.ones(3))
    assert 0.2775 <= bound <= 20.0


def test_duals_that_price_an_absent_side_are_dropped() -> None:
    """max x, x <= 2 by a row with an upper side only, 0 <= x <= 5."""
    matrix, one = sparse.csr_array(np.ones((1, 1))), np.ones(1)
    for dual, expected in [(1.0, 2.0), (-1.0, 5.0), (0.0, 5.0), (math.nan, 5.0), (math.inf, 5.0)]:
        bound = safe_upper_bound_of_arrays(
            one, matrix, np.array([-math.inf]), 2.0 * one, 0.0 * one, 5.0 * one, np.array([dual])
        )
        assert bound == pytest.approx(expected)


@pytest.mark.parametrize("side", [1e308, 1e200, math.inf])
def test_numbers_too_large_to_add_prove_nothing(side: float) -> None:
    """Sums of the rows' terms, of the columns', and the products of both overflow: no error, no warning, no bound."""
    matrix, huge = np.full((3, 3), 1e200), np.full(3, side)
    for duals in (np.zeros(3), np.ones(3), np.array([1e100, -1e100, 1.0])):
        bound = safe_upper_bound_of_arrays(np.ones(3), matrix, -huge, huge, -huge, huge, duals)
        assert bound == math.inf or bound >= 3.0 * side
    assert safe_upper_bound_of_arrays(np.ones(3), matrix, -huge, huge, -huge, huge, np.ones(3)) == math.inf


def _relaxed(model: Model) -> Model:
    return _with(model, integer=np.zeros(model.column_count, dtype=bool))


def _boxed(model: Model) -> Model:
    return _with(
        model,
        column_lower=np.maximum(model.column_lower, -1e3),
        column_upper=np.minimum(model.column_upper, 1e3),
    )


def _with(model: Model, **changes: NDArray[np.float64] | NDArray[np.bool_]) -> Model:
    return Model(**{**vars(model), **changes})


def _solved(model: Model, *, negated: bool = False) -> Any:
    """The LP relaxation, solved as the maximisation that it is or as the minimisation of the negated objective."""
    highspy = import_solver("highspy", "highs")
    highs = highspy.Highs()
    highs.silent()
    highs.addVars(model.column_count, model.column_lower, model.column_upper)
    dense = model.matrix.toarray()
    for row, lower, upper in zip(dense, model.row_lower, model.row_upper, strict=True):
        used = np.flatnonzero(row).astype(np.int32)
        highs.addRow(lower, upper, len(used), used, row[used])
    columns = np.arange(model.column_count, dtype=np.int32)
    highs.changeColsCost(len(columns), columns, -model.objective if negated else model.objective)
    highs.changeObjectiveSense(highspy.ObjSense.kMinimize if negated else highspy.ObjSense.kMaximize)
    highs.run()
    return highs
