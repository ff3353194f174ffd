"""Time limits for tests that need the work to be done: a slow or busy machine is no failure.

What ends by itself gets AMPLE seconds. What goes on for as long as it may gets a short limit first, and longer ones
only where that was not enough, so that nobody waits who need not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reluplan import Problem, plan
from reluplan.planning.result import PlanResult

AMPLE = 240.0
LIMITS = (8.0, 40.0, 160.0)


def plan_patiently(problem: Problem, is_done: Callable[[PlanResult], bool], **options: Any) -> PlanResult:
    """The first result that is done, of longer and longer runs; else that of the longest."""
    for limit in LIMITS:
        result = plan(problem, time_limit=limit, **options)
        if is_done(result):
            break
    return result
