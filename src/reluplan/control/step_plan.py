"""The plan of one step, within its seconds."""

from __future__ import annotations

from dataclasses import dataclass

from reluplan.clock import Clock
from reluplan.control.settings import StepPlanSettings
from reluplan.errors import NumericalError, SolverError
from reluplan.planning.options import PlanOptions
from reluplan.planning.planner import check_options, plan_by
from reluplan.planning.result import PlanResult, Status
from reluplan.planning.schedule import AUTO, CONTROL, METHODS, SEARCH_ONLY, Schedule
from reluplan.planning.settings import PlanSettings
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory

DEFAULT = StepPlanSettings()


@dataclass(frozen=True)
class PlanningOptions:
    """How the plans of a controller are made; as in `plan`, but refused at once, before the first step."""

    method: str
    solver: str
    gap: float
    threads: int | None
    seed: int

    def __post_init__(self) -> None:
        check_options(self.for_step(1.0, None))

    def for_step(self, seconds: float, start: Trajectory | None) -> PlanOptions:
        """The options of one step's plan."""
        return PlanOptions(self.method, self.solver, seconds, self.gap, self.threads, self.seed, start=start)


@dataclass(frozen=True, eq=False)
class StepPlan:
    """The best valid plan that was found in time, None if there is none, and what is proven about it."""

    trajectory: Trajectory | None
    status: Status
    bound: float | None


NO_PLAN = StepPlan(None, "no_plan", None)


def plan_step(
    window: Problem,
    options: PlanningOptions,
    start: Trajectory | None,
    seconds: float,
    settings: StepPlanSettings = DEFAULT,
) -> StepPlan:
    """Search first, then prove, if there is a chance: a good plan is worth more to a controller than a proof.

    start: a plan to begin with. Methods other than "auto" get all the time.
    """
    clock = Clock(seconds)
    chosen = options.for_step(seconds, start)
    schedule = _schedule(window, options.method, seconds, settings)
    found = _plan(schedule, window, chosen, clock)
    if schedule is SEARCH_ONLY and found.trajectory is None and clock.remaining > 0.0:
        return _plan(AUTO, window, chosen, clock)
    return found


def _schedule(window: Problem, method: str, seconds: float, settings: StepPlanSettings) -> Schedule:
    if method != "auto":
        return METHODS[method]
    is_small = window.horizon * window.dynamics.relu_count <= settings.small_window
    return CONTROL if is_small or seconds >= settings.long_limit else SEARCH_ONLY


def _plan(schedule: Schedule, window: Problem, options: PlanOptions, clock: Clock) -> StepPlan:
    """A plan, with a bound if there is one; a solver that fails is no reason to leave the system alone."""
    try:
        result: PlanResult = plan_by(schedule, window, options, PlanSettings(), clock)
    except (SolverError, NumericalError):
        return NO_PLAN
    if result.interrupted:
        raise KeyboardInterrupt
    return StepPlan(result.trajectory, result.status, result.bound)
