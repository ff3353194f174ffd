"""SCIP, the other open solver; it works on one thread whatever is asked."""

from __future__ import annotations

from collections.abc import Callable
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
    proven_bound,
    solver_gap,
    solver_seed,
)
from reluplan.optimisation.solvers.base import Array, SolveOptions
from reluplan.optimisation.solvers.monitor import Monitor, Snapshot

_VERDICTS = {
    "infeasible": Verdict.INFEASIBLE,
    "unbounded": Verdict.UNBOUNDED,
    "inforunbd": Verdict.UNBOUNDED,
}


class ScipSolver(Adapter):
    """SCIP through PySCIPOpt, one call per row: it has no interface for whole matrices."""

    name = "scip"

    def version(self) -> str:
        model = import_solver("pyscipopt", self.name).Model()
        return f"{model.getMajorVersion()}.{model.getMinorVersion()}.{model.getTechVersion()}"

    def run(self, model: Model, options: SolveOptions, monitor: Monitor, tight: bool) -> Ending:
        pyscipopt = import_solver("pyscipopt", self.name)
        try:
            run = _Run(pyscipopt, model, options, monitor, tight)
            with monitor.catching_interrupts():
                run.optimise()
            return run.ending()
        except Exception as error:  # PySCIPOpt raises plain Exceptions
            raise SolverError(f"SCIP failed: {error}") from error


class _Run:
    """One model in one SCIP instance."""

    def __init__(self, pyscipopt: Any, model: Model, options: SolveOptions, monitor: Monitor, tight: bool) -> None:
        self._pyscipopt = pyscipopt
        self._monitor = monitor
        self._scip = pyscipopt.Model()
        self._scip.hideOutput()
        self._configure(options, tight)
        self._variables = self._add_columns(model)
        self._add_rows(model)
        if options.warm_start is not None:
            self._set_warm_start(options.warm_start)
        self._watch()

    def optimise(self) -> None:
        self._scip.setParam("limits/time", min(self._monitor.solver_limit, SOLVER_INFINITY))
        self._scip.optimizeNogil()  # other threads of the process, which may be watching us, go on

    def ending(self) -> Ending:
        scip = self._scip
        status = str(self._scip.getStatus())
        in_tree = self._in_tree()
        return Ending(
            verdict=_VERDICTS.get(status, Verdict.NOTHING_SPECIAL),
            solution=self._best_solution() if scip.getNSols() else None,
            bound=proven_bound(scip.getDualbound()),
            open_nodes=scip.getNNodesLeft() if in_tree else 0,
            closed_nodes=scip.getNTotalNodes() if in_tree else 0,
            lp_iterations=scip.getNLPIterations() if in_tree else 0,
            message=status,
        )

    def _configure(self, options: SolveOptions, tight: bool) -> None:
        gap = solver_gap(options)
        self._scip.setParams(
            {
                "limits/gap": gap,  # relative to the smaller of |bound| and |objective|: a little stricter than ours
                "limits/absgap": absolute_solver_gap(options),
                "numerics/dualfeastol": DUAL_TOLERANCE,
                "randomization/randomseedshift": solver_seed(options),
                "timing/clocktype": 2,  # wall clock
                "misc/catchctrlc": False,  # SCIP would print to stdout
            }
        )
        if tight:
            self._scip.setParam("numerics/feastol", FEASIBILITY_TOLERANCE)

    def _add_columns(self, model: Model) -> list[Any]:
        add = self._scip.addVar
        variables = [
            add(vtype="I" if integer else "C", lb=lower, ub=upper, obj=cost)
            for integer, lower, upper, cost in zip(
                model.integer.tolist(),
                _clip(model.column_lower),
                _clip(model.column_upper),
                model.objective.tolist(),
                strict=True,
            )
        ]
        self._scip.setMaximize()
        self._scip.addObjoffset(model.offset)
        return variables

    def _add_rows(self, model: Model) -> None:
        """One dictionary per row: several times faster than PySCIPOpt's operators."""
        expressions = self._pyscipopt.scip
        terms = [expressions.Term(variable) for variable in self._variables]
        starts, columns, values = (
            part.tolist() for part in (model.matrix.indptr, model.matrix.indices, model.matrix.data)
        )
        for row, (lower, upper) in enumerate(zip(_clip(model.row_lower), _clip(model.row_upper), strict=True)):
            entries = range(starts[row], starts[row + 1])
            coefficients = {terms[columns[k]]: values[k] for k in entries} or {terms[0]: 0.0}
            self._scip.addCons(expressions.ExprCons(expressions.Expr(coefficients), lower, upper))

    def _set_warm_start(self, start: Array) -> None:
        solution = self._scip.createSol()
        for variable, value in zip(self._variables, start.tolist(), strict=True):
            self._scip.setSolVal(solution, variable, value)
        self._scip.addSol(solution)

    def _watch(self) -> None:
        handler = _event_handler(self._pyscipopt, self._on_event)
        self._scip.includeEventhdlr(handler, "reluplan", "progress and interrupts")

    def _on_event(self) -> None:
        best = self._scip.getPrimalbound()  # not the kind of event: SCIP announces no start
        fresh = abs(best) < SOLVER_INFINITY and self._monitor.improves(best)
        if self._monitor.visit(lambda: self._snapshot(fresh), fresh=fresh):
            self._scip.interruptSolve()

    def _snapshot(self, fresh: bool) -> Snapshot:
        solution = self._best_solution() if fresh and self._scip.getNSols() else None
        if not self._in_tree():
            return Snapshot(solution=solution)
        scip = self._scip
        return Snapshot(proven_bound(scip.getDualbound()), scip.getNNodesLeft(), scip.getNTotalNodes(), solution)

    def _in_tree(self) -> bool:
        """Whether the branch-and-bound tree exists; SCIP refuses to count nodes before."""
        stage = self._pyscipopt.SCIP_STAGE
        return self._scip.getStage() in (stage.SOLVING, stage.SOLVED)

    def _best_solution(self) -> Array:
        best = self._scip.getBestSol()
        value_of = self._scip.getSolVal
        return np.array([value_of(best, variable) for variable in self._variables], dtype=np.float64)


def _event_handler(pyscipopt: Any, on_event: Callable[[], None]) -> Any:
    """An event handler that calls `on_event`; built at run time since its base class is imported late."""
    kinds = pyscipopt.SCIP_EVENTTYPE
    caught = (kinds.BESTSOLFOUND, kinds.LPSOLVED, kinds.NODESOLVED, kinds.PRESOLVEROUND)

    def start(handler: Any) -> None:
        for kind in caught:
            handler.model.catchEvent(kind, handler)

    def end(handler: Any) -> None:
        for kind in caught:
            handler.model.dropEvent(kind, handler)

    def execute(_handler: Any, _event: Any) -> None:
        on_event()

    methods = {"eventinit": start, "eventexit": end, "eventexec": execute}
    return type("ProgressHandler", (pyscipopt.Eventhdlr,), methods)()


def _clip(values: Array) -> list[float]:
    clipped: list[float] = np.clip(values, -SOLVER_INFINITY, SOLVER_INFINITY).tolist()
    return clipped
