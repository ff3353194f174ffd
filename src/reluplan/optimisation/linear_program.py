"""A linear program, or a small MILP, that may get further rows after it was solved: steps of the search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reluplan.optimisation.highs_program import HighsProgram
from reluplan.optimisation.model import Array, Model
from reluplan.optimisation.scaling import is_wide
from reluplan.optimisation.settings import LinearProgramSettings
from reluplan.optimisation.solvers.highs_model import KEPT_ENTRY, Options

OPTIONS: Options = {
    "solver": "simplex",
    "small_matrix_value": KEPT_ENTRY,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-7,
    "mip_rel_gap": 1e-4,
    "mip_feasibility_tolerance": 1e-9,
}
WITHOUT_PRESOLVE: Options = {"presolve": "off"}
"""For MILPs: after its presolve HiGHS 1.15 has looped for ever over 13 rows, deaf to its clock and to callbacks."""
DEFAULT = LinearProgramSettings()
LEAST_SECONDS = 1e-3
"""HiGHS takes a limit of zero for none in some of its parts."""


class LinearProgram(HighsProgram):
    """max objective · x over the rows and bounds of a model; integer columns make it a small MILP."""

    def __init__(self, model: Model, warm_start: Any = None, settings: LinearProgramSettings = DEFAULT) -> None:
        model = replace(model, integer=model.integer & ~is_wide(model))  # the rollout rounds
        iterations = settings.iterations + settings.iterations_per_row * model.row_count
        self._mip_seconds = settings.mip_seconds
        self._is_mip = bool(model.integer.any())
        limits: Options = {"simplex_iteration_limit": iterations}
        super().__init__(model, {**OPTIONS, **limits, **(WITHOUT_PRESOLVE if self._is_mip else {})}, relaxed=False)
        self.watch_the_clock()
        if warm_start is not None:
            self.start_from(warm_start)

    def solve(self, time_limit: float) -> Array | None:
        """A maximiser, None if there is none or the time is up; there is none of a model that HiGHS refused."""
        if self.is_refused:
            return None
        limit = min(time_limit, self._mip_seconds) if self._is_mip else time_limit
        self.run_for(max(limit, LEAST_SECONDS))
        return self.solution if self.is_optimal or (self._is_mip and self.has_solution) else None
