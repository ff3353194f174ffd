"""What a proof works with, and what a proof is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from reluplan.bounds.boxes import BetterPlanBounds, intersected
from reluplan.bounds.span import Span
from reluplan.clock import Clock
from reluplan.encoding.window_cuts import WindowCut
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory


class Incumbent(Protocol):
    """The best plan so far, and who takes bounds: what a proof may know of a planning run."""

    @property
    def plan(self) -> Trajectory | None: ...

    @property
    def is_proven(self) -> bool:
        """Whether the bound meets the plan."""
        ...

    @property
    def gap_target(self) -> float: ...

    def offer_bound(self, value: float, source: str, margin: float = 0.0) -> bool:
        """A proven upper bound of the reward of ALL plans; True if it is better than the best."""
        ...


@dataclass(eq=False)
class ProofState:
    """The incumbent, the boxes in which better plans are, the workers and the clock; cuts: that better plans satisfy.
    best_offer: the best bound that was offered here, whatever others have proven. improve: what a proof can do with a
    plan that it came by, which may not be the best: a local search begins there, and offers what it finds.

    A bound that is proven over boxes of better plans is one of all plans once the incumbent's reward is counted in:
    `offer`, the only way to offer one, does that. Boxes change by `tighten` alone, and only become smaller.
    """

    problem: Problem
    incumbent: Incumbent
    boxes: BetterPlanBounds
    pool: WorkerPool
    clock: Clock
    seed: int = 0
    tell: Callable[[str], None] = lambda text: None
    cuts: tuple[WindowCut, ...] = ()
    best_offer: float = math.inf
    improve: Callable[[Trajectory], None] = lambda plan: None

    @property
    def plan(self) -> Trajectory:
        assert self.incumbent.plan is not None, "this proof begins once there is a plan"
        return self.incumbent.plan

    @property
    def reward(self) -> float | None:
        """Of the incumbent."""
        return None if self.incumbent.plan is None else self.incumbent.plan.total_reward

    @property
    def tolerance(self) -> float:
        """A bound this close to the plan is close enough, with room for the margin."""
        return 0.5 * self.incumbent.gap_target * max(1.0, abs(self.plan.total_reward))

    def offer(self, bound: float, margin: float, source: str) -> None:
        """A proven bound of the plans in the boxes; margin: the error that its proof may carry."""
        if math.isfinite(bound):
            known = -math.inf if self.reward is None else self.reward
            self.best_offer = min(self.best_offer, max(bound, known) + margin)
            self.incumbent.offer_bound(max(bound, known), source, margin)

    def offer_no_better_plan(self, source: str) -> None:
        """Nothing is left in the boxes: the incumbent is optimal."""
        self.offer(self.plan.total_reward, 0.0, f"{source}: no better plan is left")

    def tighten(self, spans: Sequence[Span], found: Sequence[BetterPlanBounds]) -> None:
        """Take over boxes that contain the windows of every better plan, for each span: what is left is in both.

        Raises InfeasibleError if nothing is left.
        """
        before = int(self.boxes.unstable.sum())
        self.boxes = intersected(self.boxes, spans, found)
        self.tell(f"unstable units of better plans: {before} -> {int(self.boxes.unstable.sum())}")


class Proof(Protocol):
    """A way to prove upper bounds. One that leaves most worker processes idle may say so (`uses_workers = False`), so
    that other stages run beside it; one whose first bounds are of no use too (`starts_slowly = True`), so that it gets
    more time at once; one that has begun something which outlasts a turn has `close`, to end it."""

    @property
    def stage(self) -> str:
        """Its name in the log and in the result."""
        ...

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        ...

    @property
    def needs_plan(self) -> bool:
        """Whether it begins only once there is an incumbent."""
        ...

    def improve(self, state: ProofState, deadline: float) -> None:
        """Offer bounds, tighten the boxes, and return by the deadline (of clock.now) or when stuck."""
        ...
