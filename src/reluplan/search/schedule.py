"""The schedule of the search: which heuristics run when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from reluplan.bounds.boxes import HorizonBounds
from reluplan.errors import OutOfTimeError
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.search.box import search_box
from reluplan.search.context import Context, PlanSink
from reluplan.search.heuristics import HEURISTICS, Heuristic, Phase
from reluplan.search.merit import Merit
from reluplan.search.settings import DEFAULTS, SearchSettings
from reluplan.search.sliding_window import fits, improve, improve_windows


def search_plans(
    problem: Problem,
    bounds: HorizonBounds | None,
    deadline: float,
    sink: PlanSink,
    seed: int = 0,
    start: Trajectory | None = None,
    tell: Callable[[str], None] | None = None,
    settings: SearchSettings = DEFAULTS,
    heuristics: Sequence[str] | None = None,
) -> None:
    """Look for good plans until the deadline (of clock.now) or until nothing helps; each goes to the sink.

    bounds: proven boxes, which narrow what is sampled; not needed. start: a plan to begin with. heuristics: names in
    `HEURISTICS`, in the order in which they run in each phase; all if not given.
    """
    names = HEURISTICS.names() if heuristics is None else heuristics
    schedule = Schedule(tuple(HEURISTICS[name] for name in names))
    rng = np.random.default_rng(seed)
    merit = Merit.of(problem, settings.penalty)
    context = Context(problem, search_box(problem, bounds), deadline, sink, rng, merit, tell, settings)
    with suppress(OutOfTimeError):
        if start is not None:
            context.take(start, "start")
            improve(context, start)
        schedule.run(context)


@dataclass(frozen=True)
class Schedule:
    """Heuristics, run phase by phase."""

    heuristics: tuple[Heuristic, ...]

    def run(self, context: Context) -> None:
        """On the whole horizon if that fits into one linear program, otherwise in windows."""
        if fits(context):
            self.search(context)
        else:
            self.search_windows(context)

    def search(self, context: Context) -> None:
        """Every heuristic on the whole horizon."""
        self._run(Phase.CONSTRUCTION, context)
        self._run(Phase.ONCE, context)
        if not context.found:
            self._run(Phase.REPAIR, context)
        vain = 0
        while vain < context.settings.patience and not (context.expired or (context.found and context.settled)):
            vain = 0 if self._run(Phase.REPEATED, context) else vain + 1
        context.say(f"{context.optima.count} local searches ended in {context.different_optima} local optima")

    def search_windows(self, context: Context) -> None:
        """A plan by construction, then every heuristic in windows of it, again and again while that helps.

        Without anything that constructs a plan, and with no plan to begin with, the others try the whole horizon.
        """
        self._run(Phase.CONSTRUCTION, context)
        if context.best is None:
            self.search(context)
        worthwhile = context.settings.sliding_window.worthwhile
        while not context.expired and context.best is not None:
            before = context.best_merit
            improve_windows(context, improve(context, context.best), self.search, skip_steady=True)
            if context.best_merit <= before + worthwhile * max(1.0, abs(before)):
                return

    def _run(self, phase: Phase, context: Context) -> bool:
        """Run the heuristics of a phase while there is time; True if one of them found a better plan."""
        helped = [_helps(heuristic, context) for heuristic in self.heuristics if heuristic.phase is phase]
        return any(helped)


def _helps(heuristic: Heuristic, context: Context) -> bool:
    """Run a heuristic if there is time; True if it found a better plan."""
    before = context.best_merit
    if not context.expired:
        heuristic.run(context)
    return context.best_merit > before
