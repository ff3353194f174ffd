"""Local search from one plan: trust-region steps and pattern walks in turn, up to a local optimum."""

from __future__ import annotations

import itertools

import numpy as np

from reluplan.problem.rollout import Trajectory
from reluplan.search.context import Context
from reluplan.search.iterate import MARGIN, Iterate
from reluplan.search.pattern_walk import walk_patterns
from reluplan.search.trust_region import TrustRegion

CATCH_UP_ROUNDS = 4
"""Rounds of trust-region steps and walks that a local search from a bad start gets to reach the best plan."""
MIXED_STEPS = 20
"""Trust-region steps with integer columns in one local search."""


def improve_best(context: Context) -> None:
    """Local search from the best plan so far."""
    if context.best is not None:
        local_search(context, context.best)


def local_search(context: Context, plan: Trajectory, margin: float = MARGIN) -> Trajectory:
    """Trust-region steps, then a walk from pattern to pattern, and both again as long as that gains.

    If there are discrete variables, trust-region steps that may change them come first. A search that is still below
    the best plan after some rounds is given up.
    """
    iterate = Iterate(context, plan, margin=margin)
    for round_number in itertools.count():
        late = round_number >= CATCH_UP_ROUNDS and iterate.value < context.best_merit
        if late or context.expired or not np.isfinite(iterate.value):
            return iterate.plan
        if context.box.any_discrete:
            TrustRegion(iterate, integers=True).run(MIXED_STEPS)
        TrustRegion(iterate).run()
        before = iterate.value
        walk_patterns(iterate)
        if not iterate.is_gain(iterate.value - before):
            break
    context.optima.append(iterate.value)
    return iterate.plan
