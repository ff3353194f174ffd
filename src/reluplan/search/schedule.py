"""The schedule of the search."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from reluplan.bounds.reachability import HorizonBounds
from reluplan.errors import OutOfTimeError
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.search.box import search_box
from reluplan.search.constant_actions import constant_actions
from reluplan.search.context import Context, Method, PlanSink
from reluplan.search.dynamic_programming import dynamic_programming
from reluplan.search.gradient_ascent import gradient_ascent
from reluplan.search.local_search import improve_best
from reluplan.search.merit import Merit
from reluplan.search.one_opt import one_opt
from reluplan.search.perturbation import perturbation
from reluplan.search.receding_horizon import receding_horizon
from reluplan.search.repair import repair
from reluplan.search.settings import DEFAULTS, SearchSettings
from reluplan.search.sliding_window import fits, improve, improve_windows

FIRST: tuple[Method, ...] = (receding_horizon, improve_best, constant_actions, dynamic_programming)
"""Methods that run once, quickest first."""
AGAIN: tuple[Method, ...] = (perturbation, gradient_ascent, one_opt)
"""Methods that use randomness, and run in turn until they no longer help."""


def search_plans(
    problem: Problem,
    bounds: HorizonBounds | None,
    deadline: float,
    sink: PlanSink,
    seed: int = 0,
    start: Trajectory | None = None,
    tell: Callable[[str], None] | None = None,
    settings: SearchSettings = DEFAULTS,
) -> None:
    """Look for good plans until the deadline (of clock.now) or until nothing helps; each goes to the sink.

    bounds: proven boxes, which narrow what is sampled; not needed. start: a plan to begin with.
    """
    rng, merit = np.random.default_rng(seed), Merit.of(problem, settings.penalty)
    context = Context(problem, search_box(problem, bounds), deadline, sink, rng, merit, tell, settings)
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
    while vain < context.settings.patience and not (context.expired or (context.found and context.settled)):
        helped = [_run(method, context) for method in AGAIN]
        vain = 0 if any(helped) else vain + 1
    context.say(f"{len(context.optima)} local searches ended in {context.different_optima} local optima")


def search_windows(context: Context) -> None:
    """A plan by receding horizon, then every method in windows of it, again and again while that helps."""
    _run(receding_horizon, context)
    worthwhile = context.settings.sliding_window.worthwhile
    while not context.expired and context.best is not None:
        before = context.best_merit
        improve_windows(context, improve(context, context.best), search, skip_steady=True)
        if context.best_merit <= before + worthwhile * max(1.0, abs(before)):
            return


def _run(method: Method, context: Context) -> bool:
    """Run a method if there is time; True if it found a better plan."""
    before = context.best_merit
    if not context.expired:
        method(context)
    return context.best_merit > before
