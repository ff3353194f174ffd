"""A small LP that stays in memory while objectives change, with bounds that hold whatever the solver did."""

from __future__ import annotations

import math
from typing import Any

import highspy
import numpy as np
from scipy import sparse

from reluplan import clock
from reluplan.errors import InfeasibleError, SolverError
from reluplan.optimisation.model import Array, Index, Model
from reluplan.optimisation.safe_bound import highs_row_duals, safe_upper_bound_of_arrays
from reluplan.optimisation.solvers.highs_model import ENTRY_LIMITS, pass_model


class PersistentLp:
    """max c·x over fixed rows (integrality ignored), for one c after another; columns and rows may be appended."""

    def __init__(self, model: Model) -> None:
        self._matrix: Array = np.ascontiguousarray(model.matrix.toarray())
        self._row_lower, self._row_upper = model.row_lower.copy(), model.row_upper.copy()
        self._lower, self._upper = model.column_lower.copy(), model.column_upper.copy()
        self._costed = np.zeros(0, dtype=np.int32)
        self._highs = _quiet_highs(self._lower, self._upper, self._matrix, self._row_lower, self._row_upper)
        self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize)

    @property
    def row_count(self) -> int:
        return len(self._row_lower)

    @property
    def column_count(self) -> int:
        return len(self._lower)

    def add_columns(self, lower: Array, upper: Array) -> Index:
        """Append columns with these bounds and no entries; returns their indices."""
        start = len(self._lower)
        self._highs.addVars(len(lower), lower, upper)
        self._lower, self._upper = np.concatenate([self._lower, lower]), np.concatenate([self._upper, upper])
        self._matrix = np.hstack([self._matrix, np.zeros((len(self._matrix), len(lower)))])
        return np.arange(start, start + len(lower))

    def add_rows(self, rows: Array, lower: Array, upper: Array) -> None:
        """Append lower <= rows · x <= upper, rows (k, columns); all of a layer at once, since each call copies."""
        self._matrix = np.vstack([self._matrix, rows])
        self._row_lower, self._row_upper = np.append(self._row_lower, lower), np.append(self._row_upper, upper)
        _append(self._highs, rows, lower, upper)
        clock.spend(self._matrix.size)

    def set_bounds(self, column: int, lower: float, upper: float) -> None:
        """Replace the bounds of a column; finite ones make the proofs of `maximum` possible."""
        self._lower[column], self._upper[column] = lower, upper
        self._highs.changeColBounds(column, lower, upper)

    def maximum(self, columns: Index, values: Array, deadline: float = math.inf) -> float:
        """An upper bound of values · x[columns], proven by duality; +inf if there is none.

        The LP ends at the deadline (of clock.now); the bound is then that of the columns' own bounds. Raises
        InfeasibleError if no x satisfies the rows.
        """
        self._set_objective(columns, values)
        run_until(self._highs, deadline, 2.0 * self._matrix.size)
        status = self._highs.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            self._confirm_empty()
        objective = np.zeros(len(self._lower))
        objective[columns] = values
        solved = status == highspy.HighsModelStatus.kOptimal
        duals = highs_row_duals(self._highs) if solved else np.zeros(len(self._matrix))
        return safe_upper_bound_of_arrays(
            objective, self._matrix, self._row_lower, self._row_upper, self._lower, self._upper, duals
        )

    def _set_objective(self, columns: Index, values: Array) -> None:
        if len(self._costed):
            self._highs.changeColsCost(len(self._costed), self._costed, np.zeros(len(self._costed)))
        self._costed = columns.astype(np.int32)
        self._highs.changeColsCost(len(columns), self._costed, values)

    def _confirm_empty(self) -> None:
        """Infeasible within tolerances is not yet empty: only multipliers y that prove max 0 · x < 0 (Farkas) are.

        HiGHS's ray is such a y up to its sign and to rounding; the proof is in exact arithmetic, as for every bound.
        """
        _status, has_ray, ray = self._highs.getDualRay()
        if not has_ray:
            return
        nothing, y = np.zeros(len(self._lower)), np.array(ray, dtype=np.float64)
        for duals in (y, -y):
            bound = safe_upper_bound_of_arrays(
                nothing, self._matrix, self._row_lower, self._row_upper, self._lower, self._upper, duals
            )
            if bound < 0.0:
                raise InfeasibleError("no point satisfies the constraints")


def row_duals(model: Model, time_limit: float) -> Array | None:
    """Optimal multipliers of the rows of a model's LP relaxation, in the sign convention of `safe`; None if the LP has
    no optimum or the time is up."""
    highs = _silent_highs()
    highs.setOptionValue("time_limit", time_limit)
    pass_model(highs, model, relaxed=True)
    highs.run()
    return highs_row_duals(highs) if highs.getModelStatus() == highspy.HighsModelStatus.kOptimal else None


def _quiet_highs(lower: Array, upper: Array, matrix: Array, row_lower: Array, row_upper: Array) -> Any:
    highs = _silent_highs()
    highs.setOptionValue("presolve", "off")
    highs.setOptionValue("solver", "simplex")
    highs.addVars(len(lower), lower, upper)
    _append(highs, matrix, row_lower, row_upper)
    return highs


def _silent_highs() -> Any:
    create: Any = highspy.Highs  # its constructor has no types
    highs = create()
    for option, value in {"output_flag": False, "threads": 1, **ENTRY_LIMITS}.items():
        highs.setOptionValue(option, value)
    return highs


def _append(highs: Any, rows: Array, lower: Array, upper: Array) -> None:
    entries = sparse.csr_array(rows)
    starts, columns = entries.indptr.astype(np.int32), entries.indices.astype(np.int32)
    status = highs.addRows(len(rows), lower, upper, entries.nnz, starts[:-1], columns, entries.data)
    if len(rows) and status == highspy.HighsStatus.kError:
        raise SolverError("HiGHS refused the rows of a bounding LP")


def run_until(highs: Any, deadline: float, operations: float) -> None:
    """Solve, but no longer than until the deadline; operations: of one iteration, about."""
    seconds, iterations = clock.lp_limits(deadline, operations)
    highs.setOptionValue("time_limit", highs.getRunTime() + seconds)
    highs.setOptionValue("simplex_iteration_limit", iterations)
    highs.run()
    clock.spend(operations * max(1, highs.getInfo().simplex_iteration_count))
