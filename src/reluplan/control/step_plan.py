"""The plan of one step, within its seconds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from reluplan.check import check
from reluplan.errors import InputError, NumericalError, ReluplanError, SolverError
from reluplan.planner import METHODS, plan
from reluplan.primal import search_plans
from reluplan.problem import Problem
from reluplan.result import Status
from reluplan.simulate import Trajectory
from reluplan.solvers import get_solver

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
        if self.method not in METHODS:
            raise InputError(f"unknown method '{self.method}'; choose one of {', '.join(METHODS)}")
        if not 0.0 <= self.gap < math.inf:
            raise InputError(f"the gap must be zero or positive, got {self.gap:g}")
        if self.threads is not None and self.threads < 1:
            raise InputError(f"the number of threads must be at least 1, got {self.threads}")
        get_solver(self.solver)


@dataclass(frozen=True, eq=False)
class StepPlan:
    """The best valid plan that was found in time, None if there is none, and what is proven about it."""

    trajectory: Trajectory | None
    status: Status
    bound: float | None


class BestPlan:
    """Keeps the best valid plan of those that it hears of."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.trajectory: Trajectory | None = None

    def __call__(self, trajectory: Trajectory, source: str, /) -> bool:
        best = self.trajectory
        if (best is not None and trajectory.total_reward <= best.total_reward) or not check(
            self.problem, trajectory
        ).ok:
            return False
        self.trajectory = trajectory
        return True


def plan_step(window: Problem, options: PlanningOptions, start: Trajectory | None, seconds: float) -> StepPlan:
    """Search first, then prove, if there is a chance: a good plan is worth more to a controller than a proof.

    The default method's own schedule leaves little of a second for the search. start: a plan to begin with. Methods
    other than "auto" get all the time.
    """
    deadline, best, only_search = time.monotonic() + seconds, BestPlan(window), False
    if options.method == "auto":
        only_search = not _is_provable(window, seconds)
        longest = seconds if only_search else min(SEARCH_SHARE * seconds, LONGEST_SEARCH)
        _search(window, options, start, best, longest)
    remaining = deadline - time.monotonic()
    if remaining <= 0.0 or (only_search and best.trajectory is not None):
        return _unproven(best)
    return _prove(window, options, start, best, remaining)


def _is_provable(window: Problem, seconds: float) -> bool:
    return window.horizon * window.dynamics.relu_count <= SMALL_WINDOW or seconds >= LONG_LIMIT


def _unproven(best: BestPlan) -> StepPlan:
    return StepPlan(best.trajectory, "no_plan" if best.trajectory is None else "feasible", None)


def _search(
    window: Problem, options: PlanningOptions, start: Trajectory | None, best: BestPlan, seconds: float
) -> None:
    """What goes wrong here costs plans, never the run."""
    try:
        search_plans(window, None, time.monotonic() + seconds, best, options.seed, start)
    except ReluplanError:
        return


def _prove(
    window: Problem, options: PlanningOptions, start: Trajectory | None, best: BestPlan, seconds: float
) -> StepPlan:
    """A plan with a bound; without them if the solver fails, which is no reason to leave the system alone."""
    try:
        result = plan(
            window, time_limit=seconds, method=options.method, solver=options.solver, gap=options.gap,
            threads=options.threads, seed=options.seed, start=best.trajectory or start,
        )  # fmt: skip
    except (SolverError, NumericalError):
        return _unproven(best)
    if result.fields["interrupted"]:
        raise KeyboardInterrupt
    if result.trajectory is not None:
        best(result.trajectory, "plan")
    status: Status = "feasible" if result.status == "no_plan" and best.trajectory is not None else result.status
    return StepPlan(best.trajectory, status, result.bound)
