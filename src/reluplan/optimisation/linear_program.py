"""A linear program in HiGHS that may get further rows after it was solved."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reluplan.optimisation.model import Model
from reluplan.optimisation.scaling import is_wide

Array = NDArray[np.float64]

OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "solver": "simplex",
    "small_matrix_value": 1e-12,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-7,
    "mip_rel_gap": 1e-4,
    "mip_feasibility_tolerance": 1e-9,
}
MOST_ITERATIONS = 20_000
"""And twenty for each row: more than any of these small programs needs, and an end to those that cycle."""
MIP_SECONDS = 2.0
"""The longest that a program with integer columns may take."""
FEASIBLE = 2
"""HighsInfo.primal_solution_status of a feasible point."""


class LinearProgram:
    """max objective · x over the rows and bounds of a model; integer columns make it a small MILP."""

    def __init__(self, model: Model, warm_start: Any = None) -> None:
        create: Any = highspy.Highs  # its constructor has no types
        self._highs = create()
        for option, value in OPTIONS.items():
            self._highs.setOptionValue(option, value)
        model = replace(model, integer=model.integer & ~is_wide(model))  # the simulation rounds
        self._is_mip = bool(model.integer.any())
        self._until = math.inf
        for event in (self._highs.cbMipInterrupt, self._highs.cbSimplexInterrupt):
            event.subscribe(self._stop_if_late)
        self._highs.setOptionValue("simplex_iteration_limit", MOST_ITERATIONS + 20 * model.row_count)
        self._pass(model)
        if warm_start is not None and len(warm_start.row_status) == model.row_count:
            self._highs.setBasis(warm_start)

    def _pass(self, model: Model) -> None:
        matrix = model.matrix
        status = self._highs.passModel(
            model.column_count, model.row_count, matrix.nnz, int(highspy.MatrixFormat.kRowwise),
            int(highspy.ObjSense.kMaximize), model.offset, model.objective, model.column_lower, model.column_upper,
            model.row_lower, model.row_upper, matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32),
            matrix.data, model.integer.astype(np.int32),
        )  # fmt: skip
        self._refused = status == highspy.HighsStatus.kError  # numbers too large, say: there is no step from there

    def solve(self, time_limit: float) -> Array | None:
        """A maximiser, None if there is none or the time is up."""
        if self._refused:
            return None
        limit = min(time_limit, MIP_SECONDS) if self._is_mip else time_limit
        self._until = time.monotonic() + limit
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(limit, 1e-3))
        self._highs.run()
        optimal = self._highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        if not optimal and not (self._is_mip and self._highs.getInfo().primal_solution_status == FEASIBLE):
            return None
        return np.array(self._highs.getSolution().col_value, dtype=np.float64)

    def _stop_if_late(self, event: Any) -> None:
        """HiGHS's own clock is not looked at everywhere: it has run for minutes beyond a limit of a second."""
        if time.monotonic() > self._until:
            event.data_in.user_interrupt = True

    @property
    def objective(self) -> float:
        """The maximum found by the last `solve`."""
        return float(self._highs.getObjectiveValue())

    @property
    def row_duals(self) -> Array:
        """The multiplier of each row in the last `solve`."""
        return np.array(self._highs.getSolution().row_dual, dtype=np.float64)

    @property
    def basis(self) -> Any:
        """A basis to start a similar program from."""
        return self._highs.getBasis()

    @property
    def row_count(self) -> int:
        return int(self._highs.getNumRow())

    def add_rows(self, matrix: sparse.csr_array, lower: Array, upper: Array) -> None:
        """Append rows; the next `solve` starts from the last basis."""
        self._highs.addRows(
            matrix.shape[0], lower, upper, matrix.nnz, matrix.indptr.astype(np.int32)[:-1],
            matrix.indices.astype(np.int32), matrix.data,
        )  # fmt: skip
