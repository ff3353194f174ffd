"""Local search from one plan: trust-region steps and pattern walks in turn, up to a local optimum."""

from __future__ import annotations

import itertools

import numpy as np

from reluplan.problem.rollout import Trajectory
from reluplan.search.context import Context
from reluplan.search.iterate import Iterate
from reluplan.search.pattern_walk import walk_patterns
from reluplan.search.trust_region import TrustRegion


def improve_best(context: Context) -> None:
    """Local search from the best plan so far."""
    if context.best is not None:
        local_search(context, context.best)


def local_search(context: Context, plan: Trajectory, margin: float | None = None) -> Trajectory:
    """Trust-region steps, then a walk from pattern to pattern, and both again as long as that gains.

    If there are discrete variables, trust-region steps that may change them come first. A search that is still below
    the best plan after some rounds is given up. margin: another one than that of the settings.
    """
    settings = context.settings
    iterate = Iterate(context, plan, settings.local_model.margin if margin is None else margin)
    for round_number in itertools.count():
        behind = round_number >= settings.local_search.catch_up_rounds and iterate.value < context.best_merit
        if behind or context.expired or not np.isfinite(iterate.value):
            return iterate.plan
        if context.box.any_discrete:
            TrustRegion(iterate, integers=True).run(settings.trust_region.integer_steps)
        TrustRegion(iterate).run(settings.trust_region.steps)
        before = iterate.value
        walk_patterns(iterate)
        if not iterate.is_gain(iterate.value - before):
            break
    context.optima.add(iterate.value)
    return iterate.plan
