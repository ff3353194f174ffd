"""One MILP over the whole horizon: build it, solve it in a process of its own, take exact plans and bounds from it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.reachability import HorizonBounds
from reluplan.encoding.cuts import add_ideal_cuts
from reluplan.encoding.extract import extract, repairs
from reluplan.encoding.unroll import PlanModel, unroll
from reluplan.errors import InputError, NoPlanExistsError, OutOfTimeError
from reluplan.optimisation.solvers.base import Progress, SolveOptions, SolveResult, SolveStatus
from reluplan.optimisation.workers.isolated import IsolatedSolver
from reluplan.planning.options import PlanOptions
from reluplan.planning.run import Run
from reluplan.potentials.potential_set import PotentialSet
from reluplan.potentials.strengthen import StrengtheningRows
from reluplan.problem.problem import Problem
from reluplan.proofs.interval import box_bound

Array = NDArray[np.float64]

FEW_INTEGERS, CUTS_SHARE = 1_000, 0.1
"""A model with at most this many integers gets the cuts of its ReLUs, within this share of the time."""


def build_whole_model(
    problem: Problem,
    bounds: HorizonBounds,
    big_m: float | None = None,
    named: bool = False,
    potentials: PotentialSet | None = None,
    deadline: float = math.inf,
) -> PlanModel:
    """The planning MILP over proven bounds, strengthened by potentials if there are any."""
    if big_m is not None:
        needed = float(np.abs([bounds.unit_lower, bounds.unit_upper]).max(initial=0.0))
        if big_m < needed:
            raise InputError(f"--big-m {big_m:g} would cut off plans: a neuron may reach {needed:g}; use a larger one")
    extension = None if potentials is None else StrengtheningRows(potentials.items, deadline)
    return unroll(problem, bounds, big_m, named, extension, deadline)


def solve_whole_model(
    run: Run, bounds: HorizonBounds, options: PlanOptions, time_limit: float = math.inf, only_better: bool = False
) -> None:
    """Build and solve the MILP of the run's problem, beginning from its best plan.

    only_better: the bounds contain the plans better than the run's best one, not all; its reward is then part of every
    bound, and a model without solutions proves that it is optimal. Otherwise they contain all plans, and a model
    without solutions proves that there is none (NoPlanExistsError).
    """
    try:
        _solve_whole_model(run, bounds, options, time_limit, only_better)
    except OutOfTimeError:
        _fall_back_on_boxes(run, bounds)
        raise
    _fall_back_on_boxes(run, bounds)
    if run.interrupted:
        raise KeyboardInterrupt


def _solve_whole_model(
    run: Run, bounds: HorizonBounds, options: PlanOptions, time_limit: float, only_better: bool
) -> None:
    with run.stage("model"):
        deadline = run.clock.deadline()
        plan_model = build_whole_model(run.problem, bounds, options.big_m, False, run.potentials, deadline)
        if options.method == "auto" and int(plan_model.model.integer.sum()) <= FEW_INTEGERS:
            plan_model = replace(plan_model, model=add_ideal_cuts(plan_model, run.clock.deadline(CUTS_SHARE)))
        model = plan_model.model
        run.tell(f"{model.row_count} rows, {model.column_count} columns, {int(model.integer.sum())} integer")
    if run.clock.remaining <= 0.0:
        raise OutOfTimeError("the time limit ended before the solver could start")
    with run.stage("milp"):
        outcome = _solve(run, plan_model, options, time_limit, only_better)
    with run.stage("polish"):
        _finish(run, plan_model, outcome, only_better)


def _fall_back_on_boxes(run: Run, bounds: HorizonBounds) -> None:
    """If nothing better came in time, what the boxes alone prove: every plan outside them is no better than ours."""
    if math.isinf(run.bound):
        bound, margin = box_bound(run.problem, bounds)
        run.offer_bound(max(bound, -math.inf if run.reward is None else run.reward), "boxes", margin)


def _solve(run: Run, plan_model: PlanModel, options: PlanOptions, time_limit: float, only_better: bool) -> SolveResult:
    """Run the solver in a process of its own, taking over plans and bounds as it reports them."""
    known = run.reward if only_better and run.reward is not None else -math.inf

    def listen(progress: Progress) -> None:
        run.count_nodes(progress.open_nodes, progress.closed_nodes)
        if progress.bound is not None:
            run.offer_bound(max(progress.bound, known), options.solver, progress.margin)
        if progress.solution is not None:
            run.offer_plan(extract(plan_model, progress.solution), options.solver)

    outcome = IsolatedSolver(options.solver).solve(
        plan_model.model,
        SolveOptions(
            time_limit=min(time_limit, run.clock.remaining),
            gap=0.5 * options.gap,
            threads=options.thread_count,
            seed=options.seed,
            warm_start=None if run.best is None else plan_model.assignment(run.best),
            on_progress=listen,
        ),
    )
    run.count_nodes(outcome.open_nodes, outcome.closed_nodes)
    run.offer_bound(max(outcome.dual_bound, known), options.solver, outcome.margin)
    run.interrupted = outcome.is_interrupted
    stopped = outcome.status in (SolveStatus.FEASIBLE, SolveStatus.NO_SOLUTION)
    if stopped and run.clock.remaining > 0.0 and math.isinf(time_limit):
        run.note(f"{options.solver} stopped: {outcome.message}")
    return outcome


def _finish(run: Run, plan_model: PlanModel, outcome: SolveResult, only_better: bool) -> None:
    """Take over the final answer: a proof of infeasibility, or an exact plan."""
    if outcome.status is SolveStatus.INFEASIBLE:
        _take_emptiness(run, only_better)
    if outcome.status is SolveStatus.UNBOUNDED:
        raise InputError(
            f"{run.problem.source}: the reward has no upper bound ({outcome.message}); give bounds = [lower, upper] to "
            f"every action, state and auxiliary that it reads"
        )
    if outcome.solution is None or outcome.objective is None:
        return
    run.offer_plan(extract(plan_model, outcome.solution), "solver")
    if not _earns(run, outcome.objective):
        _repair(run, plan_model, outcome.solution, outcome.objective)


def _earns(run: Run, objective: float) -> bool:
    """Whether the best plan is worth what the solver promises."""
    return run.reward is not None and run.reward >= objective - 1e-6 * max(1.0, abs(objective))


def _take_emptiness(run: Run, only_better: bool) -> None:
    """The model has no solution: what that says depends on which plans it contained."""
    if only_better and run.best is not None:
        run.offer_bound(run.best.total_reward, "solver: no better plan is left")
    elif run.best is not None:
        run.note("the solver claimed that no plan exists, but one was found and checked")
    elif not only_better:
        text = f"{run.problem.source}: the solver proved that no plan exists over {run.problem.horizon} steps"
        raise NoPlanExistsError(text, run.problem)


def _repair(run: Run, plan_model: PlanModel, solution: Array, objective: float) -> None:
    """Try exact plans near the solver's until one is worth as much; half a second at least, even if the time is up."""
    deadline = clock.now() + max(0.5, run.clock.remaining)
    for repaired in repairs(plan_model, solution, deadline):
        run.offer_plan(repaired, "repair")
        if _earns(run, objective):
            return
    if run.best is None:
        run.note("the solver's solution violates constraints when simulated, and could not be repaired")
