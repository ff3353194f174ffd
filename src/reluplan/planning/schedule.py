"""Schedules: which stages run, in which order, for how long. They are data, which `run_schedule` goes through."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from reluplan import clock
from reluplan.errors import InputError, NoBetterPlanError, OutOfTimeError, SolverError
from reluplan.planning.stages import get_stage, stage_names
from reluplan.planning.work import Work
from reluplan.proofs.interval import interval_bound


class Condition(Enum):
    """When a step of a schedule runs, beside what its stage itself needs."""

    ALWAYS = "always"
    SLOW_BOUNDS = "the forward bounds used up their share of the time"
    SMALL_MODEL = "the model is small, or its reward has no evident bound"
    OWN_BOUNDS = "every unit has its own bounds, not one big M"


@dataclass(frozen=True)
class Step:
    """A stage with its share of the time that is left when its turn comes, and no more than `longest` seconds."""

    stage: str
    share: float = 1.0
    longest: float = math.inf
    when: Condition = Condition.ALWAYS


Schedule = tuple[Step, ...]

AUTO: Schedule = (
    # A plan never waits long for a bound: where the LPs of the forward bounds are slow, the search comes before them.
    Step("bounds", 0.15),
    Step("search", 0.3, 60.0, Condition.SLOW_BOUNDS),
    Step("bounds", 0.5, when=Condition.SLOW_BOUNDS),
    Step("propagation", 0.02, 10.0),
    Step("interval"),
    # A small model goes to the solver after a short search, for a while.
    Step("search", 0.12, 2.0, Condition.SMALL_MODEL),
    Step("tightening", 0.03, 20.0, Condition.SMALL_MODEL),
    Step("milp", 0.2, 20.0, Condition.SMALL_MODEL),
    Step("search", 0.12, 60.0),
    Step("single-steps", 0.05),
    Step("grid", 0.9),
    Step("lagrangian", 0.95),
    # What is left, in the boxes of better plans.
    Step("tightening", 0.03, 20.0),
    Step("milp"),
)
"""The default: a plan within seconds, then one proof after the other until a bound meets it."""

BASE: Schedule = (
    Step("bounds", 0.5),
    Step("propagation", 0.02, 10.0, Condition.OWN_BOUNDS),
    Step("tightening", 0.03, 20.0, Condition.OWN_BOUNDS),
    Step("milp"),
)
"""The paper's base model."""

POTENTIALS: Schedule = (
    Step("bounds", 0.5),
    Step("potentials", 0.3),
    Step("propagation", 0.02, 10.0),
    Step("tightening", 0.03, 20.0),
    Step("milp"),
)
"""The paper's strengthened model."""

CONTROL: Schedule = (Step("search", 0.3, 0.5), *AUTO)
"""A step of a controller: a good plan is worth more than a proof, and `auto` leaves little of a second for a search."""

SEARCH_ONLY: Schedule = (Step("search"),)
"""A step of a controller that has no chance of a proof."""

METHODS: dict[str, Schedule] = {"auto": AUTO, "base": BASE, "potentials": POTENTIALS}


def schedule_of(names: Sequence[str]) -> Schedule:
    """Chosen stages in their order, each as long as in the methods' own schedules; bounds come first in any case."""
    usual = {step.stage: step for schedule in (POTENTIALS, BASE, AUTO) for step in schedule}
    for name in names:
        if name not in stage_names():
            raise InputError(f"unknown stage '{name}'; choose from {', '.join(stage_names())}")
    if not names:
        raise InputError(f"no stages were given; choose from {', '.join(stage_names())}")
    chosen = [Step(name, usual[name].share, usual[name].longest) if name in usual else Step(name) for name in names]
    return tuple(chosen if "bounds" in names else [Step("bounds", 0.5), *chosen])


def run_schedule(work: Work, schedule: Schedule) -> None:
    """One step after the other, until the bound meets the plan or the time is over; a plan that was given counts at
    once."""
    if work.options.start is not None:
        work.incumbent.offer_plan(work.options.start, "start")
    try:
        for number, step in enumerate(schedule):
            if work.incumbent.is_proven or work.is_finished:
                return
            _run_step(work, step, schedule[number + 1 :])
    except KeyboardInterrupt:
        _fall_back_on_boxes(work)
        raise
    _fall_back_on_boxes(work)
    if work.incumbent.plan is None and work.clock.remaining <= 0.0:
        work.log.note("the time limit ended before a plan was found")


def _run_step(work: Work, step: Step, later: Schedule) -> None:
    stage = get_stage(step.stage, work.settings)
    is_late = work.clock.remaining <= 0.0 and work.all_plans is not None
    if is_late or not _holds(step.when, work) or not stage.applies(work):
        return
    if not any(get_stage(other.stage, work.settings).uses_workers for other in (step, *later)):
        work.close_pool()
    deadline = min(work.clock.deadline(step.share), clock.now() + step.longest)
    try:
        with work.log.stage(step.stage):
            stage.run(work, deadline)
    except NoBetterPlanError:
        work.finish(step.stage)
    except OutOfTimeError as error:
        _say_out_of_time(work, error, is_last=not later)
    except SolverError as error:
        if work.all_plans is None or not later:
            raise
        work.log.note(f"{step.stage} was ended, and what comes after it went on: {error}")


def _say_out_of_time(work: Work, error: OutOfTimeError, is_last: bool) -> None:
    """A stage that cannot be done in time leaves the time to others, unless none of them can begin without it."""
    if work.all_plans is None:
        raise error
    if is_last:
        work.log.note(str(error))
    else:
        work.log.tell(str(error))


def _holds(condition: Condition, work: Work) -> bool:
    match condition:
        case Condition.ALWAYS:
            return True
        case Condition.SLOW_BOUNDS:
            return work.bounds_were_slow
        case Condition.SMALL_MODEL:
            is_small = int(work.boxes.unstable.sum()) <= work.settings.small_model
            return is_small or math.isinf(work.incumbent.bound)
        case Condition.OWN_BOUNDS:
            return work.options.big_m is None


def _fall_back_on_boxes(work: Work) -> None:
    """If nothing better came in time, what the boxes alone prove: every plan outside them is no better than ours."""
    if math.isinf(work.incumbent.bound) and work.all_plans is not None:
        bound, margin = interval_bound(work.problem, work.boxes)
        reward = work.incumbent.reward
        work.incumbent.offer_bound(max(bound, -math.inf if reward is None else reward), "intervals", margin)
