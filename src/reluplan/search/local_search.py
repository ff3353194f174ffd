"""Local search from one plan: trust-region steps and pattern walks in turn, up to a local optimum."""

from __future__ import annotations

import itertools

import numpy as np

from reluplan.problem.rollout import Trajectory
from reluplan.search.context import Context
from reluplan.search.iterate import Iterate
from reluplan.search.pattern_walk import walk_patterns
from reluplan.search.time_slice import Paused
from reluplan.search.trust_region import TrustRegion


def improve_best(context: Context) -> Paused[None]:
    """Local search from the best plan so far, unless it is where one has ended."""
    if context.best is not None and context.best is not context.polished:
        yield from local_search(context, context.best)


def local_search(context: Context, plan: Trajectory, margin: float | None = None) -> Paused[Trajectory]:
    """A local optimum near a plan. margin: another one than that of the settings.

    One that breaks constraints and still beats the best plan that keeps them shows that the penalty is too low to be
    exact: it is raised, and the search goes on from there.
    """
    margin = context.settings.local_model.margin if margin is None else margin
    while True:
        iterate = Iterate(context, plan, margin)
        converged = yield from _climb(iterate)
        plan = iterate.plan
        if not (converged and context.found and iterate.value > context.best_merit and context.raise_penalty()):
            break
    if converged:
        context.optima.add(iterate.value)
        context.polished = plan
    return plan


def _climb(iterate: Iterate) -> Paused[bool]:
    """Trust-region steps, then a walk from pattern to pattern, and both again as long as that gains.

    If there are discrete variables, trust-region steps that may change them come first. A search that is still below
    the best plan after some rounds is given up: False.
    """
    context = iterate.context
    settings = context.settings
    for round_number in itertools.count():
        behind = round_number >= settings.local_search.catch_up_rounds and iterate.value < context.best_merit
        if behind or not np.isfinite(iterate.value):
            return False
        if context.box.any_discrete:
            yield from TrustRegion(iterate, integers=True).run(settings.trust_region.integer_steps)
        yield from TrustRegion(iterate).run(settings.trust_region.steps)
        before = iterate.value
        yield from walk_patterns(iterate)
        if not iterate.is_gain(iterate.value - before):
            break
    return True
