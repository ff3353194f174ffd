"""From a plan that nearly keeps its constraints to one that does."""

from __future__ import annotations

from reluplan.search.context import Context
from reluplan.search.local_search import local_search
from reluplan.search.time_slice import Paused


def repair(context: Context) -> Paused[None]:
    """Local search from the best plan with higher and higher penalties, and constraints moved inward."""
    for margin in context.settings.repair_margins:
        if context.found or context.best is None:
            return
        context.raise_penalty()
        yield from local_search(context, context.best, margin)
