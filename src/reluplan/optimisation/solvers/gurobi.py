"""Gurobi."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from reluplan.errors import SolverError
from reluplan.optimisation.model import Model
from reluplan.optimisation.solvers.adapter import (
    DUAL_TOLERANCE,
    FEASIBILITY_TOLERANCE,
    Adapter,
    Ending,
    Verdict,
    absolute_solver_gap,
    import_solver,
    licence_error,
    proven_bound,
    solver_gap,
    solver_seed,
)
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.monitor import Monitor, Snapshot

_SIZE_LIMIT_ERROR = 10010


class GurobiSolver(Adapter):
    """Gurobi through gurobipy's matrix interface."""

    name = "gurobi"

    def version(self) -> str:
        return ".".join(str(part) for part in import_solver("gurobipy", self.name).gurobi.version())

    def run(self, model: Model, options: SolveOptions, monitor: Monitor, tight: bool) -> Ending:
        gurobipy = import_solver("gurobipy", self.name)
        try:
            with _quiet_environment(gurobipy) as environment, gurobipy.Model(env=environment) as gurobi:
                run = _Run(gurobipy, gurobi, model, options, monitor, tight)
                with monitor.catching_interrupts():
                    run.optimise()
                return run.ending()
        except gurobipy.GurobiError as error:
            if error.errno == _SIZE_LIMIT_ERROR:
                raise licence_error("Gurobi", model, "2000 variables and 2000 rows") from error
            raise SolverError(f"Gurobi failed: {error}") from error


class _Run:
    """One model in one Gurobi instance."""

    def __init__(
        self, gurobipy: Any, gurobi: Any, model: Model, options: SolveOptions, monitor: Monitor, tight: bool
    ) -> None:
        self._constants = gurobipy.GRB
        self._gurobi = gurobi
        self._monitor = monitor
        self._is_mip = bool(model.integer.any())
        self._seen = Snapshot()
        self._configure(options, tight)
        self._columns = self._add_columns(model)
        self._add_rows(model)
        if options.warm_start is not None and self._is_mip:
            self._columns.Start = options.warm_start

    def optimise(self) -> None:
        self._gurobi.Params.TimeLimit = self._monitor.solver_limit
        self._gurobi.optimize(self._on_callback)

    def ending(self) -> Ending:
        gurobi = self._gurobi
        codes = self._constants.Status
        verdicts = {
            codes.INFEASIBLE: Verdict.INFEASIBLE,
            codes.UNBOUNDED: Verdict.UNBOUNDED,
            codes.INF_OR_UNBD: Verdict.UNBOUNDED,
        }
        return Ending(
            verdict=verdicts.get(gurobi.Status, Verdict.NOTHING_SPECIAL),
            solution=np.array(self._columns.X, dtype=np.float64) if gurobi.SolCount else None,
            bound=self._bound(),
            open_nodes=int(gurobi.OpenNodeCount) if self._is_mip else 0,
            closed_nodes=int(gurobi.NodeCount),
            lp_iterations=int(gurobi.IterCount),
            is_interrupted=gurobi.Status == codes.INTERRUPTED,
            message=f"Gurobi status {gurobi.Status}",
        )

    def _bound(self) -> float:
        codes = self._constants.Status
        if self._is_mip and self._gurobi.Status != codes.NUMERIC:
            return proven_bound(self._gurobi.ObjBound)
        return float(self._gurobi.ObjVal) if self._gurobi.Status == codes.OPTIMAL else math.inf

    def _configure(self, options: SolveOptions, tight: bool) -> None:
        parameters = self._gurobi.Params
        parameters.MIPGap = solver_gap(options)
        parameters.MIPGapAbs = absolute_solver_gap(options)
        parameters.OptimalityTol = DUAL_TOLERANCE
        parameters.Threads = options.threads
        parameters.Seed = solver_seed(options)
        if tight:
            parameters.FeasibilityTol = parameters.IntFeasTol = FEASIBILITY_TOLERANCE

    def _add_columns(self, model: Model) -> Any:
        gurobi = self._gurobi
        constants = self._constants
        columns = gurobi.addMVar(
            model.column_count,
            lb=model.column_lower,
            ub=model.column_upper,
            obj=model.objective,
            vtype=np.where(model.integer, constants.INTEGER, constants.CONTINUOUS),
        )
        gurobi.ModelSense = constants.MAXIMIZE
        gurobi.ObjCon = model.offset
        return columns

    def _add_rows(self, model: Model) -> None:
        """Equalities, then upper sides, then lower sides: Gurobi knows no rows with two sides."""
        equal = model.row_lower == model.row_upper
        groups = [
            (equal, "=", model.row_upper),
            (~equal & np.isfinite(model.row_upper), "<", model.row_upper),
            (~equal & np.isfinite(model.row_lower), ">", model.row_lower),
        ]
        for chosen, sense, side in groups:
            if chosen.any():
                rows = sparse.csr_matrix(model.matrix[chosen])
                self._gurobi.addMConstr(rows, self._columns, sense, side[chosen])

    def _on_callback(self, gurobi: Any, where: int) -> None:
        is_solution = where == self._constants.Callback.MIPSOL
        if self._monitor.visit(lambda: self._snapshot(gurobi, where), fresh=is_solution):
            gurobi.terminate()

    def _snapshot(self, gurobi: Any, where: int) -> Snapshot:
        """What this callback can tell; outside of MIP and MIPSOL that is what the last one told."""
        codes = self._constants.Callback
        if where == codes.MIPSOL:
            bound = gurobi.cbGet(codes.MIPSOL_OBJBND)
            closed = int(gurobi.cbGet(codes.MIPSOL_NODCNT))
            self._seen = Snapshot(proven_bound(bound), self._seen.open_nodes, closed)
            return self._seen._replace(solution=np.array(gurobi.cbGetSolution(self._columns), dtype=np.float64))
        if where == codes.MIP:
            bound = gurobi.cbGet(codes.MIP_OBJBND)
            closed = int(gurobi.cbGet(codes.MIP_NODCNT))
            self._seen = Snapshot(proven_bound(bound), int(gurobi.cbGet(codes.MIP_NODLFT)), closed)
        return self._seen


def _quiet_environment(gurobipy: Any) -> Any:
    """An environment that does not print its licence to the console."""
    environment = gurobipy.Env(empty=True)
    environment.setParam("OutputFlag", 0)
    environment.start()
    return environment
