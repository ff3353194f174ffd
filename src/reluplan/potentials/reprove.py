"""Potentials that come from elsewhere are claims: one MILP for each member says what of it holds for a problem."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from reluplan import clock
from reluplan.bounds.boxes import ForwardBounds
from reluplan.errors import NoPlanExistsError
from reluplan.optimisation.margin import RELATIVE_MARGIN
from reluplan.potentials.anytime_shift import potential_size
from reluplan.potentials.domain import StepDomain, step_domain
from reluplan.potentials.features import PatternFeatures
from reluplan.potentials.potential_set import PotentialSet
from reluplan.potentials.potentials import RewardPotentials
from reluplan.potentials.settings import DEFAULT_REPROOF, ReproofSettings
from reluplan.potentials.subproblem import SHORTEST_SOLVE, Subproblem
from reluplan.problem.problem import Problem


def reprove(
    problem: Problem,
    bounds: ForwardBounds,
    given: PotentialSet,
    threads: int = 1,
    deadline: float = math.inf,
    settings: ReproofSettings = DEFAULT_REPROOF,
) -> tuple[PotentialSet, list[str]]:
    """A proven set from one that only claims to be, and what the user must know about it.

    bounds: proven for all plans of the problem. Only the units, the intervals, the values and the steps are taken from
    the set, whatever else it says about itself: for each member a MILP bounds R − φ <= D over the domain of its steps
    in THIS problem, and φ is raised by D if that is positive. Members that the time until the deadline (of
    clock.now, shared evenly) does not suffice for are left out. Raises NoPlanExistsError if a domain is empty.
    """
    members: list[RewardPotentials] = []
    notes: list[str] = []
    claimed = [item for item in given.items if item.first < problem.horizon]
    for number, item in enumerate(claimed):
        until = clock.now() + (deadline - clock.now()) / (len(claimed) - number)
        domain = step_domain(problem, bounds, item.first, min(item.last, problem.horizon - 1))
        proven, is_refuted = _prove(domain, item, threads, until, settings.largest_gap)
        steps = f"the potentials of steps {domain.first + 1} to {domain.last + 1}"
        if proven is None:
            notes.append(f"{steps} could not be proven in their share of the time, and are not used")
            continue
        members.append(proven)
        raised = _level(proven) - _level(item)
        if raised > settings.noticeable * proven.margin:
            why = (
                "do not hold for this problem as they are" if is_refuted else "could not be proven as they are in time"
            )
            notes.append(f"{steps} {why}: they were raised by {raised:.4g}")
    report = dataclasses.replace(given.report, proven_again=len(members))
    initial = problem.initial_lower, problem.initial_upper
    return PotentialSet(tuple(members), problem.fingerprint(), *initial, problem.horizon, report).sealed(), notes


def _prove(
    domain: StepDomain, item: RewardPotentials, threads: int, deadline: float, largest_gap: float
) -> tuple[RewardPotentials | None, bool]:
    """The member, raised to where it holds in a domain, None if nothing was proven by the deadline; and whether a step
    was found for which it does not hold as it is.

    With D >= max R − constant − Σ_u v_{u,i} and τ the margin of that proof, φ + D + τ >= R: D + τ is shared out among
    the units, each of which counts with exactly one entry, or added to the constant if there are none.
    """
    features = _with_proven_ceilings(item, domain)
    size = potential_size(item.values)
    least = RELATIVE_MARGIN * max(size, abs(item.constant))
    found = Subproblem(domain, features).violated(
        item.values,
        time_limit=max(SHORTEST_SOLVE, deadline - clock.now()),
        tolerance=item.constant - least,
        early_stop_ratio=math.inf,
        threads=threads,
        gap=min(largest_gap, 0.5 * least),
    )
    if found.interrupted:
        raise KeyboardInterrupt
    if found.dual_bound == -math.inf:  # nothing was left out of the domain: it has such a step of every plan
        source = domain.whole.source
        raise NoPlanExistsError(f"{source}: no plan exists: no step satisfies the constraints", domain.whole)
    if found.dual_bound == math.inf:
        return None, False
    bound = found.dual_bound - item.constant
    margin = max(found.margin, least, RELATIVE_MARGIN * abs(found.dual_bound))
    lift = max(0.0, bound + margin)
    if features.unit_count:
        values = item.values + lift / features.unit_count
        constant = item.constant
    else:
        values = item.values
        constant = item.constant + lift
    proven = RewardPotentials(
        features, values, constant, bound, margin, "MILP dual bound, proven again", domain.first, domain.last
    )
    return proven, found.attained > item.constant + margin


def _with_proven_ceilings(item: RewardPotentials, domain: StepDomain) -> PatternFeatures:
    """The features with output ceilings that hold in the domain.

    A ceiling below what a unit may reach would cut steps off, in the subproblem and in the plan alike. One that is
    raised moves the unit's breakpoints: the values then stand for other intervals, and the MILP says what they prove.
    """
    features = item.features
    highest = np.maximum(domain.bounds.unit_upper[0, features.units], 0.0)
    return dataclasses.replace(features, ceilings=np.maximum(features.ceilings, highest))


def _level(item: RewardPotentials) -> float:
    """Something that grows with φ as φ does: the sum of each unit's first value, and the constant."""
    return item.constant + float(item.values[:, :1].sum())
