"""From a problem to a plan with a proven bound: the stages, top down."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.reach import HorizonBounds, reachable_bounds
from reluplan.errors import InfeasibleError, InputError, OutOfTimeError
from reluplan.milp.unroll import PlanModel, unroll
from reluplan.polish import extract, repairs
from reluplan.potentials.compute import compute_potentials, tell_rounds
from reluplan.potentials.generate import PotentialSettings
from reluplan.potentials.potential_set import PotentialSet
from reluplan.potentials.strengthen import StrengtheningRows
from reluplan.problem import Problem
from reluplan.result import PlanResult, summarise
from reluplan.run import Clock, Event, Run
from reluplan.solvers import get_solver
from reluplan.solvers.base import Progress, SolveOptions, SolveResult, SolveStatus
from reluplan.solvers.isolated import IsolatedSolver

Array = NDArray[np.float64]
METHODS = ("auto", "base", "potentials")
BOUNDS_SHARE = 0.5
"""At most this share of the time limit goes into bounds before the solver starts."""
POTENTIALS_SHARE = 0.3
"""At most this share of what is left then goes into reward potentials."""
MARGIN_PER_COLUMN = 1e-8
"""Error of a MILP's bound for each column: reduced costs are right to about 1e-7 of a column's range, mostly better."""


@dataclass(frozen=True)
class PlanOptions:
    """How to plan; see `plan`."""

    method: str
    solver: str
    time_limit: float
    gap: float
    threads: int | None
    seed: int
    big_m: float | None
    interval_count: int
    potentials: PotentialSet | None

    @property
    def thread_count(self) -> int:
        return min(self.threads or available_cores(), 4 * available_cores())


def plan(
    problem: Problem,
    *,
    horizon: int | None = None,
    method: str = "auto",
    solver: str = "highs",
    time_limit: float = math.inf,
    gap: float = 1e-4,
    threads: int | None = None,
    seed: int = 0,
    big_m: float | None = None,
    interval_count: int = 2,
    potentials: PotentialSet | None = None,
    clock: Clock | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> PlanResult:
    """The best plan for a problem, with a proven bound on how much better any other could be.

    Stops at the time limit (seconds, all stages together) or at Ctrl-C with the best plan and bound so far; the
    status says what is proven. method: "base" is the paper's base model, "potentials" the model strengthened by reward
    potentials with `interval_count` intervals per ReLU (computed, or given as `potentials`), "auto" is "base" for now.
    gap: `optimal` means bound − reward <= gap · max(1, |reward|); below 2e-6 it cannot be reached. threads: all cores
    by default. big_m: only to reproduce the published baseline. clock: started earlier, if the limit counts from there.

    >>> from reluplan import Problem, plan
    >>> result = plan(Problem.load("examples/tanks/problem.toml"), horizon=4)
    >>> result.status
    'optimal'
    """
    options = PlanOptions(method, solver, time_limit, gap, threads, seed, big_m, interval_count, potentials)
    _check_options(options)
    problem = problem if horizon is None else problem.with_horizon(horizon)
    if potentials is not None:
        potentials.require_fit(problem)
    run = Run(problem, clock or Clock(options.time_limit), options.gap, on_event)
    try:
        _plan(run, options)
    except KeyboardInterrupt:
        run.interrupted = True
    except InfeasibleError as error:
        run.proven_infeasible = run.best is None
        run.note(str(error))
    except OutOfTimeError as error:
        run.note(str(error))
    except Exception as error:
        if run.best is None and math.isinf(run.bound):
            raise
        run.note(f"stopped early: {error}")
    return summarise(run, options.method, options.solver, options.seed, _versions(options.solver))


def _plan(run: Run, options: PlanOptions) -> None:
    """Bounds, potentials if asked for, one MILP over the horizon, exact plans from the solver's solutions."""
    with run.stage("bounds"):
        bounds = reachable_bounds(run.problem, run.clock.deadline(BOUNDS_SHARE), run.clock.deadline())
        run.tell(f"{int(bounds.unstable.sum())} of {bounds.unstable.size} ReLUs are unstable")
    if options.method == "potentials":
        with run.stage("potentials"):
            run.potentials = options.potentials or _compute_potentials(run, bounds, options)
    with run.stage("model"):
        plan_model = _build(
            run.problem, bounds, options.big_m, potentials=run.potentials, deadline=run.clock.deadline()
        )
        model = plan_model.model
        run.tell(f"{model.row_count} rows, {model.column_count} columns, {int(model.integer.sum())} integer")
    if run.clock.remaining <= 0.0:
        raise OutOfTimeError("the time limit ended before the solver could start")
    with run.stage("milp"):
        outcome = _solve(run, plan_model, options)
    with run.stage("polish"):
        _finish(run, plan_model, outcome)


def build_model(problem: Problem, big_m: float | None = None, named: bool = False) -> PlanModel:
    """The planning MILP alone, without solving it."""
    return _build(problem, reachable_bounds(problem), big_m, named)


def _build(
    problem: Problem,
    bounds: HorizonBounds,
    big_m: float | None,
    named: bool = False,
    potentials: PotentialSet | None = None,
    deadline: float = math.inf,
) -> PlanModel:
    if big_m is not None:
        needed = float(np.abs([bounds.unit_lower, bounds.unit_upper]).max(initial=0.0))
        if big_m < needed:
            raise InputError(f"--big-m {big_m:g} would cut off plans: a neuron may reach {needed:g}; use a larger one")
    extension = None if potentials is None else StrengtheningRows(potentials.items)
    return unroll(problem, bounds, big_m, named, extension, deadline)


def _compute_potentials(run: Run, bounds: HorizonBounds, options: PlanOptions) -> PotentialSet:
    settings = PotentialSettings(options.interval_count, threads=options.thread_count, seed=options.seed)
    potentials = compute_potentials(
        run.problem, bounds, settings, deadline=run.clock.deadline(POTENTIALS_SHARE), on_round=tell_rounds(run.tell)
    )
    run.tell(potentials.summary())
    if potentials.report["interrupted"]:
        raise KeyboardInterrupt
    return potentials


def _solve(run: Run, plan_model: PlanModel, options: PlanOptions) -> SolveResult:
    """Run the solver in a process of its own, taking over plans and bounds as it reports them."""
    margin = MARGIN_PER_COLUMN * plan_model.model.column_count

    def listen(progress: Progress) -> None:
        run.count_nodes(progress.open_nodes, progress.closed_nodes)
        if progress.bound is not None:
            run.offer_bound(progress.bound, options.solver, margin)
        if progress.solution is not None:
            run.offer_plan(extract(plan_model, progress.solution), options.solver)

    outcome = IsolatedSolver(options.solver).solve(
        plan_model.model,
        SolveOptions(
            time_limit=run.clock.remaining,
            gap=0.5 * options.gap,
            threads=options.thread_count,
            seed=options.seed,
            on_progress=listen,
        ),
    )
    run.count_nodes(outcome.open_nodes, outcome.closed_nodes)
    run.offer_bound(outcome.dual_bound, options.solver, margin)
    run.interrupted = outcome.message == "interrupted"
    if outcome.status in (SolveStatus.FEASIBLE, SolveStatus.NO_SOLUTION) and run.clock.remaining > 0.0:
        run.note(f"{options.solver} stopped: {outcome.message}")
    return outcome


def _finish(run: Run, plan_model: PlanModel, outcome: SolveResult) -> None:
    """Take over the final answer: a proof of infeasibility, or an exact plan."""
    if outcome.status is SolveStatus.INFEASIBLE:
        if run.best is None:
            raise InfeasibleError(
                f"{run.problem.source}: the solver proved that no plan exists over {run.problem.horizon} steps"
            )
        run.note("the solver claimed that no plan exists, but one was found and checked")
    if outcome.status is SolveStatus.UNBOUNDED:
        raise InputError(
            f"{run.problem.source}: the reward has no upper bound ({outcome.message}); give bounds = [lower, upper] to "
            f"every action, state and auxiliary that it reads"
        )
    if outcome.solution is None or outcome.objective is None:
        return
    run.offer_plan(extract(plan_model, outcome.solution), "solver")
    if run.reward is None or run.reward < outcome.objective - 1e-6 * max(1.0, abs(outcome.objective)):
        _repair(run, plan_model, outcome.solution)


def _repair(run: Run, plan_model: PlanModel, solution: Array) -> None:
    """Try exact plans near the solver's until one is accepted; a second at least, even if the time is up."""
    deadline = time.monotonic() + max(1.0, run.clock.remaining)
    if any(run.offer_plan(repaired, "repair") for repaired in repairs(plan_model, solution, deadline)):
        return
    if run.best is None:
        run.note("the solver's solution violates constraints when simulated, and could not be repaired")


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_options(options: PlanOptions) -> None:
    if options.method not in METHODS:
        raise InputError(f"unknown method '{options.method}'; choose one of {', '.join(METHODS)}")
    if not options.time_limit > 0.0:
        raise InputError(f"the time limit must be positive, got {options.time_limit:g}")
    if not 0.0 <= options.gap < math.inf:
        raise InputError(f"the gap must be zero or positive, got {options.gap:g}")
    if options.threads is not None and options.threads < 1:
        raise InputError(f"the number of threads must be at least 1, got {options.threads}")
    if options.interval_count < 1:
        raise InputError(f"the number of intervals must be at least 1, got {options.interval_count}")
    if options.big_m is not None and options.method == "potentials":
        raise InputError("--big-m goes with --method base only")
    if options.big_m is not None and not 0.0 < options.big_m < math.inf:
        raise InputError(f"--big-m must be a positive number, got {options.big_m:g}")
    get_solver(options.solver)


def _versions(solver: str) -> dict[str, str]:
    names = ("reluplan", "numpy", "scipy")
    found = {name: metadata.version(name) for name in names}
    return {**found, "python": platform.python_version(), solver: get_solver(solver).version()}
