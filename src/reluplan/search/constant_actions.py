"""A start that any problem has: the best plan that repeats one action."""

from __future__ import annotations

from reluplan.search import starts
from reluplan.search.context import Context
from reluplan.search.local_search import local_search
from reluplan.search.time_slice import Paused


def constant_actions(context: Context) -> Paused[None]:
    """Local search from the best plan that repeats one action."""
    best = context.ranked(starts.constants(context, context.settings.constant_plans))[0]
    yield from local_search(context, context.offer(best, "constant actions"))
