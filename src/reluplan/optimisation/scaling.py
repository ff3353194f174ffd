"""The same model in units that suit a solver, whose tolerances are absolute: boxes and rows of size about one.

With column factors d, row factors r and an objective factor o, all powers of two and so exact in floating point,
x = d * z turns

    max c x,  L <= A x <= U,  l <= x <= u    into    max (o c d) z,  r L <= (r A d) z <= r U,  l/d <= z <= u/d.

A state in millions, or in millionths, then meets the same tolerance relative to its box, and a weight that is small
only because its input is large no longer looks like zero. Integers cannot change their unit, and a solver's reduced
costs, pivots and rounding are right to an absolute tolerance, which a column of range 1e9 turns into an error of any
size: integers of wide range (`is_wide`) are continuous for the solver. That is a relaxation, so bounds stay bounds;
they lose what a fraction of one unit in more than sixteen thousand is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reluplan.optimisation.model import Array, Index, Model
from reluplan.problem.problem import WIDE

Exponents = NDArray[np.int32]
"""Not 64 bits: numpy's ldexp takes a C long at most, which has 32 on Windows."""

NARROWEST_BOX = 2.0**-20
"""A box narrower than this share of its largest number counts as that wide: rounding leaves no finer tolerance."""

SMALLEST_COST = 13
LARGEST_COST = 24
"""The largest |c_j| (u_j - l_j) is brought to 2**13 at least and 2**24 at most: far above the solvers' tolerance on
reduced costs, and not so far that rounding hides it."""

LARGEST_TERM = 50
"""No term c_j x_j becomes larger than 2**50: where all columns but fixed ones have hardly any range, what is brought up
is rounding, and costs of 1e20 are infinite to SCIP. The margin has 2**-50 of the terms for that."""

FAR = 2.0**10
"""A box further from zero than so many times its width is moved there."""

NARROWEST_RANGE = 2.0**-19
"""Of the two sides of a row of size one; twenty times the solvers' tolerance."""

ENDLESS = 2.0**20
"""An infinite range counts as this many units: no finite number would be an argument, this one is cautious."""

_ROUNDING = 2.0**-53
_LARGEST_EXPONENT = 900  # of a column factor; doubles end at 2**1023
_NO_SIZE = -(10**6)  # the exponent of zero, below that of every product of two doubles


@dataclass(frozen=True, eq=False)
class ScaledModel:
    """A model in other units, and the way there and back: x = shift + 2**exponents * z, 2**cost_exponent for values.

    cost_size: Σ_j |c_j| max(|l_j|, |u_j|) + |offset| in the original units, which rounding errors of values go by.
    """

    model: Model
    exponents: Exponents
    cost_exponent: int
    shift: Array
    cost_size: float

    def to_scaled(self, x: Array) -> Array:
        """A point of the original model in the units of this one."""
        scaled: Array = np.ldexp(x - self.shift, -self.exponents)
        return scaled

    def from_scaled(self, z: Array) -> Array:
        """A point of this model in the original units."""
        original: Array = self.shift + np.ldexp(z, self.exponents)
        return original

    def to_scaled_value(self, value: float) -> float:
        """An objective value, a bound or a gap in the units of this model."""
        return float(np.ldexp(value, self.cost_exponent))

    def from_scaled_value(self, value: float) -> float:
        """An objective value or a bound in the original units."""
        return float(np.ldexp(value, -self.cost_exponent))

    @cached_property
    def total_range(self) -> float:
        """Σ_j (u_j - l_j) over columns + Σ_i of the ranges of the rows' slacks, an infinite one as ENDLESS units.

        For duals y and reduced costs r = c - A'y whose signs are wrong by at most δ, the LP bound that a solver claims
        is too small by at most δ times this: each wrong sign costs its size times the range of its column or slack.
        """
        model = self.model
        columns = np.minimum(model.column_upper - model.column_lower, ENDLESS)
        activity = abs(model.matrix) @ columns
        with np.errstate(invalid="ignore"):
            slack = np.minimum(activity, model.row_upper - model.row_lower)
        return float(columns.sum() + np.minimum(slack, ENDLESS).sum())

    @cached_property
    def largest_cost(self) -> float:
        """The largest |c_j| (u_j - l_j) in the original units, infinite ranges as one."""
        return self.from_scaled_value(2.0 ** _largest_cost(self.model) if self.model.objective.any() else 0.0)


def scale_model(model: Model, smallest_entry: float = 0.0) -> ScaledModel:
    """Scale continuous columns by their `column_sizes`, rows by their `row_sizes`, and the objective by the largest
    that a column contributes; integers keep their units, unless they are wide and so continuous.

    Fixed columns, and entries that the solver would take for zero (|r A d| <= smallest_entry), leave the matrix for
    the row's sides: from a_j x_j in [p, q] and L <= rest + a_j x_j <= U follows L - q <= rest <= U - p. For a fixed
    column that is the same row, for a small entry a slightly wider one: a relaxation, never a cut. Small entries of a
    column with an infinite side cannot leave; the factor of their row is raised until they are small no more.
    """
    model = replace(model, integer=model.integer & ~is_wide(model))
    sizes = column_sizes(model)
    shift = _far_ends(model)
    cost_size = _cost_size(model)
    sizes = np.where((shift != 0.0) & ~model.integer, model.column_upper - model.column_lower, sizes)
    model = _shifted(model, shift)
    units = _exponent(sizes)
    columns = np.where(model.integer | (units == _NO_SIZE), np.int32(0), units)
    columns = np.clip(columns, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    places = _row_of_entry(model)
    rows = _row_exponents(model, units, columns, places, smallest_entry)
    data = np.ldexp(model.matrix.data, columns[model.matrix.indices] + rows[places])
    shape = (model.row_count, model.column_count)
    scaled = replace(
        model,
        objective=np.ldexp(model.objective, columns),
        matrix=sparse.csr_array((data, model.matrix.indices.copy(), model.matrix.indptr.copy()), shape=shape),
        row_lower=np.ldexp(model.row_lower, rows),
        row_upper=np.ldexp(model.row_upper, rows),
        column_lower=np.ldexp(model.column_lower, -columns),
        column_upper=np.ldexp(model.column_upper, -columns),
    )
    scaled = _without_thin_ranges(_with_rounded_sides(scaled, np.ldexp(shift, -columns)))
    scaled = _without_constants(scaled, places, smallest_entry)
    cost = _cost_exponent(scaled)
    scaled = replace(scaled, objective=np.ldexp(scaled.objective, cost), offset=float(np.ldexp(scaled.offset, cost)))
    return ScaledModel(scaled, columns, cost, shift, cost_size)


def is_wide(model: Model) -> NDArray[np.bool_]:
    """Which columns are integers of a range that solvers cannot be trusted with."""
    with np.errstate(invalid="ignore"):
        wide: NDArray[np.bool_] = model.integer & (model.column_upper - model.column_lower >= WIDE)
    return wide


def column_sizes(model: Model) -> Array:
    """max(u - l, 2**-20 max(|l|, |u|)) of every column; an infinite box, and a unit step of an integer, have size 1."""
    lower, upper = model.column_lower, model.column_upper
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.abs(upper - lower)
    width = np.where(np.isfinite(width), width, 1.0)
    sizes = np.maximum(width, NARROWEST_BOX * np.maximum(_finite(lower), _finite(upper)))
    return np.where(model.integer & (lower != upper), 1.0, sizes)


def row_sizes(model: Model) -> Array:
    """The largest |a_ij| size_j of every row."""
    sizes = np.zeros(model.row_count)
    terms = np.abs(model.matrix.data) * column_sizes(model)[model.matrix.indices]
    np.maximum.at(sizes, _row_of_entry(model), terms)
    return sizes


def widen(model: Model, share: float) -> Model:
    """The model with every side moved outward by share * max(|side|, size); integer columns stay as they are."""
    rows = row_sizes(model)
    columns = np.where(model.integer, 0.0, column_sizes(model))
    still = np.where(model.integer, 0.0, share)
    return replace(
        model,
        row_lower=model.row_lower - share * np.maximum(rows, _finite(model.row_lower)),
        row_upper=model.row_upper + share * np.maximum(rows, _finite(model.row_upper)),
        column_lower=model.column_lower - still * np.maximum(columns, _finite(model.column_lower)),
        column_upper=model.column_upper + still * np.maximum(columns, _finite(model.column_upper)),
    )


def _row_exponents(
    model: Model, units: Exponents, columns: Exponents, places: Index, smallest_entry: float
) -> Exponents:
    """The exponents of the row factors: minus that of the row's size, raised where an infinite column needs it."""
    entries = model.matrix.indices
    data = model.matrix.data
    largest = np.full(model.row_count, _NO_SIZE, dtype=np.int32)
    np.maximum.at(largest, places, _exponent(data) + units[entries])
    largest = np.where((largest <= _NO_SIZE // 2) | _whole_rows(model, places), np.int32(0), largest)
    endless = np.isinf(model.column_lower) | np.isinf(model.column_upper)
    chosen = endless[entries] & (data != 0.0)
    if smallest_entry > 0.0 and chosen.any():
        needed = np.full(model.row_count, _NO_SIZE, dtype=np.int32)
        floor = int(_exponent(np.array(smallest_entry))) + 1
        np.maximum.at(needed, places[chosen], floor - _exponent(data[chosen]) - columns[entries[chosen]])
        return np.maximum(-largest, needed)
    return -largest


def _far_ends(model: Model) -> Array:
    """The lower ends of boxes that are far from zero for their width, zero elsewhere.

    A column between 375,179,945 and 375,179,946 is one between 0 and 1 for the solver: to its tolerances both ends of
    the first are the same.
    """
    lower, upper = model.column_lower, model.column_upper
    with np.errstate(invalid="ignore"):
        far = (lower < upper) & (np.maximum(np.abs(lower), np.abs(upper)) > FAR * (upper - lower))
    return np.where(far & np.isfinite(lower) & np.isfinite(upper), lower, 0.0)


def _cost_size(model: Model) -> float:
    """Σ_j |c_j| max(|l_j|, |u_j|) + |offset|, over finite ends."""
    ends = np.maximum(_finite(model.column_lower), _finite(model.column_upper))
    return float(np.abs(model.objective) @ ends) + abs(model.offset)


def _with_rounded_sides(model: Model, shift: Array) -> Model:
    """The model, in which columns were moved by shift, with the sides of its rows moved outward by the rounding errors
    of that where these can be seen: above 2^-33 of a row's size, far below every solver's tolerance."""
    error = 4.0 * _ROUNDING * (abs(model.matrix) @ np.abs(shift))
    error = np.where(error > 2.0**-33, error, 0.0)
    return replace(model, row_lower=model.row_lower - error, row_upper=model.row_upper + error)


def _shifted(model: Model, shift: Array) -> Model:
    """The model in x − shift; its sides are rounded (`_with_rounded_sides`), its offset too (`cost_size`)."""
    if not shift.any():
        return model
    constant = model.matrix @ shift
    return replace(
        model,
        offset=model.offset + float(model.objective @ shift),
        row_lower=model.row_lower - constant,
        row_upper=model.row_upper - constant,
        column_lower=model.column_lower - shift,
        column_upper=model.column_upper - shift,
    )


def _without_thin_ranges(model: Model) -> Model:
    """The model with every range of a row, in units of its size, at least NARROWEST_RANGE wide: moved outward.

    A range below the solver's tolerance is no range for it; HiGHS was seen to cut off solutions with one of 1e-10, the
    rounding of a state in billions. Equations stay equations.
    """
    width = model.row_upper - model.row_lower
    thin = (width > 0.0) & (width < NARROWEST_RANGE)
    slack = np.where(thin, 0.5 * (NARROWEST_RANGE - np.where(thin, width, 0.0)), 0.0)
    return replace(model, row_lower=model.row_lower - slack, row_upper=model.row_upper + slack)


def _cost_exponent(model: Model) -> int:
    """The exponent of the objective's factor."""
    if not model.objective.any():
        return 0
    largest = _largest_cost(model)
    wanted = int(np.clip(0, SMALLEST_COST - largest, LARGEST_COST - largest))
    return min(wanted, LARGEST_TERM - _largest_term(model))


def _largest_term(model: Model) -> int:
    """floor(log2) of the largest |c_j| max(|l_j|, |u_j|), fixed columns included, infinite sides left out."""
    sides = np.maximum(
        *(np.where(np.isfinite(side), np.abs(side), 0.0) for side in (model.column_lower, model.column_upper))
    )
    exponents = _exponent(model.objective) + _exponent(np.maximum(sides, 1.0))
    return int(exponents.max(initial=_NO_SIZE))


def _largest_cost(model: Model) -> int:
    """floor(log2) of the largest |c_j| (u_j - l_j), fixed columns left out, infinite ranges as one."""
    width = model.column_upper - model.column_lower
    width = np.where(np.isfinite(width), width, 1.0)
    exponents = _exponent(model.objective) + _exponent(width)
    largest = int(exponents.max(initial=_NO_SIZE))
    return largest if largest > _NO_SIZE // 2 else int(_exponent(model.objective).max())


def _whole_rows(model: Model, places: Index) -> NDArray[np.bool_]:
    """Rows of integer columns and whole coefficients alone: solvers make use of that, so they stay as they are."""
    data = model.matrix.data
    whole = np.ones(model.row_count, dtype=bool)
    np.logical_and.at(whole, places, model.integer[model.matrix.indices] & (data == np.round(data)))
    return whole


def _without_constants(model: Model, places: Index, smallest_entry: float) -> Model:
    """The model with fixed columns and small entries moved into the sides of their rows."""
    entries = model.matrix.indices
    data = model.matrix.data
    lower, upper = model.column_lower[entries], model.column_upper[entries]
    bounded = np.isfinite(lower) & np.isfinite(upper)
    moved = bounded & ((lower == upper) | (np.abs(data) <= smallest_entry))
    if not moved.any():
        return model
    ends = np.stack([data[moved] * lower[moved], data[moved] * upper[moved]])
    least = np.zeros(model.row_count)
    most = np.zeros(model.row_count)
    np.add.at(least, places[moved], ends.min(axis=0))
    np.add.at(most, places[moved], ends.max(axis=0))
    # Rows have size one: what is below their own rounding would only turn equalities into hair-thin ranges.
    most = np.where(most - least <= _ROUNDING, least, most)
    matrix = model.matrix.copy()
    matrix.data[moved] = 0.0
    matrix.eliminate_zeros()
    return replace(model, matrix=matrix, row_lower=model.row_lower - most, row_upper=model.row_upper - least)


def _exponent(values: Array) -> Exponents:
    """floor(log2 |value|), exactly; far below all others for zero."""
    exponents: Exponents = np.where(values == 0.0, _NO_SIZE, np.frexp(values)[1] - 1).astype(np.int32)
    return exponents


def _row_of_entry(model: Model) -> Index:
    counts: Index = np.diff(model.matrix.indptr).astype(np.int64)
    return np.repeat(np.arange(model.row_count, dtype=np.int64), counts)


def _finite(side: Array) -> Array:
    return np.where(np.isfinite(side), np.abs(side), 0.0)
