"""Ways to start, each followed by a climb."""

from __future__ import annotations

import numpy as np

from reluplan.primal import starts
from reluplan.primal.context import Context
from reluplan.primal.decisions import Decisions
from reluplan.primal.gradient import ascend
from reluplan.primal.grid import grid_plan
from reluplan.primal.improve import climb
from reluplan.primal.receding import receding

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
