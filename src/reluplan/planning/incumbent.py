"""The best plan and the best bound so far: only checked plans and proven bounds come in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reluplan.optimisation.margin import RELATIVE_MARGIN
from reluplan.planning.gap import relative_gap
from reluplan.planning.log import RunLog
from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory

EXPLAINED = 1e-4
"""A plan that uses its tolerance may beat a bound by this much (relative), no more."""
USES_TOLERANCE = 1e-3
"""A plan that uses this share of the tolerance on a constraint uses it."""
ROUNDING = 1e-9
"""Relative: what a plan may be above a bound by rounding."""


@dataclass(eq=False)
class Incumbent:
    """The best plan of a problem, and the bound of all its plans.

    Each accepted bound b is stored as b + margin; the margin is that of its proof, and at least 1e-6 · |b|.
    """

    problem: Problem
    gap_target: float
    log: RunLog
    plan: Trajectory | None = None
    max_violation: float = 0.0
    used_tolerance: float = 0.0
    bound: float = math.inf
    bound_margin: float = 0.0

    @property
    def reward(self) -> float | None:
        return None if self.plan is None else self.plan.total_reward

    @property
    def gap(self) -> float | None:
        return relative_gap(self.reward, self.bound)

    @property
    def is_proven(self) -> bool:
        return self.gap is not None and self.gap <= self.gap_target

    def offer_plan(self, trajectory: Trajectory, source: str) -> bool:
        """Accept a plan, as rolled out, if it satisfies every constraint and is better than the best; True if so."""
        report = check(self.problem, trajectory)
        if not report.ok or (self.reward is not None and trajectory.total_reward <= self.reward):
            return False
        self.plan = trajectory
        self.max_violation = report.max_violation
        self.used_tolerance = report.used_tolerance
        self._reconcile()
        self.log.update(self.reward, self.bound)
        self.log.record()
        self.log.tell(f"plan with reward {trajectory.total_reward:.10g} from {source}")
        return True

    def offer_bound(self, value: float, source: str, margin: float = 0.0) -> bool:
        """Accept a proven upper bound of the optimal reward if it is better than the best; True if so.

        margin: the error that the proof may carry, if that is more than 1e-6 · |value|.
        """
        if not (math.isfinite(value) and math.isfinite(margin)):
            return False
        margin = max(margin, RELATIVE_MARGIN * abs(value))
        if value + margin >= self.bound:
            return False
        before = self.bound, self.bound_margin
        self.bound, self.bound_margin = value + margin, margin
        if not self._reconcile():
            self.bound, self.bound_margin = before if before[0] >= (self.reward or -math.inf) else (math.inf, 0.0)
            self.log.update(self.reward, self.bound)
            return False
        self.log.update(self.reward, self.bound)
        self.log.record_unless_creeping()
        self.log.tell(f"bound {self.bound:.10g} from {source}")
        return True

    def forget_bounds(self, problem: Problem) -> None:
        """Go on with another problem, of whose plans no bound so far is one."""
        self.problem = problem
        self.bound, self.bound_margin = math.inf, 0.0
        self.log.update(self.reward, self.bound)

    def _reconcile(self) -> bool:
        """No bound stands below a checked plan: rounding is lifted, and so is what a plan gains by the tolerance on its
        constraints, by as much again, with a note; the rest is wrong and dropped."""
        if self.reward is None or self.reward <= self.bound:
            return True
        excess = self.reward - self.bound
        if excess <= ROUNDING * abs(self.reward):
            self.bound = self.reward
            return True
        if self.used_tolerance >= USES_TOLERANCE and excess <= EXPLAINED * abs(self.reward):
            self.log.note(
                f"the plan uses the tolerance on its constraints, and beats plans that do not by {excess:.3g}"
            )
            self.bound = self.reward + excess
            return True
        self.log.note(f"a bound of {self.bound:.10g} was dropped: a checked plan has reward {self.reward:.10g}")
        self.bound, self.bound_margin = math.inf, 0.0
        return False
