"""From a problem to a plan with a proven bound: the stages, top down."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.reach import HorizonBounds, reachable_bounds
from reluplan.errors import InfeasibleError, InputError
from reluplan.milp.unroll import PlanModel, unroll
from reluplan.polish import extract, repairs
from reluplan.problem import Problem
from reluplan.result import PlanResult, summarise
from reluplan.run import Clock, Event, Run
from reluplan.solvers import get_solver
from reluplan.solvers.base import Progress, SolveOptions, SolveResult, SolveStatus
from reluplan.solvers.isolated import IsolatedSolver

Array = NDArray[np.float64]
METHODS = ("auto", "base")
BOUNDS_SHARE = 0.5
"""At most this share of the time limit goes into bounds before the solver starts."""


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
    clock: Clock | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> PlanResult:
    """The best plan for a problem, with a proven bound on how much better any other could be.

    Stops at the time limit (seconds, all stages together) or at Ctrl-C with the best plan and bound so far; the
    status says what is proven. gap: `optimal` means bound − reward <= gap · max(1, |reward|). threads: all cores by
    default. big_m: only to reproduce the published baseline. clock: started earlier, if the limit counts from there.

    >>> from reluplan import Problem, plan
    >>> result = plan(Problem.load("examples/reservoir/problem.toml"), horizon=4)
    >>> result.status
    'optimal'
    """
    options = PlanOptions(method, solver, time_limit, gap, threads, seed, big_m)
    _check_options(options)
    problem = problem if horizon is None else problem.with_horizon(horizon)
    run = Run(problem, clock or Clock(options.time_limit), options.gap, on_event)
    try:
        _plan_base(run, options)
    except InfeasibleError as error:
        run.proven_infeasible = True
        run.notes.append(str(error))
        run.tell(str(error))
    except KeyboardInterrupt:
        run.interrupted = True
        run.tell("interrupted")
    return summarise(run, options.method, options.solver, options.seed, _versions(options.solver))


def _plan_base(run: Run, options: PlanOptions) -> None:
    """The paper's base model: bounds, one MILP over the horizon, a solver, exact plans from its solutions."""
    with run.stage("bounds"):
        bounds = reachable_bounds(run.problem, run.clock.deadline(BOUNDS_SHARE))
        run.tell(f"{int(bounds.unstable.sum())} of {bounds.unstable.size} ReLUs are unstable")
    with run.stage("model"):
        plan_model = _build(run.problem, bounds, options.big_m)
        model = plan_model.model
        run.tell(f"{model.row_count} rows, {model.column_count} columns, {int(model.integer.sum())} integer")
    with run.stage("milp"):
        outcome = _solve(run, plan_model, options)
    with run.stage("polish"):
        _finish(run, plan_model, outcome)


def build_model(problem: Problem, big_m: float | None = None, named: bool = False) -> PlanModel:
    """The planning MILP alone, without solving it."""
    return _build(problem, reachable_bounds(problem), big_m, named)


def _build(problem: Problem, bounds: HorizonBounds, big_m: float | None, named: bool = False) -> PlanModel:
    if big_m is not None:
        needed = max(float(abs(bounds.unit_lower).max()), float(abs(bounds.unit_upper).max()))
        if big_m < needed:
            raise InputError(f"--big-m {big_m:g} would cut off plans: a neuron may reach {needed:g}; use a larger one")
    return unroll(problem, bounds, big_m, named)


def _solve(run: Run, plan_model: PlanModel, options: PlanOptions) -> SolveResult:
    """Run the solver in a process of its own, taking over plans and bounds as it reports them."""

    def listen(progress: Progress) -> None:
        run.count_nodes(progress.open_nodes, progress.closed_nodes)
        if progress.bound is not None:
            run.offer_bound(progress.bound, options.solver)
        if progress.solution is not None:
            run.offer_plan(extract(plan_model, progress.solution), options.solver)

    outcome = IsolatedSolver(options.solver).solve(
        plan_model.model,
        SolveOptions(
            time_limit=run.clock.remaining,
            gap=0.5 * options.gap,
            threads=options.threads or available_cores(),
            seed=options.seed,
            on_progress=listen,
        ),
    )
    run.count_nodes(outcome.open_nodes, outcome.closed_nodes)
    run.interrupted = outcome.message == "interrupted"
    return outcome


def _finish(run: Run, plan_model: PlanModel, outcome: SolveResult) -> None:
    """Take over the final answer: a proof of infeasibility, the dual bound, and an exact plan."""
    if outcome.status is SolveStatus.INFEASIBLE and run.best is None:
        raise InfeasibleError(
            f"{run.problem.source}: the solver proved that no plan exists over {run.problem.horizon} steps"
        )
    if outcome.status is SolveStatus.UNBOUNDED:
        raise InputError(
            f"{run.problem.source}: the reward has no upper bound; give bounds = [lower, upper] to every action, state "
            f"and auxiliary that it reads"
        )
    run.offer_bound(outcome.dual_bound, "solver")
    if outcome.solution is None or outcome.objective is None:
        return
    run.offer_plan(extract(plan_model, outcome.solution), "solver")
    if run.reward is None or run.reward < outcome.objective - 1e-6 * max(1.0, abs(outcome.objective)):
        _repair(run, plan_model, outcome.solution)
    _distrust_bound_below_plan(run)


def _repair(run: Run, plan_model: PlanModel, solution: Array) -> None:
    """Try exact plans near the solver's until one is accepted."""
    for repaired in repairs(plan_model, solution, max(1.0, run.clock.remaining)):
        if run.offer_plan(repaired, "repair") or run.clock.remaining <= 0.0:
            return
    if run.best is None:
        run.notes.append("the solver's solution violates constraints when simulated, and could not be repaired")


def _distrust_bound_below_plan(run: Run) -> None:
    """A bound below the value of a plan in hand: within tolerances it is lifted, beyond them it is thrown away."""
    if run.reward is None or run.reward <= run.bound:
        return
    if run.reward - run.bound > 1e-4 * max(1.0, abs(run.reward)):
        run.notes.append(f"the bound {run.bound:g} was dropped: a checked plan has reward {run.reward:g}")
        run.bound = math.inf
    else:
        run.bound = run.reward


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
    if options.big_m is not None and not 0.0 < options.big_m < math.inf:
        raise InputError(f"--big-m must be a positive number, got {options.big_m:g}")
    get_solver(options.solver)


def _versions(solver: str) -> dict[str, str]:
    names = ("reluplan", "numpy", "scipy")
    found = {name: metadata.version(name) for name in names}
    return {**found, "python": platform.python_version(), solver: get_solver(solver).version()}
