"""The plan of one step, within its seconds."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from reluplan import clock
from reluplan.errors import NumericalError, ReluplanError, SolverError
from reluplan.planning.planner import check_choices, plan
from reluplan.planning.result import Status
from reluplan.planning.run import Clock, Run
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.search import search_plans

SEARCH_SHARE, LONGEST_SEARCH = 0.3, 0.5
"""The search for plans gets this share of a step's seconds, and no more than these where a proof is possible."""
SMALL_WINDOW, LONG_LIMIT = 400, 10.0
"""A proof is possible up to this many ReLUs in all steps of the window, or with as many seconds."""


@dataclass(frozen=True)
class PlanningOptions:
    """How the plans of a controller are made; as in `plan`, but refused at once, since a step may do without `plan`."""

    method: str
    solver: str
    gap: float
    threads: int | None
    seed: int

    def __post_init__(self) -> None:
        check_choices(self.method, self.solver, self.gap, self.threads)


@dataclass(frozen=True, eq=False)
class StepPlan:
    """The best valid plan that was found in time, None if there is none, and what is proven about it."""

    trajectory: Trajectory | None
    status: Status
    bound: float | None


def plan_step(window: Problem, options: PlanningOptions, start: Trajectory | None, seconds: float) -> StepPlan:
    """Search first, then prove, if there is a chance: a good plan is worth more to a controller than a proof.

    The default method's own schedule leaves little of a second for the search. start: a plan to begin with. Methods
    other than "auto" get all the time.
    """
    run, only_search = Run(window, Clock(seconds), options.gap), False
    if options.method == "auto":
        only_search = not _is_provable(window, seconds)
        longest = seconds if only_search else min(SEARCH_SHARE * seconds, LONGEST_SEARCH)
        _search(run, options, start, longest)
    remaining = run.clock.remaining
    if remaining <= 0.0 or (only_search and run.best is not None):
        return _unproven(run)
    return _prove(run, options, start, remaining)


def _is_provable(window: Problem, seconds: float) -> bool:
    return window.horizon * window.dynamics.relu_count <= SMALL_WINDOW or seconds >= LONG_LIMIT


def _unproven(run: Run) -> StepPlan:
    return StepPlan(run.best, "no_plan" if run.best is None else "feasible", None)


def _search(run: Run, options: PlanningOptions, start: Trajectory | None, seconds: float) -> None:
    """What goes wrong here costs plans, never the run."""
    with suppress(ReluplanError):
        search_plans(run.problem, None, clock.now() + seconds, run.offer_plan, options.seed, start)


def _prove(run: Run, options: PlanningOptions, start: Trajectory | None, seconds: float) -> StepPlan:
    """A plan with a bound; without them if the solver fails, which is no reason to leave the system alone."""
    try:
        result = plan(
            run.problem, time_limit=seconds, method=options.method, solver=options.solver, gap=options.gap,
            threads=options.threads, seed=options.seed, start=run.best or start,
        )  # fmt: skip
    except (SolverError, NumericalError):
        return _unproven(run)
    if result.fields["interrupted"]:
        raise KeyboardInterrupt
    if result.trajectory is not None:
        run.offer_plan(result.trajectory, "plan")
    status: Status = "feasible" if result.status == "no_plan" and run.best is not None else result.status
    return StepPlan(run.best, status, result.bound)
