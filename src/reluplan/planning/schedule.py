"""Schedules: which stages run, in which order, for how long. They are data, which `run_schedule` goes through."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from reluplan import clock
from reluplan.errors import InputError, NoBetterPlanError, OutOfTimeError, SolverError
from reluplan.planning.portfolio import Portfolio
from reluplan.planning.stages import Stages, stage_names
from reluplan.planning.stages.search import SearchStage
from reluplan.planning.stages.stage import Stage
from reluplan.planning.work import Work
from reluplan.proofs.interval import interval_bound


class Condition(Enum):
    """When a step of a schedule runs, beside what its stage itself needs."""

    ALWAYS = "always"
    SLOW_BOUNDS = "the bounds of all steps will take a while"
    OWN_BOUNDS = "every unit has its own bounds, not one big M"
    UNSETTLED = "the search has not tried everything once"
    IN_TURNS = "after all others, in turns while there is a gap"


@dataclass(frozen=True)
class Step:
    """A stage with its share of the time that is left when its turn comes, and no more than `longest` seconds; one of
    many turns is as long as what it gains deserves (`portfolio`)."""

    stage: str
    share: float = 1.0
    longest: float = math.inf
    when: Condition = Condition.ALWAYS


QUICK_BOUNDS = 0.5
"""Seconds that back-substitution for every unit of every step may take: less than that is soon over."""

Schedule = tuple[Step, ...]

IN_TURNS = (
    "lagrangian",
    "relaxation",
    "grid",
    "prefix",
    "single-steps",
    "crown",
    "tightening",
    "crown-cells",
    "bounds",
    "search",
    "milp",
)
"""What takes turns in `auto`, in the order of the first ones. The search has had its steps before them: what is easy to
prove is proven before it goes on."""

AUTO: Schedule = (
    # A plan never waits for a bound.
    Step("search", 0.02, 0.5),
    Step("search", 0.05, 5.0, Condition.SLOW_BOUNDS),
    Step("bounds", 0.15, 10.0),
    Step("propagation", 0.02, 10.0),
    Step("interval"),
    Step("search", 0.05, 5.0, Condition.UNSETTLED),
    # As for the base model: the MILP begins with the turns, and is not stopped for boxes that are a little smaller.
    Step("tightening", 0.03, 2.0),
    *(Step(name, when=Condition.IN_TURNS) for name in IN_TURNS),
)
"""The default: a plan within seconds, then all stages in turns until a bound meets it."""

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

CONTROL: Schedule = (Step("search", 0.3, 0.5), *AUTO[1:])
"""A step of a controller: a good plan is worth more than a proof, and `auto` leaves little of a second for a search."""

SEARCH_ONLY: Schedule = (Step("search"),)
"""A step of a controller that has no chance of a proof."""

CHOSEN: Schedule = (
    Step("search", 0.12, 60.0),
    Step("single-steps", 0.05),
    Step("crown", 0.2),
    Step("grid", 0.9),
    Step("lagrangian", 0.95),
)
"""The usual shares of stages that take turns, if they come one after the other because a user has named them."""

METHODS: dict[str, Schedule] = {"auto": AUTO, "base": BASE, "potentials": POTENTIALS}


def schedule_of(names: Sequence[str]) -> Schedule:
    """Chosen stages in their order, each with its usual share of the time; bounds come first in any case."""
    usual = {step.stage: step for schedule in (POTENTIALS, BASE, CHOSEN) for step in schedule}
    for name in names:
        if name not in stage_names():
            raise InputError(f"unknown stage '{name}'; choose from {', '.join(stage_names())}")
    if not names:
        raise InputError(f"no stages were given; choose from {', '.join(stage_names())}")
    chosen = [Step(name, usual[name].share, usual[name].longest) if name in usual else Step(name) for name in names]
    return tuple(chosen if "bounds" in names else [Step("bounds", 0.5), *chosen])


def run_schedule(work: Work, schedule: Schedule) -> None:
    """One step after the other, then the others in turns, until the bound meets the plan or the time is over; a plan
    that was given counts at once."""
    if work.options.start is not None:
        work.incumbent.offer_plan(work.options.start, "start")
    stages = Stages(work.settings)
    steps = [step for step in schedule if step.when is not Condition.IN_TURNS]
    in_turns = [step.stage for step in schedule if step.when is Condition.IN_TURNS]
    try:
        for number, step in enumerate(steps):
            if work.incumbent.is_proven or work.is_finished:
                return
            later = [other.stage for other in steps[number + 1 :]] + in_turns
            _run_step(work, step, stages, later)
        if in_turns:
            Portfolio(work, stages, in_turns).run()
    except KeyboardInterrupt:
        _fall_back_on_boxes(work)
        raise
    finally:
        stages.close()
    _fall_back_on_boxes(work)
    if work.incumbent.plan is None and work.clock.remaining <= 0.0:
        work.log.note("the time limit ended before a plan was found")


def _run_step(work: Work, step: Step, stages: Stages, later: Sequence[str]) -> None:
    stage = stages[step.stage]
    is_late = work.clock.remaining <= 0.0 and work.all_plans is not None
    if is_late or not _holds(step.when, work, stage) or not stage.applies(work):
        return
    if not any(stages[name].uses_workers for name in (step.stage, *later)):
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


def _holds(condition: Condition, work: Work, stage: Stage) -> bool:
    match condition:
        case Condition.SLOW_BOUNDS:
            network = work.problem.dynamics
            operations = work.problem.horizon * network.relu_count * network.operations
            return clock.expected(operations) > QUICK_BOUNDS and _holds(Condition.UNSETTLED, work, stage)
        case Condition.OWN_BOUNDS:
            return work.options.big_m is None
        case Condition.UNSETTLED:
            return not (isinstance(stage, SearchStage) and stage.is_settled)
    return True


def _fall_back_on_boxes(work: Work) -> None:
    """If nothing better came in time, what the boxes alone prove: every plan outside them is no better than ours."""
    if math.isinf(work.incumbent.bound) and work.all_plans is not None:
        bound, margin = interval_bound(work.problem, work.boxes)
        reward = work.incumbent.reward
        work.incumbent.offer_bound(max(bound, -math.inf if reward is None else reward), "intervals", margin)
