"""From a problem to potentials for all its steps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds, equal_steps
from reluplan.bounds.reachability import reachable_bounds
from reluplan.bounds.span import Span
from reluplan.interrupts import interruptible
from reluplan.potentials.domain import step_domain
from reluplan.potentials.family import generate_family
from reluplan.potentials.generate import Generation, PotentialSearch, PotentialSettings, Round
from reluplan.potentials.potential_set import PotentialSet
from reluplan.problem.problem import Problem

BOUNDS_SHARE = 0.5
"""At most this share of the time goes into LPs for the bounds that potentials rest on."""


def reward_potentials(
    problem: Problem,
    interval_count: int = 1,
    *,
    settings: PotentialSettings | None = None,
    per_step: bool = False,
    deadline: float = math.inf,
    on_round: Callable[[Round], None] | None = None,
) -> PotentialSet:
    """Reward potentials of a problem, valid for all its plans, whenever the search for them ended.

    >>> from reluplan import Problem, reward_potentials
    >>> potentials = reward_potentials(Problem.load("examples/tanks/problem.toml"), interval_count=1)
    >>> potentials.report["converged"]
    True
    """
    settings = settings or PotentialSettings(interval_count)
    now = clock.now()
    with interruptible():
        bounds = reachable_bounds(problem, now + BOUNDS_SHARE * (deadline - now), deadline)
    return compute_potentials(problem, bounds, settings, per_step, deadline, on_round)


def compute_potentials(
    problem: Problem,
    bounds: HorizonBounds,
    settings: PotentialSettings,
    per_step: bool = False,
    deadline: float = math.inf,
    on_round: Callable[[Round], None] | None = None,
) -> PotentialSet:
    """The settings' family of potentials for all steps, or one for each run of steps with equal proven boxes, which
    then share the time."""
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
        _report(settings, generations, interrupted),
    ).sealed()


def tell_rounds(tell: Callable[[str], None]) -> Callable[[Round], None]:
    """A listener that puts rounds into words."""

    def listen(entry: Round) -> None:
        bound = "" if entry.dual_bound is None else f", proven at most {entry.dual_bound:.4g}"
        tell(f"violation {entry.violation:.4g} found by {entry.source}{bound}, {entry.cuts} cuts")

    return listen


def _report(settings: PotentialSettings, generations: list[Generation], interrupted: bool) -> dict[str, object]:
    """How it went, as plain data for the file and the table."""
    return {
        "settings": dataclasses.asdict(settings),
        "units": max((g.potentials.features.unit_count for g in generations), default=0),
        "sets": len(generations),
        "converged": all(g.converged for g in generations),
        "interrupted": interrupted or any(g.interrupted for g in generations),
        "iterations": sum(len(g.rounds) for g in generations),
        "cuts": sum(g.cut_count for g in generations),
        "patterns": sum(g.pattern_count for g in generations),
        "milps": sum(g.milp_count for g in generations),
        "seconds": round(sum(g.seconds for g in generations), 3),
        "proof_bound": max((g.potentials.proof_bound for g in generations), default=None),
        "objective": generations[0].objective if generations else None,
        "history": [dataclasses.asdict(entry) for entry in generations[0].rounds] if generations else [],
        "notes": [note for g in generations for note in g.notes],
    }
