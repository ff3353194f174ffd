"""CPLEX."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from reluplan.errors import SolverError
from reluplan.optimisation.model import Model
from reluplan.optimisation.solvers.adapter import (
    DUAL_TOLERANCE,
    FEASIBILITY_TOLERANCE,
    SOLVER_INFINITY,
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
from reluplan.optimisation.solvers.base import Array, SolveOptions
from reluplan.optimisation.solvers.monitor import Monitor, Snapshot

_SIZE_LIMIT_ERROR = 1016


class CplexSolver(Adapter):
    """CPLEX through its own Python interface (not docplex)."""

    name = "cplex"

    def version(self) -> str:
        return str(import_solver("cplex", self.name).__version__)

    def run(self, model: Model, options: SolveOptions, monitor: Monitor, tight: bool) -> Ending:
        cplex = import_solver("cplex", self.name)
        try:
            with cplex.Cplex() as problem:
                run = _Run(cplex, problem, model, options, monitor, tight)
                with monitor.catching_interrupts():
                    run.optimise()
                return run.ending()
        except cplex.exceptions.CplexSolverError as error:
            if error.args[-1] == _SIZE_LIMIT_ERROR:
                raise licence_error("CPLEX", model, "1000 variables and 1000 rows") from error
            raise SolverError(f"CPLEX failed: {error}") from error
        except cplex.exceptions.CplexError as error:
            raise SolverError(f"CPLEX failed: {error}") from error


class _Run:
    """One model in one CPLEX instance."""

    def __init__(
        self, cplex: Any, problem: Any, model: Model, options: SolveOptions, monitor: Monitor, tight: bool
    ) -> None:
        self._cplex = cplex
        self._problem = problem
        self._monitor = monitor
        self._is_mip = bool(model.integer.any())
        self._configure(options, tight)
        self._add_columns(model)
        self._add_rows(model)
        if options.warm_start is not None and self._is_mip:
            self._set_warm_start(options.warm_start)
        self._watch()

    def optimise(self) -> None:
        self._problem.parameters.timelimit.set(min(self._monitor.solver_limit, 1e75))
        self._problem.solve()

    def ending(self) -> Ending:
        solution = self._problem.solution
        status = self._problem.solution.get_status()
        progress = solution.progress
        stopped = status in _codes(solution.status, "abort_user", "MIP_abort_feasible", "MIP_abort_infeasible")
        return Ending(
            verdict=_verdict(solution.status, status),
            solution=np.array(solution.get_values(), dtype=np.float64) if solution.is_primal_feasible() else None,
            bound=self._bound(status),
            open_nodes=int(progress.get_num_nodes_remaining()),
            closed_nodes=int(progress.get_num_nodes_processed()),
            lp_iterations=int(progress.get_num_iterations()),
            is_interrupted=stopped,
            message=str(solution.get_status_string()),
        )

    def _bound(self, status: int) -> float:
        solution = self._problem.solution
        if self._is_mip:
            return proven_bound(solution.MIP.get_best_objective())
        return float(solution.get_objective_value()) if status == solution.status.optimal else math.inf

    def _configure(self, options: SolveOptions, tight: bool) -> None:
        problem = self._problem
        parameters = self._problem.parameters
        problem.set_results_stream(None)
        problem.set_log_stream(None)
        problem.set_warning_stream(None)
        problem.set_error_stream(None)
        parameters.threads.set(options.threads)
        parameters.randomseed.set(solver_seed(options))
        parameters.mip.tolerances.mipgap.set(solver_gap(options))
        parameters.mip.tolerances.absmipgap.set(absolute_solver_gap(options))
        parameters.simplex.tolerances.optimality.set(DUAL_TOLERANCE)
        if tight:
            parameters.mip.tolerances.integrality.set(FEASIBILITY_TOLERANCE)
            parameters.simplex.tolerances.feasibility.set(FEASIBILITY_TOLERANCE)

    def _add_columns(self, model: Model) -> None:
        problem = self._problem
        problem.objective.set_sense(problem.objective.sense.maximize)
        problem.objective.set_offset(model.offset)
        problem.variables.add(
            obj=model.objective.tolist(),
            lb=_clip(model.column_lower),
            ub=_clip(model.column_upper),
            types="".join(np.where(model.integer, "I", "C")) if self._is_mip else "",  # types make it a MIP
        )

    def _add_rows(self, model: Model) -> None:
        """All rows in one call; a range row is rhs <= row <= rhs + range, a free one gets an infinite right side."""
        starts, columns, values = (
            part.tolist() for part in (model.matrix.indptr, model.matrix.indices, model.matrix.data)
        )
        lower, upper = model.row_lower, model.row_upper
        equal = lower == upper
        has_lower = np.isfinite(lower)
        has_upper = np.isfinite(upper)
        senses = np.select([equal, has_lower & has_upper, has_lower], ["E", "R", "G"], default="L")
        ranged = senses == "R"
        self._problem.linear_constraints.add(
            lin_expr=[[columns[a:b], values[a:b]] for a, b in pairwise(starts)],
            senses="".join(senses),
            rhs=_clip(np.where(has_lower, lower, upper)),
            range_values=np.where(ranged, np.where(ranged, upper, 0.0) - np.where(ranged, lower, 0.0), 0.0).tolist(),
        )

    def _set_warm_start(self, start: Array) -> None:
        starts = self._problem.MIP_starts
        starts.add([list(range(start.size)), start.tolist()], starts.effort_level.auto)

    def _watch(self) -> None:
        if self._is_mip:
            # Not the "candidate" context: CPLEX would give up presolve reductions for it.
            contexts = self._cplex.callbacks.Context.id
            self._problem.set_callback(self, contexts.global_progress | contexts.local_progress)
        else:
            _register_lp_callbacks(self._cplex, self._problem, lambda: self._monitor.visit(Snapshot))

    def invoke(self, context: Any) -> None:
        """The generic callback of CPLEX, called by it."""
        info = context.info
        has_incumbent = bool(context.get_int_info(info.feasible))
        fresh = has_incumbent and self._monitor.improves(context.get_double_info(info.best_solution))
        if self._monitor.visit(lambda: _snapshot(context, fresh), fresh=fresh):
            context.abort()


def _snapshot(context: Any, fresh: bool) -> Snapshot:
    info = context.info
    return Snapshot(
        proven_bound(context.get_double_info(info.best_bound)),
        int(context.get_long_info(info.nodes_left)),
        int(context.get_long_info(info.node_count)),
        np.array(context.get_incumbent(), dtype=np.float64) if fresh else None,
    )


def _register_lp_callbacks(cplex: Any, problem: Any, must_stop: Any) -> None:
    """Poll `must_stop` in the simplex and the barrier method; their callbacks know no bound."""

    def polling(base: Any) -> Any:
        return type("Polling", (base,), {"__call__": lambda self: self.abort() if must_stop() else None})

    problem.register_callback(polling(cplex.callbacks.SimplexCallback))
    problem.register_callback(polling(cplex.callbacks.BarrierCallback))


def _verdict(names: Any, status: int) -> Verdict:
    if status in _codes(names, "infeasible", "MIP_infeasible"):
        return Verdict.INFEASIBLE
    if status in _codes(names, "unbounded", "MIP_unbounded", "infeasible_or_unbounded", "MIP_infeasible_or_unbounded"):
        return Verdict.UNBOUNDED
    return Verdict.NOTHING_SPECIAL


def _codes(names: Any, *chosen: str) -> set[int]:
    return {getattr(names, name) for name in chosen}


def _clip(values: Array) -> list[float]:
    clipped: list[float] = np.clip(values, -SOLVER_INFINITY, SOLVER_INFINITY).tolist()
    return clipped
