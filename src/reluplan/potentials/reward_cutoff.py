"""Bound tightening by a reward cutoff: steps that cannot violate potentials are left out of the subproblem."""

from __future__ import annotations

import dataclasses
import math

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds
from reluplan.encoding.unroll import unroll
from reluplan.errors import InfeasibleError
from reluplan.potentials.domain import StepDomain
from reluplan.potentials.settings import DEFAULT_SETTINGS
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem
from reluplan.tightening.obbt_lp import lp_boxes
from reluplan.tightening.settings import LpTighteningSettings

EVERY_GAIN = LpTighteningSettings(worthwhile=0.0)


def tighten_by_reward_cutoff(
    domain: StepDomain, cutoff: float, deadline: float = math.inf, rounds: int = DEFAULT_SETTINGS.cutoff_rounds
) -> StepDomain | None:
    """The steps of a domain with R >= cutoff, in boxes as tight as the time allows; None if there are none.

    The master's solutions are v = (Aᵀμ − w)/(2λ) with μ >= 0 and A >= 0, so v >= −w/(2λ) in every round: a step whose
    reward is at most the smallest φ that this allows violates none of them. Where bad steps are very bad (20,000 a
    degree), what is left is a small part of the domain, with far fewer patterns and tighter big-Ms. That this pays
    rests on the master; that it is sound does not: `Subproblem.violated` bounds the steps that are left out for any
    values, and the domain that is returned says that it is not the whole one. deadline: of clock.now. rounds: of
    LPs over all variables, each with the bounds of the one before.
    """
    reward = domain.problem.reward
    row = Constraint(PiecewiseLinear.constant_of(cutoff, reward.width) - reward, False, "reward >= cutoff")
    problem = dataclasses.replace(domain.problem, constraints=(*domain.problem.constraints, row))
    bounds = domain.bounds
    try:
        for _ in range(rounds):
            if clock.now() >= deadline:
                break
            bounds = _tighten(problem, bounds, deadline)
    except InfeasibleError:
        return None
    return dataclasses.replace(domain, problem=problem, bounds=bounds, cutoff=max(cutoff, domain.cutoff))


def _tighten(problem: Problem, bounds: HorizonBounds, deadline: float) -> HorizonBounds:
    """LP bounds of inputs, next states and unstable units over the whole step model, its reward row included."""
    plan_model = unroll(problem, bounds)
    found = lp_boxes(plan_model, plan_model.model, bounds, deadline, EVERY_GAIN)
    return HorizonBounds(**{**bounds.arrays(), **found})
