"""What the stages of a run work on: boxes, potentials, worker processes."""

from __future__ import annotations

from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.boxes import AllPlanBounds, BetterPlanBounds, ForwardBounds, intersected
from reluplan.bounds.span import Span
from reluplan.clock import Clock
from reluplan.encoding.window_cuts import WindowCut
from reluplan.errors import InfeasibleError, NoBetterPlanError
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.incumbent import Incumbent
from reluplan.planning.log import RunLog
from reluplan.planning.options import PlanOptions
from reluplan.planning.run import Run
from reluplan.planning.settings import PlanSettings
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory

Array = NDArray[np.float64]


class Work:
    """A context manager, since it may have started processes.

    forward, all_plans: None until the bounds' stage. bounds_were_slow: whether that used up its share of the time.
    is_finished: nothing better than the incumbent is left, so there is nothing to do. cuts: that hold for every plan
    that is better than the incumbent, as the boxes of better plans do. lent_threads: that something beside the stages
    uses; workers do without them.
    """

    def __init__(self, run: Run, options: PlanOptions, settings: PlanSettings) -> None:
        self.run = run
        self.options = options
        self.settings = settings
        self.forward: ForwardBounds | None = None
        self.all_plans: AllPlanBounds | None = None
        self.bounds_were_slow = False
        self.is_finished = False
        self.cuts: tuple[WindowCut, ...] = ()
        self.lent_threads = 0
        self._first_gaps: Array | None = None
        self._better_plans: BetterPlanBounds | None = None
        self._pool: WorkerPool | None = None

    def __enter__(self) -> Work:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_pool()

    @property
    def problem(self) -> Problem:
        return self.run.problem

    @property
    def incumbent(self) -> Incumbent:
        return self.run.incumbent

    @property
    def clock(self) -> Clock:
        return self.run.clock

    @property
    def log(self) -> RunLog:
        return self.run.log

    @property
    def warm_start(self) -> Trajectory | None:
        """The best plan so far, or the one that the user gave."""
        return self.options.start if self.incumbent.plan is None else self.incumbent.plan

    @property
    def boxes(self) -> BetterPlanBounds:
        """The smallest ones: of better plans if there is an incumbent, else of all."""
        assert self.all_plans is not None, "the bounds come first"
        if self.incumbent.plan is None or self._better_plans is None:
            return self.all_plans
        return self._better_plans

    @property
    def looseness(self) -> float:
        """What makes a model over the boxes hard: unstable units, each counted by how far the chord above it is from it
        (`relaxation_gaps`), compared with the first time that it was asked."""
        gaps = self.boxes.relaxation_gaps
        if self._first_gaps is None:
            self._first_gaps = gaps
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.where(gaps > 0.0, gaps / self._first_gaps, 0.0)
        return float(np.nan_to_num(shares, nan=1.0, posinf=1.0).sum())

    def take_boxes(self, boxes: BetterPlanBounds) -> None:
        """Smaller ones, for all plans or for better ones, as they claim; what is known of better plans stays known.

        Raises NoBetterPlanError if nothing is left of these.
        """
        known = self._better_plans
        if isinstance(boxes, AllPlanBounds):
            self.all_plans = boxes
            if known is not None and not isinstance(known, AllPlanBounds):
                try:
                    boxes = intersected(known, [Span(0, known.horizon)], [boxes])
                except InfeasibleError as error:
                    raise NoBetterPlanError(f"no better plan is left: {error}") from None
        self._better_plans = boxes

    def finish(self, source: str) -> None:
        """No better plan is left: the incumbent is optimal."""
        assert self.incumbent.plan is not None
        self.incumbent.offer_bound(self.incumbent.plan.total_reward, f"{source}: no better plan is left")
        self.is_finished = True

    @property
    def pool(self) -> WorkerPool:
        """Worker processes, started when they are first needed."""
        count = max(1, self.options.thread_count - self.lent_threads)
        if self._pool is None:
            self._pool = WorkerPool(self.options.solver, count)
        self._pool.use(count)
        return self._pool

    def close_pool(self) -> None:
        """Workers that nobody needs any more; one of them is kept for the next solve."""
        if self._pool is not None:
            self._pool.__exit__(None, None, None)
            self._pool = None
