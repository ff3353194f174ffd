"""The first plan: in one batch of rollouts, before anything else."""

from __future__ import annotations

from reluplan.search import starts
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.time_slice import Paused


def simple_plans(context: Context) -> Paused[None]:
    """The best of a few plans that repeat one action, go smoothly, or are random: fewer where a rollout takes long."""
    settings = context.settings.simple_plans
    yield from context.pause()
    count = min(settings.plans, int(settings.operations / context.operations(3)))
    if count == 0:
        context.offer(starts.middle(context), "simple plans")
        return
    batch = Decisions.join(
        [
            starts.middle(context),
            starts.constants(context, count),
            starts.smooth(context, count),
            context.box.random(context.rng, count),
        ]
    )
    context.offer(context.ranked(batch)[0], "simple plans")
