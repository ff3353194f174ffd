"""A search for plans that goes on for as long as it is asked to, slice by slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from reluplan.bounds.boxes import HorizonBounds
from reluplan.errors import OutOfTimeError
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.search.box import search_box
from reluplan.search.context import Context, PlanSink
from reluplan.search.heuristics import HEURISTICS
from reluplan.search.merit import Merit
from reluplan.search.schedule import Schedule
from reluplan.search.settings import DEFAULTS, SearchSettings
from reluplan.search.sliding_window import improve
from reluplan.search.time_slice import Paused, TimeSlice


class PlanSearch:
    """Looks for good plans of a problem; each goes to the sink.

    Nothing is computed before the first slice. heuristics: names in `HEURISTICS`, in the order in which they take
    turns; all if not given. The same seed finds the same plans, however the time is cut into slices, up to what a clock
    decides.
    """

    def __init__(
        self,
        problem: Problem,
        sink: PlanSink,
        seed: int = 0,
        tell: Callable[[str], None] | None = None,
        settings: SearchSettings = DEFAULTS,
        heuristics: Sequence[str] | None = None,
    ) -> None:
        names = HEURISTICS.names() if heuristics is None else heuristics
        self._schedule = Schedule(tuple(HEURISTICS[name] for name in names))
        merit = Merit.of(problem, settings.penalty)
        rng = np.random.default_rng(seed)
        box = search_box(problem, None)
        self._context = Context(problem, box, TimeSlice(), sink, rng, merit, tell, settings)
        self._boxes: HorizonBounds | None = None
        self._work: Paused[None] | None = None
        self.rounds = 0
        """How often all that the search knows to try had settled."""
        self.exhausted = False
        """Whether nothing is left to try: there is nothing to decide."""

    @property
    def settled(self) -> bool:
        """Whether the search has tried everything once; what comes then are restarts."""
        return self.rounds > 0

    def run(self, deadline: float, boxes: HorizonBounds | None = None, best: Trajectory | None = None) -> None:
        """Search until the deadline (of clock.now), from where the last slice stopped.

        boxes: proven ones, which narrow what is sampled; not needed. best: the best plan that others have found.
        """
        self.receive(boxes, best)
        self._context.time.begin(deadline)
        while not (self._context.expired or self.exhausted):
            self._advance()

    def run_until_settled(self, deadline: float) -> None:
        """The same, up to the moment when everything has been tried."""
        self._context.time.begin(deadline)
        while not (self._context.expired or self.exhausted or self.settled):
            self._advance()

    def receive(self, boxes: HorizonBounds | None, best: Trajectory | None) -> None:
        """What others have found; see `run`."""
        context = self._context
        if boxes is not None and boxes is not self._boxes:
            self._boxes = boxes
            context.box = search_box(context.problem, boxes)
        if best is not None and best is not context.best:
            context.take(best, "given")

    def improve(self, start: Trajectory) -> None:
        """Begin with a plan: pass it on, and improve it before anything else."""
        self._context.take(start, "start")
        self._work = self._improve_first(start)

    def _improve_first(self, start: Trajectory) -> Paused[None]:
        yield from improve(self._context, start)
        yield from self._round()

    def _round(self) -> Paused[None]:
        """Everything that there is to try, until it has settled; later rounds are restarts of what uses randomness.

        A round forgets which local optima were known before, so that it does not settle at once.
        """
        before = self._context.work.rollouts
        self._context.optima.merits.clear()
        schedule = self._schedule.restarted() if self.settled else self._schedule
        yield from schedule.run(self._context)
        self.rounds += 1
        self.exhausted = not self._context.box.any_free or self._context.work.rollouts == before

    def _advance(self) -> None:
        """Go on, or begin a new round if the last has ended, or was ended by an error or an interruption."""
        if self._work is None:
            self._work = self._round()
        work, self._work = self._work, None
        try:
            next(work)
        except (StopIteration, OutOfTimeError):
            return
        self._work = work


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
    """Look for good plans until the deadline (of clock.now) or until all is settled; each goes to the sink.

    bounds, heuristics: as in `PlanSearch`. start: a plan to begin with.
    """
    search = PlanSearch(problem, sink, seed, tell, settings, heuristics)
    search.receive(bounds, None)
    if start is not None:
        search.improve(start)
    search.run_until_settled(deadline)
