"""From a problem to potentials for all its steps."""

from __future__ import annotations

import math

from reluplan import clock
from reluplan.bounds.boxes import ForwardBounds, equal_steps, require_claim
from reluplan.bounds.reachability import forward_bounds, meet_goal
from reluplan.bounds.span import Span
from reluplan.interrupts import interruptible
from reluplan.potentials.domain import step_domain
from reluplan.potentials.family import generate_family
from reluplan.potentials.generation import Generation, OnRound
from reluplan.potentials.potential_search import PotentialSearch
from reluplan.potentials.potential_set import PotentialSet
from reluplan.potentials.report import PotentialReport
from reluplan.potentials.settings import PotentialSettings
from reluplan.problem.problem import Problem


def reward_potentials(
    problem: Problem,
    interval_count: int = 1,
    *,
    settings: PotentialSettings | None = None,
    per_step: bool = False,
    deadline: float = math.inf,
    on_round: OnRound | None = None,
) -> PotentialSet:
    """Reward potentials of a problem, valid for all its plans, whenever the search for them ended.

    >>> from reluplan import Problem, reward_potentials
    >>> potentials = reward_potentials(Problem.load("examples/tanks/problem.toml"), interval_count=1)
    >>> potentials.report.converged
    True
    """
    settings = settings or PotentialSettings(interval_count)
    now = clock.now()
    with interruptible():
        lps_end = now + settings.bounds_share * (deadline - now)
        bounds = forward_bounds(problem, lps_end, deadline)
        meet_goal(problem, bounds, lps_end)  # if no plan exists, there is nothing to bound
    return compute_potentials(problem, bounds, settings, per_step, deadline, on_round)


def compute_potentials(
    problem: Problem,
    bounds: ForwardBounds,
    settings: PotentialSettings,
    per_step: bool = False,
    deadline: float = math.inf,
    on_round: OnRound | None = None,
) -> PotentialSet:
    """The settings' family of potentials for all steps, or one for each run of steps with equal proven boxes, which
    then share the time."""
    require_claim(bounds, ForwardBounds)
    spans = equal_steps(bounds) if per_step else [Span(0, bounds.horizon)]
    generations: list[Generation] = []
    interrupted = False
    try:
        with interruptible():
            for number, span in enumerate(spans):
                until = clock.now() + (deadline - clock.now()) / (len(spans) - number)
                search = PotentialSearch(step_domain(problem, bounds, span.first, span.end - 1), settings, until)
                generations += generate_family(search, problem, bounds, until, on_round)
                if generations[-1].interrupted:
                    break
    except KeyboardInterrupt:  # between two searches, each of which ends with what it has
        if not generations:
            raise
        interrupted = True
    finite = [g.potentials for g in generations if math.isfinite(g.potentials.margin)]  # else nothing was proven yet
    return PotentialSet(
        tuple(finite),
        problem.fingerprint(),
        problem.initial_lower,
        problem.initial_upper,
        problem.horizon,
        PotentialReport.of(settings, generations, interrupted),
    ).sealed()
