"""A program that stays in HiGHS while its objective, bounds and rows change.

The one place where options are set, models are passed and deadlines kept, for programs that are solved again and again.

What is built on it: `PersistentLp`, whose optima are proven bounds, and `LinearProgram`, for steps of the search.
"""

from __future__ import annotations

import math
from typing import Any

import highspy
import numpy as np
from scipy import sparse

from reluplan import clock
from reluplan.optimisation.model import Array, Index, Model
from reluplan.optimisation.safe_bound import highs_row_duals
from reluplan.optimisation.solvers.highs_model import UNSCALED, Options, pass_model

QUIET: Options = {"output_flag": False, "threads": 1}
"""Of every program here: they are small, and solved beside others."""
SIMPLEX: Options = {"presolve": "off", "solver": "simplex", **UNSCALED}
"""For LPs of which each solve starts from the basis of the one before, which presolve would throw away."""
FEASIBLE = 2
"""HighsInfo.primal_solution_status of a feasible point."""


def create_highs(options: Options) -> Any:
    """A HiGHS that prints nothing, with these options."""
    create: Any = highspy.Highs  # its constructor has no types
    highs = create()
    for option, value in {**QUIET, **options}.items():
        highs.setOptionValue(option, value)
    return highs


class HighsProgram:
    """max objective · x over rows and bounds that may change between solves.

    relaxed: without the model's integrality. is_refused: HiGHS did not take the model, or rows that were added, numbers
    in them being too large, say.
    """

    def __init__(self, model: Model, options: Options, relaxed: bool = True) -> None:
        self._highs = create_highs(options)
        self._until = math.inf
        self._operations = 0.0
        self.is_refused = bool(pass_model(self._highs, model, relaxed) == highspy.HighsStatus.kError)

    @property
    def row_count(self) -> int:
        return int(self._highs.getNumRow())

    @property
    def column_count(self) -> int:
        return int(self._highs.getNumCol())

    def add_columns(self, lower: Array, upper: Array) -> Index:
        """Append columns with these bounds and no entries; returns their indices."""
        start = self.column_count
        self._highs.addVars(len(lower), lower, upper)
        return np.arange(start, start + len(lower))

    def add_rows(self, rows: sparse.csr_array, lower: Array, upper: Array) -> None:
        """Append lower <= rows · x <= upper; the next solve starts from the last basis."""
        status = self._highs.addRows(
            rows.shape[0], lower, upper, rows.nnz, rows.indptr.astype(np.int32)[:-1],
            rows.indices.astype(np.int32), rows.data,
        )  # fmt: skip
        self.is_refused |= bool(rows.shape[0]) and status == highspy.HighsStatus.kError

    def set_bounds(self, columns: Index, lower: Array, upper: Array) -> None:
        """Replace the bounds of some columns."""
        self._highs.changeColsBounds(len(columns), columns.astype(np.int32), lower, upper)

    def set_costs(self, columns: Index, values: Array) -> None:
        """Replace the objective's coefficients of some columns."""
        self._highs.changeColsCost(len(columns), columns.astype(np.int32), values)

    def run_until(self, deadline: float, operations: float) -> None:
        """Solve, but no longer than until the deadline (of clock.now); operations: of one iteration, about."""
        seconds, iterations = clock.lp_limits(deadline, operations)
        self._highs.setOptionValue("simplex_iteration_limit", iterations)
        self.run_for(seconds)
        clock.spend(operations * max(1, self._highs.getInfo().simplex_iteration_count))

    def run_for(self, seconds: float) -> None:
        """Solve, but no longer than this; HiGHS counts from when it was created."""
        self._until = clock.now() + seconds
        self._operations = 2.0 * self._highs.getNumNz()
        limit = math.inf if clock.is_counted() else self._highs.getRunTime() + seconds
        self._highs.setOptionValue("time_limit", limit)
        self._highs.run()
        clock.spend(0.0)

    def watch_the_clock(self) -> None:
        """Look at the time in callbacks as well, which costs a little.

        HiGHS's own clock is not looked at everywhere: it has run for minutes beyond a limit of a second.
        """
        for event in (self._highs.cbMipInterrupt, self._highs.cbSimplexInterrupt):
            event.subscribe(self._stop_if_late)

    def _stop_if_late(self, event: Any) -> None:
        clock.spend(self._operations)
        if clock.now() > self._until:
            event.data_in.user_interrupt = True

    @property
    def is_optimal(self) -> bool:
        """Whether the last solve ended with an optimum."""
        return bool(self._highs.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    @property
    def is_infeasible(self) -> bool:
        """Whether the last solve ended with the claim that there is no feasible point."""
        return bool(self._highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible)

    @property
    def has_solution(self) -> bool:
        """Whether the last solve found a feasible point."""
        return bool(self._highs.getInfo().primal_solution_status == FEASIBLE)

    @property
    def solution(self) -> Array:
        """x of the last solve."""
        return np.array(self._highs.getSolution().col_value, dtype=np.float64)

    @property
    def objective(self) -> float:
        """The maximum found by the last solve."""
        return float(self._highs.getObjectiveValue())

    @property
    def row_duals(self) -> Array:
        """The multiplier of each row in the last solve, in the sign convention of `safe_bound`."""
        return highs_row_duals(self._highs)

    def dual_ray(self) -> Array | None:
        """Multipliers that prove infeasibility, up to their sign and to rounding; None if HiGHS has none."""
        _status, has_ray, ray = self._highs.getDualRay()
        return np.array(ray, dtype=np.float64) if has_ray else None

    @property
    def basis(self) -> Any:
        """A basis to start a similar program from."""
        return self._highs.getBasis()

    def start_from(self, basis: Any) -> None:
        """Begin the next solve with the basis of a similar program, if it has as many rows."""
        if len(basis.row_status) == self.row_count:
            self._highs.setBasis(basis)
