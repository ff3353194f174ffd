"""Ways to start, each followed by a climb."""

from __future__ import annotations

import numpy as np

from reluplan.search import starts
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.dynamic_programming import grid_plan
from reluplan.search.gradient import ascend
from reluplan.search.improve import climb
from reluplan.search.receding import receding

CLIMBERS = 6
"""Of each kind."""
ASCENT_STEPS = 60
IMPROVED = 2


def plan_ahead(context: Context) -> None:
    """Receding windows, with no climb."""
    receding(context)


def climb_constants(context: Context) -> None:
    """The best plan that repeats one action."""
    climb(context, context.offer(context.ranked(starts.constants(context, 8))[0], "constant"))


def climb_grid(context: Context) -> None:
    """The plan of dynamic programming on a grid."""
    plan = grid_plan(context)
    if plan is not None:
        climb(context, context.offer(plan, "grid"))


def climb_gradients(context: Context) -> None:
    """Gradient ascent from many plans, and a climb from the best of them."""
    batch = Decisions.join(
        [
            starts.constants(context, CLIMBERS),
            starts.smooth(context, CLIMBERS),
            context.box.random(context.rng, CLIMBERS),
        ]
    )
    ascended, merits = ascend(context, batch, ASCENT_STEPS)
    for which in np.argsort(-merits, kind="stable")[:IMPROVED]:
        if not context.expired:
            climb(context, context.offer(ascended.take(np.array([which])), "gradient"))
