"""One MILP over the whole horizon: build it, solve it in a process of its own, take exact plans and bounds from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import AllPlanBounds, BetterPlanBounds, HorizonBounds, tightened_for_better_plans
from reluplan.encoding.cuts import add_ideal_cuts
from reluplan.encoding.extract import extract, repairs
from reluplan.encoding.unroll import PlanModel, unroll
from reluplan.encoding.window_cuts import WindowCut, with_window_cuts
from reluplan.errors import InputError, NoBetterPlanError, NoPlanExistsError, OutOfTimeError
from reluplan.optimisation.solvers.base import Progress, SolveOptions, SolveResult, SolveStatus
from reluplan.optimisation.workers.background import BackgroundSolve
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


@dataclass(eq=False)
class WholeMilp:
    """The model over the smallest boxes there were when it was built, and what its answers mean for the run.

    Over boxes of better plans, or with cuts of these, the reward of the incumbent of then is part of every bound, and a
    model without solutions proves that no plan is better; over boxes of all plans, that there is none. left_out: that
    reward, or −∞. cuts: that it was built with. begins_with: the reward of the plan that it was given, if any. bound:
    that it has come to.
    """

    work: Work
    boxes: BetterPlanBounds
    left_out: float
    plan_model: PlanModel
    cuts: tuple[WindowCut, ...]
    begins_with: float | None = None
    bound: float = math.inf
    began: float = field(default_factory=clock.now)

    @classmethod
    def build(cls, work: Work) -> WholeMilp:
        """From what is known now; OutOfTimeError if the time limit ends meanwhile."""
        boxes, reward, cuts = work.boxes, work.incumbent.reward, work.cuts
        if cuts:
            boxes = tightened_for_better_plans(boxes, {})
        left_out = -math.inf if isinstance(boxes, AllPlanBounds) or reward is None else reward
        with work.log.stage("model"):
            plan_model = _build(work, boxes, cuts)
        if work.clock.remaining <= 0.0:
            raise OutOfTimeError("the time limit ended before the solver could start")
        return cls(work, boxes, left_out, plan_model, cuts, reward)

    def options(self, time_limit: float, threads: int) -> SolveOptions:
        """To solve it by, beginning from the best plan."""
        plan, options = self.work.incumbent.plan, self.work.options
        return SolveOptions(
            time_limit=min(time_limit, self.work.clock.remaining),
            gap=0.5 * options.gap,
            threads=threads,
            seed=options.seed,
            warm_start=None if plan is None else self.plan_model.assignment(plan),
            on_progress=self._listen,
        )

    def _listen(self, progress: Progress) -> None:
        """Take over plans and bounds as the solver reports them."""
        incumbent, solver = self.work.incumbent, self.work.options.solver
        self.work.log.nodes = NodeCount(progress.open_nodes, progress.closed_nodes)
        if progress.bound is not None:
            self.bound = min(self.bound, progress.bound)
            incumbent.offer_bound(max(progress.bound, self.left_out), solver, progress.margin)
        if progress.solution is not None:
            incumbent.offer_plan(extract(self.plan_model, progress.solution), solver)

    def finish(self, outcome: SolveResult, is_last: bool) -> None:
        """Take over the final answer: a bound, a proof of infeasibility, or an exact plan. is_last: it had all the time
        that was left, so that the result should say why it ended before that."""
        work, solver = self.work, self.work.options.solver
        work.log.nodes = NodeCount(outcome.open_nodes, outcome.closed_nodes)
        work.incumbent.offer_bound(max(outcome.dual_bound, self.left_out), solver, outcome.margin)
        work.run.interrupted = outcome.is_interrupted
        stopped = outcome.status in (SolveStatus.FEASIBLE, SolveStatus.NO_SOLUTION)
        if stopped and work.clock.remaining > 0.0 and is_last:
            work.log.note(f"{solver} stopped: {outcome.message}")
        with work.log.stage("polish"):
            self._take_answer(outcome)

    def _take_answer(self, outcome: SolveResult) -> None:
        if outcome.status is SolveStatus.INFEASIBLE:
            _take_emptiness(self.work, self.boxes)
        if outcome.status is SolveStatus.UNBOUNDED:
            raise InputError(
                f"{self.work.problem.source}: the reward has no upper bound ({outcome.message}); give bounds = "
                f"[lower, upper] to every action, state and auxiliary that it reads"
            )
        if outcome.solution is None or outcome.objective is None:
            return
        self.work.incumbent.offer_plan(extract(self.plan_model, outcome.solution), "solver")
        if not _earns(self.work, outcome.objective):
            _repair(self.work, self.plan_model, outcome.solution, outcome.objective)


class MilpStage:
    """Build it, solve it, take over."""

    name = "milp"
    summary = "one MILP over the whole horizon, in the boxes that are left"
    uses_workers = False

    def applies(self, work: Work) -> bool:
        return work.all_plans is not None

    def run(self, work: Work, deadline: float) -> None:
        """Until it is solved, or the deadline."""
        is_limited = deadline < work.clock.started + work.clock.time_limit
        time_limit = deadline - clock.now() if is_limited else math.inf
        milp = WholeMilp.build(work)
        options = milp.options(time_limit, work.options.thread_count)
        outcome = IsolatedSolver(work.options.solver).solve(milp.plan_model.model, options)
        milp.finish(outcome, is_last=math.isinf(time_limit))
        if work.run.interrupted:
            raise KeyboardInterrupt


class BackgroundMilp:
    """The same MILP beside other stages, or in turns with them: it goes on where it stopped.

    It is solved anew when the boxes have become so much smaller that the model of now is at most the share
    `settings.milp.worth_a_restart` as loose, cuts have come up with which it begins at no more than that share of its
    gap of now, or a plan that leaves no more than that share of the gap open.
    """

    def __init__(self, work: Work, threads: int) -> None:
        self._work = work
        self._threads = threads
        self._milp: WholeMilp | None = None
        self._solve: BackgroundSolve | None = None
        self._looseness = math.inf
        self.is_solved = False
        """Whether it has come to its end, so that nothing better than its solution is left."""

    @property
    def is_running(self) -> bool:
        return self._solve is not None and not self._solve.is_paused

    @property
    def applies(self) -> bool:
        """Whether it is being solved, or is worth being begun."""
        return self._solve is not None or self.is_outdated

    @property
    def is_outdated(self) -> bool:
        """Whether it is worth being begun, or begun anew."""
        if self._work.all_plans is None:
            return False
        share = self._work.settings.milp.worth_a_restart
        return self._work.looseness < share * self._looseness or self.is_behind or self._has_poor_plan(share)

    @property
    def is_behind(self) -> bool:
        """Whether others have proven much more, with cuts that it does not have."""
        milp, incumbent, share = self._milp, self._work.incumbent, self._work.settings.milp.worth_a_restart
        if milp is None or incumbent.reward is None or milp.cuts is self._work.cuts or math.isinf(milp.bound):
            return False
        return incumbent.bound - incumbent.reward < share * (milp.bound - incumbent.reward)

    def _has_poor_plan(self, share: float) -> bool:
        """Whether the plan that it was given left much more open than the best one does, and not much would be lost: a
        solver cannot be given another on its way."""
        milp, incumbent = self._milp, self._work.incumbent
        if milp is None or incumbent.reward is None or clock.now() - milp.began > 0.5 * self._work.clock.remaining:
            return False
        given = -math.inf if milp.begins_with is None else milp.begins_with
        return incumbent.bound - incumbent.reward < share * (incumbent.bound - given)

    def resume(self, anew: bool) -> None:
        """Begin, or go on in the background; anew: from the start if it is outdated."""
        if self.is_outdated and (anew or self._solve is None):
            self._begin()
        if self._solve is not None:
            self._solve.resume()

    def pause(self) -> None:
        """Stand still."""
        if self._solve is not None and not self._solve.is_paused:
            self._solve.pause()

    def look(self, until: float = 0.0) -> None:
        """Take over what it has found, waiting for its end until a moment (of clock.now); raises as a stage does."""
        if self._solve is None or self._milp is None:
            return
        outcome = self._solve.look(until)
        if outcome is not None:
            milp = self._milp
            self.is_solved = outcome.status is SolveStatus.OPTIMAL
            self.end()
            milp.finish(outcome, is_last=False)

    def end(self) -> None:
        """Kill it."""
        if self._solve is not None:
            self._solve.end()
            self._solve = None
            self._milp = None

    def give_up(self) -> None:
        """Kill it, and do not begin it again."""
        self.end()
        self._looseness = -1.0

    def _begin(self) -> None:
        self.end()
        self._looseness = self._work.looseness
        milp = WholeMilp.build(self._work)
        options = milp.options(math.inf, self._threads)
        self._milp = milp
        self._solve = BackgroundSolve(self._work.options.solver, milp.plan_model.model, options)


def _build(work: Work, boxes: BetterPlanBounds, cuts: Sequence[WindowCut]) -> PlanModel:
    settings, options = work.settings.milp, work.options
    plan_model = build_whole_model(
        work.problem, boxes, options.big_m, False, work.run.potentials, work.clock.deadline()
    )
    plan_model = with_window_cuts(plan_model, cuts)
    if options.method == "auto" and int(plan_model.model.integer.sum()) <= settings.few_integers:
        until = work.clock.deadline(settings.cuts_share)
        plan_model = replace(plan_model, model=add_ideal_cuts(plan_model, until, settings.cuts))
    model = plan_model.model
    work.log.tell(f"{model.row_count} rows, {model.column_count} columns, {int(model.integer.sum())} integer")
    return plan_model


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
