"""What is known while a plan's optimality is being proven, and what a proof is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from reluplan.bounds.reachability import HorizonBounds
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.run import Run
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory


@dataclass(eq=False)
class Knowledge:
    """bounds: boxes that contain every plan that is better than the best plan of the run; proofs make them smaller.

    A bound proven over these boxes is one of all plans once the best plan's reward is counted in, as `offer` does.
    """

    run: Run
    bounds: HorizonBounds
    pool: WorkerPool
    seed: int

    @property
    def problem(self) -> Problem:
        return self.run.problem

    @property
    def plan(self) -> Trajectory:
        assert self.run.best is not None, "proofs begin once there is a plan"
        return self.run.best

    @property
    def tolerance(self) -> float:
        """A bound this close to the plan is close enough, with room for the margin."""
        return 0.5 * self.run.gap_target * max(1.0, abs(self.plan.total_reward))

    def offer(self, bound: float, margin: float, source: str) -> None:
        """A proven bound of the plans in the boxes; margin: the error that its proof may carry."""
        if math.isfinite(bound):
            known = -math.inf if self.run.reward is None else self.run.reward
            self.run.offer_bound(max(bound, known), source, margin)


class Proof(Protocol):
    """A way to prove upper bounds."""

    @property
    def stage(self) -> str:
        """Its name in the log and in the result."""
        ...

    def improve(self, known: Knowledge, deadline: float) -> None:
        """Offer bounds, narrow `known.bounds`, and return by the deadline (of clock.now) or when stuck."""
        ...
