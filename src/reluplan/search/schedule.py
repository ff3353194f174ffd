"""The schedule of the primal search."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from reluplan.bounds.boxes import HorizonBounds
from reluplan.errors import OutOfTimeError
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.search.box import search_box
from reluplan.search.context import Context, Method, PlanSink
from reluplan.search.improve import climb_best, fits, improve, sweep
from reluplan.search.merit import Merit
from reluplan.search.methods import climb_constants, climb_gradients, climb_grid, plan_ahead
from reluplan.search.repair import repair
from reluplan.search.shake import shake
from reluplan.search.swap import swap

FIRST: tuple[Method, ...] = (plan_ahead, climb_best, climb_constants, climb_grid)
"""Methods that run once, quickest first."""
AGAIN: tuple[Method, ...] = (shake, climb_gradients, swap)
"""Methods that use randomness, and run in turn until they no longer help."""
PATIENCE = 6
"""The search ends when the methods of `AGAIN` were in vain this often in a row."""
WORTHWHILE = 1e-7
"""Windows are searched again if the last time gained more than this (relative)."""


def search_plans(
    problem: Problem,
    bounds: HorizonBounds | None,
    deadline: float,
    sink: PlanSink,
    seed: int = 0,
    start: Trajectory | None = None,
    tell: Callable[[str], None] | None = None,
) -> None:
    """Look for good plans until the deadline (of clock.now) or until nothing helps; each goes to the sink.

    bounds: proven boxes, which narrow what is sampled; not needed. start: a plan to begin with.
    """
    context = Context(
        problem, search_box(problem, bounds), deadline, sink, np.random.default_rng(seed), Merit.of(problem), tell
    )
    with suppress(OutOfTimeError):
        if start is not None:
            context.take(start, "start")
            improve(context, start)
        if fits(context):
            search(context)
        else:
            search_windows(context)


def search(context: Context) -> None:
    """Every method on the whole horizon."""
    for method in FIRST:
        _run(method, context)
    if not context.found:
        _run(repair, context)
    vain = 0
    while vain < PATIENCE and not (context.expired or (context.found and context.settled)):
        helped = [_run(method, context) for method in AGAIN]
        vain = 0 if any(helped) else vain + 1
    context.say(f"{len(context.optima)} climbs ended in {context.different_optima} local optima")


def search_windows(context: Context) -> None:
    """A plan from receding windows, then every method in windows of it, again and again while that helps."""
    _run(plan_ahead, context)
    while not context.expired and context.best is not None:
        before = context.best_merit
        sweep(context, improve(context, context.best), search, skip_steady=True)
        if context.best_merit <= before + WORTHWHILE * max(1.0, abs(before)):
            return


def _run(method: Method, context: Context) -> bool:
    """Run a method if there is time; True if it found a better plan."""
    before = context.best_merit
    if not context.expired:
        method(context)
    return context.best_merit > before
