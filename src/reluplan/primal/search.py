"""The schedule of the primal search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.reach import HorizonBounds
from reluplan.primal import starts
from reluplan.primal.box import search_box
from reluplan.primal.context import Context, PlanSink
from reluplan.primal.decisions import Decisions
from reluplan.primal.gradient import ascend
from reluplan.primal.merit import Merit
from reluplan.primal.trust_region import TrustRegion
from reluplan.problem import Problem
from reluplan.simulate import Trajectory

Array = NDArray[np.float64]


def search_plans(
    problem: Problem,
    bounds: HorizonBounds | None,
    deadline: float,
    sink: PlanSink,
    seed: int = 0,
    start: Trajectory | None = None,
    tell: Callable[[str], None] | None = None,
) -> None:
    """Look for good plans until the deadline (of time.monotonic) or until nothing helps; each goes to the sink."""
    context = Context(
        problem, search_box(problem, bounds), deadline, sink, np.random.default_rng(seed), Merit.of(problem), tell
    )
    if start is not None:
        context.take(start, "start")
    first = starts.constants(context, 8)
    _, score = context.roll_out(first)
    _improve_best(context, first, score.merit(context.merit.price), 2, "constant")
    climbed, merits = ascend(context, starts.constants(context, 32), 200)
    _improve_best(context, climbed, merits, 4, "gradient")


def _improve_best(context: Context, batch: Decisions, merits: Array, count: int, source: str) -> None:
    """Improve the best plans of a batch, one after the other."""
    for which in np.argsort(-merits)[:count]:
        if context.expired:
            return
        plan = context.offer(batch.take(np.array([which])), source)
        TrustRegion(context, plan, "trust region").run()
