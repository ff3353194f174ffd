"""One MILP over the whole horizon: build it, solve it in a process of its own, take exact plans and bounds from it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import AllPlanBounds, BetterPlanBounds, HorizonBounds
from reluplan.encoding.cuts import add_ideal_cuts
from reluplan.encoding.extract import extract, repairs
from reluplan.encoding.unroll import PlanModel, unroll
from reluplan.errors import InputError, NoBetterPlanError, NoPlanExistsError, OutOfTimeError
from reluplan.optimisation.solvers.base import Progress, SolveOptions, SolveResult, SolveStatus
from reluplan.optimisation.workers.isolated import IsolatedSolver
from reluplan.planning.log import NodeCount
from reluplan.planning.work import Work
from reluplan.potentials.potential_set import PotentialSet
from reluplan.potentials.strengthen import StrengtheningRows
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]


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
            raise InputError(f"--big-m {big_m:g} would cut off plans: a unit may reach {needed:g}; use a larger one")
    extension = None if potentials is None else StrengtheningRows(potentials.items, deadline)
    return unroll(problem, bounds, big_m, named, extension, deadline)


class MilpStage:
    """The model over the smallest boxes there are, beginning from the best plan.

    Over boxes of better plans the incumbent's reward is part of every bound, and a model without solutions proves that
    it is optimal; over boxes of all plans, that there is none.
    """

    name = "milp"
    summary = "one MILP over the whole horizon, in the boxes that are left"
    uses_workers = False

    def applies(self, work: Work) -> bool:
        return work.all_plans is not None

    def run(self, work: Work, deadline: float) -> None:
        """Build, solve, take over."""
        is_limited = deadline < work.clock.started + work.clock.time_limit
        time_limit = deadline - clock.now() if is_limited else math.inf
        boxes = work.boxes
        with work.log.stage("model"):
            plan_model = _build(work, boxes)
        if work.clock.remaining <= 0.0:
            raise OutOfTimeError("the time limit ended before the solver could start")
        outcome = _solve(work, plan_model, boxes, time_limit)
        with work.log.stage("polish"):
            _finish(work, plan_model, boxes, outcome)
        if work.run.interrupted:
            raise KeyboardInterrupt


def _build(work: Work, boxes: BetterPlanBounds) -> PlanModel:
    settings, options = work.settings.milp, work.options
    plan_model = build_whole_model(
        work.problem, boxes, options.big_m, False, work.run.potentials, work.clock.deadline()
    )
    if options.method == "auto" and int(plan_model.model.integer.sum()) <= settings.few_integers:
        until = work.clock.deadline(settings.cuts_share)
        plan_model = replace(plan_model, model=add_ideal_cuts(plan_model, until, settings.cuts))
    model = plan_model.model
    work.log.tell(f"{model.row_count} rows, {model.column_count} columns, {int(model.integer.sum())} integer")
    return plan_model


def _solve(work: Work, plan_model: PlanModel, boxes: BetterPlanBounds, time_limit: float) -> SolveResult:
    """Run the solver in a process of its own, taking over plans and bounds as it reports them."""
    incumbent, options = work.incumbent, work.options
    left_out = -math.inf if isinstance(boxes, AllPlanBounds) or incumbent.reward is None else incumbent.reward

    def listen(progress: Progress) -> None:
        work.log.nodes = NodeCount(progress.open_nodes, progress.closed_nodes)
        if progress.bound is not None:
            incumbent.offer_bound(max(progress.bound, left_out), options.solver, progress.margin)
        if progress.solution is not None:
            incumbent.offer_plan(extract(plan_model, progress.solution), options.solver)

    outcome = IsolatedSolver(options.solver).solve(
        plan_model.model,
        SolveOptions(
            time_limit=min(time_limit, work.clock.remaining),
            gap=0.5 * options.gap,
            threads=options.thread_count,
            seed=options.seed,
            warm_start=None if incumbent.plan is None else plan_model.assignment(incumbent.plan),
            on_progress=listen,
        ),
    )
    work.log.nodes = NodeCount(outcome.open_nodes, outcome.closed_nodes)
    incumbent.offer_bound(max(outcome.dual_bound, left_out), options.solver, outcome.margin)
    work.run.interrupted = outcome.is_interrupted
    stopped = outcome.status in (SolveStatus.FEASIBLE, SolveStatus.NO_SOLUTION)
    if stopped and work.clock.remaining > 0.0 and math.isinf(time_limit):
        work.log.note(f"{options.solver} stopped: {outcome.message}")
    return outcome


def _finish(work: Work, plan_model: PlanModel, boxes: BetterPlanBounds, outcome: SolveResult) -> None:
    """Take over the final answer: a proof of infeasibility, or an exact plan."""
    if outcome.status is SolveStatus.INFEASIBLE:
        _take_emptiness(work, boxes)
    if outcome.status is SolveStatus.UNBOUNDED:
        raise InputError(
            f"{work.problem.source}: the reward has no upper bound ({outcome.message}); give bounds = [lower, upper] "
            f"to every action, state and auxiliary that it reads"
        )
    if outcome.solution is None or outcome.objective is None:
        return
    work.incumbent.offer_plan(extract(plan_model, outcome.solution), "solver")
    if not _earns(work, outcome.objective):
        _repair(work, plan_model, outcome.solution, outcome.objective)


def _earns(work: Work, objective: float) -> bool:
    """Whether the best plan is worth what the solver promises."""
    reward = work.incumbent.reward
    return reward is not None and reward >= objective - 1e-6 * max(1.0, abs(objective))


def _take_emptiness(work: Work, boxes: BetterPlanBounds) -> None:
    """The model has no solution: what that says depends on which plans the boxes contain."""
    if not isinstance(boxes, AllPlanBounds):
        raise NoBetterPlanError("the solver proved that no better plan exists")
    if work.incumbent.plan is not None:  # by a tolerance that the model does not have
        work.log.note("the solver claimed that no plan exists, but one was found and checked")
        return
    problem = work.problem
    text = f"{problem.source}: the solver proved that no plan exists over {problem.horizon} steps"
    raise NoPlanExistsError(text, problem)


def _repair(work: Work, plan_model: PlanModel, solution: Array, objective: float) -> None:
    """Try exact plans near the solver's until one is worth as much; for a moment at least, even if the time is up."""
    deadline = clock.now() + max(work.settings.milp.repair_seconds, work.clock.remaining)
    for repaired in repairs(plan_model, solution, deadline):
        work.incumbent.offer_plan(repaired, "repair")
        if _earns(work, objective):
            return
    if work.incumbent.plan is None:
        work.log.note("the solver's solution violates constraints when rolled out, and could not be repaired")
