"""What the four adapters share: imports, tolerances, and the step from a solver's answer to an honest status."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from reluplan.errors import MissingExtraError, SolverError
from reluplan.milp.model import Model
from reluplan.solvers.base import Array, SolveOptions, Solver, SolveResult, SolveStatus
from reluplan.solvers.monitor import TIME_LIMIT, Monitor

FEASIBILITY_TOLERANCE = 1e-7
"""For rows and integrality. The usual 1e-5..1e-6 for binaries, times a big-M, leaks through every "off" ReLU."""

SMALLEST_GAP = 1e-9
"""A gap below this cannot be told from rounding; a smaller request is taken as this one."""

CONTRADICTION = 1e-6
"""A bound may be below the incumbent by this much, relatively: that is what feasibility tolerances do."""

SOLVER_INFINITY = 1e20
"""Bounds from here on mean "none": SCIP says 1e20, CPLEX 1e75, Gurobi 1e100."""


class Verdict(Enum):
    """What the solver itself proved about feasibility."""

    NOTHING_SPECIAL = 0
    INFEASIBLE = 1
    UNBOUNDED = 2  # or "infeasible or unbounded": `conclude` tells them apart


@dataclass(frozen=True, eq=False)
class Ending:
    """The state of a solver after it returned, in the sense of the maximisation."""

    verdict: Verdict = Verdict.NOTHING_SPECIAL
    solution: Array | None = None
    bound: float = math.inf
    open_nodes: int = 0
    closed_nodes: int = 0
    lp_iterations: int = 0
    message: str = ""


def import_solver(package: str, solver_name: str) -> Any:
    """Import a solver's package, or raise an error that says how to get it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise SolverError(f"The package '{package}' is installed but does not load: {error}") from error
        raise MissingExtraError(package, solver_name, f"The solver '{solver_name}'") from error
    except ImportError as error:
        raise SolverError(f"The package '{package}' is installed but does not load: {error}") from error


def begin(model: Model, options: SolveOptions) -> Monitor:
    """Start the clock of a solve. Refuses numbers that are none: HiGHS for one takes a NaN without a word."""
    numbers = (model.objective, model.matrix.data, np.array([model.offset]))
    sides = (model.row_lower, model.row_upper, model.column_lower, model.column_upper)
    if not all(np.isfinite(part).all() for part in numbers) or any(np.isnan(part).any() for part in sides):
        raise SolverError("The model has a coefficient that is infinite or not a number; no solver can take it.")
    return Monitor(model, options)


def licence_error(solver_name: str, model: Model, limit: str) -> SolverError:
    """The error for a model that a size-limited licence refuses."""
    return SolverError(
        f"The model has {model.column_count} variables, {model.row_count} rows and {model.matrix.nnz} nonzeros; "
        f"the size-limited licence of {solver_name} found on this machine allows at most {limit}. "
        f"Use --solver highs or --solver scip, or install a full {solver_name} licence."
    )


def solver_gap(options: SolveOptions) -> float:
    """The gap to ask of the solver, as its relative and its absolute one.

    A solver that stops when either is met satisfies bound - objective <= gap * max(1, |objective|). A thousandth is
    kept back because we recompute the objective from the solution, and so judge the gap with other rounding errors.
    """
    return 0.999 * max(options.gap, SMALLEST_GAP)


def solver_seed(options: SolveOptions) -> int:
    """The seed, folded into the range that every solver accepts."""
    return options.seed % 2_000_000_000


def proven_bound(value: float) -> float:
    """A solver's upper bound with its way of saying "none" mapped to +inf."""
    return math.inf if math.isnan(value) or abs(value) >= SOLVER_INFINITY else float(value)


def status_of(objective: float | None, bound: float, gap: float) -> SolveStatus:
    """What an incumbent and a proven bound justify: OPTIMAL only if bound - objective <= gap * max(1, |objective|).

    A bound clearly below the incumbent proves nothing but that one of them is wrong.
    """
    if objective is None:
        return SolveStatus.NO_SOLUTION
    scaled = (bound - objective) / max(1.0, abs(objective))
    proven = -CONTRADICTION <= scaled <= max(gap, SMALLEST_GAP)
    return SolveStatus.OPTIMAL if proven else SolveStatus.FEASIBLE


def empty_ending(model: Model) -> Ending:
    """The answer for a model without columns, which the solvers treat each in its own way."""
    if model.violation(np.zeros(0)) > FEASIBILITY_TOLERANCE:
        return Ending(Verdict.INFEASIBLE)
    return Ending(solution=np.zeros(0), bound=model.offset)


def conclude(solver: Solver, model: Model, options: SolveOptions, monitor: Monitor, ending: Ending) -> SolveResult:
    """The result of a solve. Raises what a hook raised during it."""
    monitor.raise_error()
    status, bound, objective = SolveStatus.NO_SOLUTION, ending.bound, None
    if ending.verdict is Verdict.INFEASIBLE:
        status, bound = SolveStatus.INFEASIBLE, math.inf
    elif ending.verdict is Verdict.UNBOUNDED:
        status, bound = _tell_apart(solver, model, options, monitor), math.inf
    elif ending.solution is not None:
        objective = model.value(ending.solution)
        status = status_of(objective, bound, options.gap)
    return SolveResult(
        status=status,
        solution=ending.solution if objective is not None else None,
        objective=objective,
        dual_bound=bound,
        seconds=monitor.seconds(),
        open_nodes=ending.open_nodes,
        closed_nodes=ending.closed_nodes,
        lp_iterations=ending.lp_iterations,
        message=monitor.stop_reason or (ending.message if monitor.remaining() > 0.0 else TIME_LIMIT),
    )


def _tell_apart(solver: Solver, model: Model, options: SolveOptions, monitor: Monitor) -> SolveStatus:
    """INFEASIBLE or UNBOUNDED, for a model that the solver called one of the two.

    Solvers say "unbounded" when they find an improving ray, which says nothing about feasibility. Without an
    objective a model cannot be unbounded, so the second solve is a plain proof of (in)feasibility.
    """
    if monitor.stop_reason or not model.objective.any():
        return SolveStatus.UNBOUNDED
    feasibility = replace(model, objective=np.zeros(model.column_count), offset=0.0)
    hooks = replace(options, time_limit=monitor.remaining(), start=None, on_progress=None)
    status = solver.solve(feasibility, hooks).status
    return SolveStatus.INFEASIBLE if status is SolveStatus.INFEASIBLE else SolveStatus.UNBOUNDED
