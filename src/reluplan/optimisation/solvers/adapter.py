"""What the four adapters share: scaling, imports, and the step from a solver's answer to an honest status."""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from reluplan.errors import MissingExtraError, SolverError
from reluplan.optimisation.margin import bound_margin
from reluplan.optimisation.model import Model
from reluplan.optimisation.scaling import ScaledModel, scale_model, widen
from reluplan.optimisation.solvers.base import Array, Progress, SolveOptions, SolveResult, SolveStatus, StopReason
from reluplan.optimisation.solvers.monitor import Monitor

FEASIBILITY_TOLERANCE = 1e-7
"""For rows and integrality. The usual 1e-5..1e-6 for binaries, times a big-M, leaks through every "off" ReLU."""

DUAL_TOLERANCE = 1e-9
"""For the signs of reduced costs, where the solver lets us ask for it."""

SMALLEST_SCALED_ENTRY = 1e-9
"""Of rows of size one. What is smaller than a solver's zero tolerance is dropped by some and divided by by others: with
entries of 5e-10 HiGHS's and CPLEX's presolve cut off optima of a model with 39 columns."""

SMALLEST_GAP = 1e-9
"""A gap below this cannot be told from rounding; a smaller request is taken as this one."""

CONTRADICTION = 1e-6
"""A bound may be below the incumbent by this much, relatively: that is what feasibility tolerances do."""

CONFIRMATION_SLACK = 1e-6
"""Infeasibility is believed only if it survives this much, relatively, on every side of a row or a column."""

SOLVER_INFINITY = 1e20
"""Bounds from here on mean "none": SCIP says 1e20, CPLEX 1e75, Gurobi 1e100."""

INFEASIBLE = "infeasible"
UNBOUNDED = "unbounded"
NOT_TOLD_APART = "unbounded or infeasible, not told apart"
NOT_CONFIRMED = "claimed infeasible, not confirmed"
"""The messages of results without a solution that are no matter of limits."""


class Verdict(Enum):
    """What the solver itself proved about feasibility."""

    NOTHING_SPECIAL = 0
    INFEASIBLE = 1
    UNBOUNDED = 2  # or "infeasible or unbounded": `conclude` tells them apart


@dataclass(frozen=True, eq=False)
class Ending:
    """The state of a solver after it returned, in the sense of the maximisation.

    is_interrupted: it says so itself. message: its own words for why it returned.
    """

    verdict: Verdict = Verdict.NOTHING_SPECIAL
    solution: Array | None = None
    bound: float = math.inf
    margin: float = 0.0
    open_nodes: int = 0
    closed_nodes: int = 0
    lp_iterations: int = 0
    is_interrupted: bool = False
    message: str = ""


class Adapter(ABC):
    """A solver behind the `Solver` interface: a subclass knows how to run it, all else is here.

    dual_tolerance: on the signs of reduced costs in its LPs.
    """

    name: str
    dual_tolerance: float = DUAL_TOLERANCE

    @abstractmethod
    def version(self) -> str:
        """The version of the solver itself."""

    @abstractmethod
    def run(self, model: Model, options: SolveOptions, monitor: Monitor, tight: bool) -> Ending:
        """Maximise a model that has columns. tight: within FEASIBILITY_TOLERANCE, not the solver's own tolerances."""

    def solve(self, model: Model, options: SolveOptions) -> SolveResult:
        """Maximise the model. Raises MissingExtraError, or SolverError for licences and failures."""
        ending, monitor = self.attempt(model, options)
        return conclude(self, model, options, monitor, ending)

    def attempt(self, model: Model, options: SolveOptions, tight: bool = True) -> tuple[Ending, Monitor]:
        """Run the solver once, on the scaled model; the ending and all reports are in the units of the given one.

        Raises what a hook raised during the run.
        """
        _refuse_other_than_numbers(model)
        scaled = scale_model(model, SMALLEST_SCALED_ENTRY)
        _refuse_other_than_numbers(scaled.model)
        options = _scaled_options(self, scaled, options)
        monitor = Monitor(scaled.model, options)
        if model.column_count == 0:
            return empty_ending(model), monitor
        ending = self.run(scaled.model, options, monitor, tight)
        monitor.raise_error()
        solution = None if ending.solution is None else scaled.from_scaled(ending.solution)
        bound = scaled.from_scaled_value(ending.bound)
        margin = bound_margin(scaled, bound, self.dual_tolerance)
        return replace(ending, solution=solution, bound=bound, margin=margin), monitor


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


def absolute_solver_gap(options: SolveOptions) -> float:
    """The absolute gap to ask of the solver, in the units of its objective."""
    return solver_gap(options) if options.absolute_gap is None else 0.999 * options.absolute_gap


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


def conclude(solver: Adapter, model: Model, options: SolveOptions, monitor: Monitor, ending: Ending) -> SolveResult:
    """The result of a solve: what its ending proves, after a second solve if that has to be confirmed."""
    if ending.verdict is Verdict.NOTHING_SPECIAL:
        objective = None if ending.solution is None else model.value(ending.solution)
        finding = _Finding(status_of(objective, ending.bound, options.gap), "")
    else:
        objective = None
        finding = _examine(solver, model, options, monitor, ending)
    reason = _stop_reason(monitor, ending, finding)
    return SolveResult(
        status=finding.status,
        solution=None if objective is None else ending.solution,
        objective=objective,
        dual_bound=ending.bound if ending.verdict is Verdict.NOTHING_SPECIAL else math.inf,
        seconds=monitor.seconds(),
        open_nodes=ending.open_nodes,
        closed_nodes=ending.closed_nodes,
        lp_iterations=ending.lp_iterations,
        message=_message(reason, ending, finding),
        stop_reason=reason,
        margin=ending.margin if ending.verdict is Verdict.NOTHING_SPECIAL else 0.0,
    )


class _Finding(NamedTuple):
    """A status, and the reason for it where the solver's own words would not do."""

    status: SolveStatus
    reason: str


def _stop_reason(monitor: Monitor, ending: Ending, finding: _Finding) -> StopReason:
    """Why the solve ended; what was found about feasibility counts, even if the time was up right after it."""
    asked = monitor.stop_reason
    if asked is not None and asked is not StopReason.TIME_LIMIT:
        return asked
    if finding.reason:
        return StopReason.FINISHED
    if asked is not None or monitor.remaining() <= 0.0:
        return StopReason.TIME_LIMIT
    return StopReason.INTERRUPTED if ending.is_interrupted else StopReason.FINISHED


def _message(reason: StopReason, ending: Ending, finding: _Finding) -> str:
    return (finding.reason or ending.message) if reason is StopReason.FINISHED else reason.value


def _examine(solver: Adapter, model: Model, options: SolveOptions, monitor: Monitor, ending: Ending) -> _Finding:
    """What to make of a model that the solver called infeasible, unbounded, or one of the two."""
    if ending.verdict is Verdict.UNBOUNDED and model.objective.any():
        return _tell_apart(solver, model, options, monitor)
    if _is_infeasible_when_widened(solver, model, options, monitor):
        return _Finding(SolveStatus.INFEASIBLE, INFEASIBLE)
    return _Finding(SolveStatus.NO_SOLUTION, NOT_CONFIRMED)


def _tell_apart(solver: Adapter, model: Model, options: SolveOptions, monitor: Monitor) -> _Finding:
    """INFEASIBLE or UNBOUNDED, for a model that the solver called one of the two.

    Solvers say "unbounded" when they find an improving ray, which says nothing about feasibility. Without an
    objective a model cannot be unbounded, so the second solve is a plain proof of (in)feasibility.
    """
    second = _feasibility(solver, model, options, monitor, tight=True)
    if second.solution is not None:
        return _Finding(SolveStatus.UNBOUNDED, UNBOUNDED)
    claimed = second.verdict is not Verdict.NOTHING_SPECIAL
    if claimed and _is_infeasible_when_widened(solver, model, options, monitor):
        return _Finding(SolveStatus.INFEASIBLE, INFEASIBLE)
    return _Finding(SolveStatus.UNBOUNDED, NOT_TOLD_APART)


def _is_infeasible_when_widened(solver: Adapter, model: Model, options: SolveOptions, monitor: Monitor) -> bool:
    """Whether infeasibility outlives a little room on every side, and the solver's own tolerances, the ones that its
    authors test. With tighter ones HiGHS for one calls models infeasible that have a point exact to rounding.
    """
    widened = widen(model, CONFIRMATION_SLACK)
    return _feasibility(solver, widened, options, monitor, tight=False).verdict is not Verdict.NOTHING_SPECIAL


def _feasibility(solver: Adapter, model: Model, options: SolveOptions, monitor: Monitor, tight: bool) -> Ending:
    """Look for any solution of the model in the time left; a stop or Ctrl-C meanwhile counts for the whole solve."""
    if monitor.stop_reason is not None or monitor.remaining() <= 0.0:
        return Ending()
    hooks = replace(options, time_limit=monitor.remaining(), warm_start=None, on_progress=None)
    model = replace(model, objective=np.zeros(model.column_count), offset=0.0)
    ending, second = solver.attempt(model, hooks, tight)
    monitor.stop_reason = second.stop_reason or (StopReason.INTERRUPTED if ending.is_interrupted else None)
    return ending


def _scaled_options(solver: Adapter, scaled: ScaledModel, options: SolveOptions) -> SolveOptions:
    """The options with the warm start, the absolute gap, and a hook for progress, in the units of the scaled model."""
    warm_start = None if options.warm_start is None else scaled.to_scaled(options.warm_start)
    gap = scaled.to_scaled_value(max(options.gap, SMALLEST_GAP))
    on_progress = options.on_progress

    def report(progress: Progress) -> None:
        assert on_progress is not None
        solution = None if progress.solution is None else scaled.from_scaled(progress.solution)
        incumbent = None if progress.incumbent is None else scaled.from_scaled_value(progress.incumbent)
        bound = None if progress.bound is None else scaled.from_scaled_value(progress.bound)
        margin = 0.0 if bound is None else bound_margin(scaled, bound, solver.dual_tolerance)
        on_progress(replace(progress, solution=solution, incumbent=incumbent, bound=bound, margin=margin))

    return replace(
        options, warm_start=warm_start, absolute_gap=gap, on_progress=None if on_progress is None else report
    )


def _refuse_other_than_numbers(model: Model) -> None:
    """HiGHS for one takes a NaN without a word."""
    numbers = (model.objective, model.matrix.data, np.array([model.offset]))
    sides = (model.row_lower, model.row_upper, model.column_lower, model.column_upper)
    if not all(np.isfinite(part).all() for part in numbers) or any(np.isnan(part).any() for part in sides):
        raise SolverError("The model has a coefficient that is infinite or not a number; no solver can take it.")
