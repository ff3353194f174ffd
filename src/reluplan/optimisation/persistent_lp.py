"""A small LP that stays in memory while objectives change, with bounds that hold whatever the solver did."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from reluplan import clock
from reluplan.errors import InfeasibleError, SolverError
from reluplan.optimisation.highs_program import SIMPLEX, HighsProgram
from reluplan.optimisation.model import Array, Index, Model
from reluplan.optimisation.safe_bound import safe_upper_bound_of_arrays
from reluplan.optimisation.solvers.highs_model import UNSCALED

Matrix = Any
"""An Array, or a scipy.sparse.csr_array, which has no types."""

MOST_DENSE = 1_000_000
"""Entries, zeros among them, of a matrix that is kept dense, which is quicker as long as it is small."""


class PersistentLp:
    """max c·x over fixed rows (integrality ignored), for one c after another; columns and rows may be appended."""

    def __init__(self, model: Model) -> None:
        is_small = model.row_count * model.column_count <= MOST_DENSE
        self._matrix: Matrix = (
            np.ascontiguousarray(model.matrix.toarray()) if is_small else sparse.csr_array(model.matrix)
        )
        self._row_lower, self._row_upper = model.row_lower.copy(), model.row_upper.copy()
        self._lower, self._upper = model.column_lower.copy(), model.column_upper.copy()
        self._costed = np.zeros(0, dtype=np.int64)
        without_objective = replace(model, objective=np.zeros(model.column_count), offset=0.0)
        self._program = HighsProgram(without_objective, SIMPLEX)
        self._require_accepted()

    @property
    def row_count(self) -> int:
        return len(self._row_lower)

    @property
    def column_count(self) -> int:
        return len(self._lower)

    def add_columns(self, lower: Array, upper: Array) -> Index:
        """Append columns with these bounds and no entries; returns their indices."""
        self._lower, self._upper = np.concatenate([self._lower, lower]), np.concatenate([self._upper, upper])
        self._matrix = _stacked([[self._matrix, np.zeros((self.row_count, len(lower)))]])
        return self._program.add_columns(lower, upper)

    def add_rows(self, rows: Array, lower: Array, upper: Array) -> None:
        """Append lower <= rows · x <= upper, rows (k, columns); all of a layer at once, since each call copies."""
        self._matrix = _stacked([[self._matrix], [rows]])
        self._row_lower, self._row_upper = np.append(self._row_lower, lower), np.append(self._row_upper, upper)
        self._program.add_rows(sparse.csr_array(rows), lower, upper)
        self._require_accepted()
        clock.spend(self._matrix.size)

    def set_bounds(self, column: int, lower: float, upper: float) -> None:
        """Replace the bounds of a column; finite ones make the proofs of `maximum` possible."""
        self._lower[column], self._upper[column] = lower, upper
        self._program.set_bounds(np.array([column]), np.array([lower]), np.array([upper]))

    def maximum(self, columns: Index, values: Array, deadline: float = math.inf) -> float:
        """An upper bound of values · x[columns], proven by duality; +inf if there is none.

        The LP ends at the deadline (of clock.now); the bound is then that of the columns' own bounds. Raises
        InfeasibleError if no x satisfies the rows.
        """
        self._set_objective(columns, values)
        self._program.run_until(deadline, 2.0 * self._matrix.size)  # of a sparse one the entries
        if self._program.is_infeasible:
            self._confirm_empty()
        objective = np.zeros(len(self._lower))
        objective[columns] = values
        duals = self._program.row_duals if self._program.is_optimal else np.zeros(self.row_count)
        return self._bound(objective, duals)

    @property
    def solution(self) -> Array | None:
        """Where the last maximum is, as the solver says, within its tolerances; None if it was not found."""
        return self._program.solution if self._program.is_optimal else None

    def _require_accepted(self) -> None:
        if self._program.is_refused:
            raise SolverError("HiGHS refused the rows of a bounding LP")

    def _set_objective(self, columns: Index, values: Array) -> None:
        if len(self._costed):
            self._program.set_costs(self._costed, np.zeros(len(self._costed)))
        self._costed = columns
        self._program.set_costs(columns, values)

    def _confirm_empty(self) -> None:
        """Infeasible within tolerances is not yet empty: only multipliers y that prove max 0 · x < 0 (Farkas) are.

        HiGHS's ray is such a y up to its sign and to rounding; the proof is in exact arithmetic, as for every bound.
        """
        ray = self._program.dual_ray()
        if ray is None:
            return
        nothing = np.zeros(len(self._lower))
        if any(self._bound(nothing, y) < 0.0 for y in (ray, -ray)):
            raise InfeasibleError("no point satisfies the constraints")

    def _bound(self, objective: Array, duals: Array) -> float:
        """What the duals prove."""
        return safe_upper_bound_of_arrays(
            objective, self._matrix, self._row_lower, self._row_upper, self._lower, self._upper, duals
        )


def _stacked(blocks: list[list[Matrix]]) -> Matrix:
    """One matrix of these, dense if all of them are."""
    if any(sparse.issparse(block) for row in blocks for block in row):
        return sparse.csr_array(sparse.block_array(blocks))
    return np.block(blocks)


def lp_bound(model: Model, deadline: float = math.inf) -> float:
    """An upper bound of a model's objective by its LP relaxation, proven by duality, offset included."""
    best = PersistentLp(model).maximum(np.arange(model.column_count), model.objective, deadline)
    return best + model.offset


def row_duals(model: Model, time_limit: float) -> Array | None:
    """Optimal multipliers of the rows of a model's LP relaxation, in the sign convention of `safe_bound`; None if the
    LP has no optimum or the time is up."""
    program = HighsProgram(model, UNSCALED)
    program.run_for(time_limit)
    return program.row_duals if program.is_optimal else None
