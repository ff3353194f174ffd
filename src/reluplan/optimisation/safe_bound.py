"""A bound on a linear program that holds whatever the solver's tolerances did (Neumaier and Shcherbina, 2004).

For  max c x  subject to  L <= A x <= U,  l <= x <= u,  and ANY y, with r = c - A'y:

    c x = y (A x) + r x <= sum_i max(y_i L_i, y_i U_i) + sum_j max(r_j l_j, r_j u_j).

Sign convention: y_i > 0 prices the upper side of row i, y_i < 0 the lower one; this is what HiGHS returns for a
maximisation. With optimal duals the bound is the optimum; with poor ones it is weaker, never wrong. The bound of an LP
relaxation is a bound of its MILP.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse

from reluplan.optimisation.model import Array, Model

_UNIT_ROUNDOFF = 2.0**-53
_NEGLIGIBLE, _ABSURD = 1e-100, 1e100  # duals beyond are dropped, so that no product underflows or overflows


def safe_upper_bound(model: Model, row_duals: Array) -> float:
    """An upper bound, proven in exact arithmetic, of the model's LP relaxation; +inf if these duals prove none."""
    bound = safe_upper_bound_of_arrays(
        model.objective,
        model.matrix,
        model.row_lower,
        model.row_upper,
        model.column_lower,
        model.column_upper,
        row_duals,
    )
    return math.nextafter(bound + model.offset, math.inf)


def safe_upper_bound_of_arrays(
    objective: Array,
    matrix: sparse.csr_array | Array,
    row_lower: Array,
    row_upper: Array,
    column_lower: Array,
    column_upper: Array,
    row_duals: Array,
) -> float:
    """The same for max objective @ x over arrays, such as those of a persistent LP whose objective changes.

    A column with an infinite side allows no reduced cost towards it, however tiny: the bound is then +inf. Give every
    column finite bounds. Numbers so large that a sum overflows prove nothing either.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            bound = _bound(objective, matrix, row_lower, row_upper, column_lower, column_upper, row_duals)
    except OverflowError:  # math.fsum and fractions raise it, numpy gives inf or nan
        return math.inf
    return math.inf if math.isnan(bound) else bound


def _bound(
    objective: Array,
    matrix: sparse.csr_array | Array,
    row_lower: Array,
    row_upper: Array,
    column_lower: Array,
    column_upper: Array,
    row_duals: Array,
) -> float:
    """The bound, unless numbers overflow."""
    duals = admissible_duals(row_lower, row_upper, row_duals)
    reduced, error = _reduced_costs(objective, matrix, duals)
    _settle_signs(reduced, error, objective, matrix, duals, column_lower, column_upper)
    row_terms = _largest_products(duals, row_lower, row_upper)
    column_terms = _largest_products(reduced, column_lower, column_upper)
    terms = np.concatenate([row_terms, column_terms])
    if not np.isfinite(terms).all():
        return math.inf
    # Where one side is infinite the sign of the reduced cost is settled, and only the finite side can be the maximum.
    reach = np.maximum(_finite_size(column_lower), _finite_size(column_upper))
    # Twice each error covers the rounding of the margin itself.
    margin = 2.0 * (math.fsum(error * reach) + _UNIT_ROUNDOFF * math.fsum(np.abs(terms)))
    return math.nextafter(math.fsum(terms) + margin, math.inf)


def admissible_duals(row_lower: Array, row_upper: Array, row_duals: Array) -> Array:
    """The duals with every entry set to zero that prices an infinite side, or is not a number of use."""
    size = np.abs(row_duals)
    duals = np.where((size >= _NEGLIGIBLE) & (size <= _ABSURD), row_duals, 0.0)
    useless = ((duals > 0.0) & np.isinf(row_upper)) | ((duals < 0.0) & np.isinf(row_lower))
    return np.where(useless, 0.0, duals)


def highs_row_duals(highs: Any) -> Array:
    """The row duals of a solved highspy.Highs in the sign convention of this module.

    A model that HiGHS minimises is taken as the negated objective of our maximisation.
    """
    duals = np.array(highs.getSolution().row_dual, dtype=np.float64)
    _status, sense = highs.getObjectiveSense()
    return duals if sense.name == "kMaximize" else -duals


def _reduced_costs(objective: Array, matrix: sparse.csr_array | Array, duals: Array) -> tuple[Array, Array]:
    """c - A'y in floating point, and a bound on its rounding error: gamma_k * (|c| + |A|'|y|), k operations.

    Only nonzeros count: long horizons have thousands of rows, and a handful of entries per column.
    """
    reduced = objective - matrix.T @ duals
    operations = np.asarray((matrix != 0.0).sum(axis=0)) + 2
    size = np.abs(objective) + abs(matrix).T @ np.abs(duals)
    return reduced, 2.0 * operations * _UNIT_ROUNDOFF * size


def _settle_signs(
    reduced: Array,
    error: Array,
    objective: Array,
    matrix: sparse.csr_array | Array,
    duals: Array,
    column_lower: Array,
    column_upper: Array,
) -> None:
    """Make the sign of the reduced cost exact, in place, where a column has an infinite side and rounding hides it."""
    unbounded = np.isinf(column_lower) | np.isinf(column_upper)
    doubtful = np.flatnonzero(unbounded & (np.abs(reduced) <= error) & (error > 0.0))
    if not doubtful.size:
        return
    by_column = sparse.csc_array(matrix[:, doubtful])
    for position, column in enumerate(doubtful):
        entries = slice(by_column.indptr[position], by_column.indptr[position + 1])
        exact = Fraction(objective[column])
        for row, value in zip(by_column.indices[entries], by_column.data[entries], strict=True):
            exact -= Fraction(value) * Fraction(duals[row])
        reduced[column] = float(exact)
        if exact and not reduced[column]:  # the conversion underflowed
            reduced[column] = math.copysign(_NEGLIGIBLE, exact)


def _largest_products(factors: Array, lower: Array, upper: Array) -> Array:
    """The maximum of factor * z over lower <= z <= upper, with 0 * inf = 0."""
    side = np.where(factors > 0.0, upper, np.where(factors < 0.0, lower, 0.0))
    return factors * side


def _finite_size(side: Array) -> Array:
    return np.where(np.isfinite(side), np.abs(side), 0.0)
