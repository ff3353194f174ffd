"""HiGHS, the default solver."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np

from reluplan.errors import SolverError
from reluplan.optimisation.model import Model
from reluplan.optimisation.solvers.adapter import (
    FEASIBILITY_TOLERANCE,
    Adapter,
    Ending,
    Verdict,
    absolute_solver_gap,
    import_solver,
    proven_bound,
    solver_gap,
    solver_seed,
)
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs_model import KEPT_ENTRY, pass_model
from reluplan.optimisation.solvers.monitor import Monitor, Snapshot

_FEASIBLE = 2  # HighsInfo.primal_solution_status
_FAILURES = ("kLoadError", "kModelError", "kPresolveError", "kSolveError", "kPostsolveError", "kMemoryLimit")
_LOG_LINE = re.compile(r"^ [ A-Za-z]\s+\d+[km]?\s+(\d+)([km]?)\s+\d+[km]?\s+[\d.]+%")
_LOG_UNIT = {"": 1, "k": 1_000, "m": 1_000_000}


class HighsSolver(Adapter):
    """HiGHS through highspy; models go in as arrays."""

    name = "highs"
    dual_tolerance = FEASIBILITY_TOLERANCE  # its MIP solver derives that of its LPs from the feasibility tolerance

    def version(self) -> str:
        return str(import_solver("highspy", self.name).Highs().version())

    def run(self, model: Model, options: SolveOptions, monitor: Monitor, tight: bool) -> Ending:
        highspy = import_solver("highspy", self.name)
        with monitor.catching_interrupts():
            try:
                found = _Run(highspy, model, options, monitor, tight).optimise()
            except _RunError:  # seen where presolve is to blame; without it the same models are solved
                return _Run(highspy, model, options, monitor, tight, presolve=False).optimise()
            if not (tight and _is_presolved(model, found)):
                return found
            return _weaker(found, _Run(highspy, model, options, monitor, tight, presolve=False).optimise())


def _is_presolved(model: Model, found: Ending) -> bool:
    """Whether HiGHS claims an optimum of a MILP without any LP: its presolve alone has found it.

    HiGHS 1.15 has cut off the optimum there (2.145 in place of 2.381), by a row with a right-hand side of 1.28e-7 and a
    tolerance of 1e-7; models that presolve can do alone are solved again in no time without it.
    """
    return bool(model.integer.any()) and found.lp_iterations == 0 and math.isfinite(found.bound)


def _weaker(first: Ending, second: Ending) -> Ending:
    """What both prove: the larger bound, and the second solve's solution if it has one."""
    solution = first.solution if second.solution is None else second.solution
    bound = max(first.bound, second.bound)
    return dataclasses.replace(second, solution=solution, bound=bound)


class _RunError(SolverError):
    """HiGHS took the model, and failed while it solved it."""


class _Run:
    """One model in one HiGHS instance."""

    def __init__(
        self, highspy: Any, model: Model, options: SolveOptions, monitor: Monitor, tight: bool, presolve: bool = True
    ) -> None:
        self._highspy = highspy
        self._model = model
        self._monitor = monitor
        self._is_mip = bool(model.integer.any())
        self._open_nodes = 0
        self._highs = highspy.Highs()
        self._configure(options, tight, presolve)
        self._load()
        if options.warm_start is not None and self._is_mip:
            self._set_warm_start(options)
        self._subscribe()

    def optimise(self) -> Ending:
        """Run HiGHS with a scheduler of its own: every run in this thread must ask for the threads of the first one,
        or HiGHS refuses, so we reset the scheduler before, for us, and after, for the bounding LPs.
        """
        highs = self._highs
        self._check(highs.setOptionValue("time_limit", self._monitor.solver_limit), "option time_limit")
        highs.resetGlobalScheduler(True)
        try:
            if highs.run() == self._highspy.HighsStatus.kError:
                raise _RunError("HiGHS failed while it solved the model")
        finally:
            highs.resetGlobalScheduler(True)
        return self._ending()

    def _ending(self) -> Ending:
        status = self._highs.getModelStatus().name
        info = self._highs.getInfo()
        if status in _FAILURES:
            raise _RunError(f"HiGHS failed: {self._highs.modelStatusToString(self._highs.getModelStatus())}.")
        solution = None
        if info.primal_solution_status == _FEASIBLE:
            solution = np.array(self._highs.getSolution().col_value, dtype=np.float64)
        return Ending(
            verdict=_verdict(status),
            solution=solution,
            bound=self._bound(status, info),
            open_nodes=self._open_nodes,
            closed_nodes=max(0, int(info.mip_node_count)),
            lp_iterations=max(0, int(info.simplex_iteration_count)),
            message=status.removeprefix("k"),
        )

    def _bound(self, status: str, info: Any) -> float:
        if self._is_mip:
            return proven_bound(info.mip_dual_bound)
        # info.mip_dual_bound is 0 for an LP, a trap.
        return float(info.objective_function_value) if status == "kOptimal" else math.inf

    def _configure(self, options: SolveOptions, tight: bool, presolve: bool) -> None:
        gap = solver_gap(options)
        settings: dict[str, bool | int | float | str] = {
            "output_flag": True,  # the log callback, our only source of the open nodes, needs it
            "log_to_console": False,
            "mip_min_logging_interval": 1.0,
            "threads": options.threads,
            "random_seed": solver_seed(options),
            "mip_rel_gap": gap,
            "mip_abs_gap": absolute_solver_gap(options),
            "small_matrix_value": KEPT_ENTRY,
        }
        if tight:
            settings["primal_feasibility_tolerance"] = FEASIBILITY_TOLERANCE
            settings["mip_feasibility_tolerance"] = FEASIBILITY_TOLERANCE
        if not (tight and presolve):
            settings["presolve"] = "off"  # a second opinion on infeasibility: its presolve has claimed it falsely
        for name, value in settings.items():
            self._check(self._highs.setOptionValue(name, value), f"option {name}")

    def _load(self) -> None:
        self._check(pass_model(self._highs, self._model), "passModel")

    def _set_warm_start(self, options: SolveOptions) -> None:
        start = self._highspy.HighsSolution()
        start.col_value = options.warm_start
        self._highs.setSolution(start)  # one that HiGHS dislikes is its to ignore

    def _subscribe(self) -> None:
        highs = self._highs
        for event in (highs.cbMipInterrupt, highs.cbSimplexInterrupt, highs.cbIpmInterrupt):
            event.subscribe(self._on_interrupt)
        highs.cbMipImprovingSolution.subscribe(self._on_solution)
        highs.cbLogging.subscribe(self._on_log)

    def _on_interrupt(self, event: Any) -> None:
        if self._monitor.visit(lambda: self._snapshot(event.data_out)):
            event.data_in.user_interrupt = True

    def _on_solution(self, event: Any) -> None:
        solution = np.array(event.data_out.mip_solution, dtype=np.float64)
        self._monitor.visit(lambda: self._snapshot(event.data_out)._replace(solution=solution), fresh=True)

    def _on_log(self, event: Any) -> None:
        match = _LOG_LINE.match(event.message)
        if match:
            self._open_nodes = int(match[1]) * _LOG_UNIT[match[2]]

    def _snapshot(self, data: Any) -> Snapshot:
        if not self._is_mip:
            return Snapshot()
        if data.mip_node_count <= 0 and data.mip_dual_bound == data.mip_primal_bound:
            return Snapshot()  # what presolve alone claims is looked at again
        return Snapshot(proven_bound(data.mip_dual_bound), self._open_nodes, max(0, int(data.mip_node_count)))

    def _check(self, status: Any, action: str) -> None:
        if status == self._highspy.HighsStatus.kError:
            raise SolverError(f"HiGHS refused the model or failed ({action}); is a coefficient beyond 1e15?")


def _verdict(status: str) -> Verdict:
    if status == "kInfeasible":
        return Verdict.INFEASIBLE
    if status in ("kUnbounded", "kUnboundedOrInfeasible"):
        return Verdict.UNBOUNDED
    return Verdict.NOTHING_SPECIAL
