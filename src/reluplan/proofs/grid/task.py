"""What stays the same from grid to grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.boxes import BetterPlanBounds
from reluplan.problem.discounting import SMALLEST_FACTOR
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import state_vectors, step_vectors
from reluplan.proofs.grid.model import GridModel
from reluplan.proofs.grid.settings import GridSettings
from reluplan.proofs.grid.timed_pool import TimedPool

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GridTask:
    """bounds: boxes that contain every feasible plan. incumbent: the reward that a better plan exceeds, if known."""

    problem: Problem
    model: GridModel
    bounds: BetterPlanBounds
    incumbent: float | None
    pool: TimedPool
    settings: GridSettings

    @property
    def slack(self) -> float:
        """Plans better by no more than this are not looked for."""
        return 0.0 if self.incumbent is None else self.settings.slack * max(1.0, abs(self.incumbent))

    @property
    def threshold(self) -> float:
        """Plans below it need no bound; −infinity without an incumbent."""
        return -np.inf if self.incumbent is None else self.incumbent - self.slack

    @property
    def thresholds(self) -> Array:
        """The same at every step, (H,): a plan that beats it is worth at least threshold / γ^t at step t = 0, 1, ...;
        −infinity, so that nothing is dropped, where γ^t is so small that dividing by it leaves rounding alone."""
        factors = self.problem.discount_factors[:-1]
        usable = factors >= SMALLEST_FACTOR
        return np.where(usable, self.threshold / np.where(usable, factors, 1.0), -np.inf)

    @cached_property
    def reward_ranges(self) -> tuple[Array, Array]:
        """The least and the largest reward of every step in its boxes, (H,) each, by intervals."""
        bounds = self.bounds
        low = step_vectors(bounds.state_lower, bounds.action_lower, bounds.auxiliary_lower)
        high = step_vectors(bounds.state_upper, bounds.action_upper, bounds.auxiliary_upper)
        return self.problem.reward.bounds(low, high)

    @cached_property
    def floors(self) -> Array:
        """What every plan earns at least from each step on, (H,), worth what it is there."""
        least, _ = self.reward_ranges
        floor = 0.0
        if self.problem.final_reward is not None:
            ends = self.bounds.state_lower[-1:], self.bounds.state_upper[-1:]
            low, high = (state_vectors(self.problem, end, np.zeros((1, 0))) for end in ends)
            floor = float(self.problem.final_reward.bounds(low, high)[0][0])
        floors = np.empty(len(least))
        for t in reversed(range(len(least))):
            floor = least[t] + self.problem.discount * floor
            floors[t] = floor
        return floors

    @property
    def trivial_bound(self) -> float:
        """What no plan exceeds, by the largest rewards alone."""
        _, most = self.reward_ranges
        return float(most @ self.problem.discount_factors[:-1])

    @property
    def overshoots(self) -> tuple[float, ...]:
        """How far pairs may exceed their constant majorant, in turn: times the mean range of a step's reward."""
        least, most = self.reward_ranges
        return tuple(share * float((most - least).mean()) for share in self.settings.overshoots)

    @property
    def can_drop(self) -> bool:
        """Whether there is an incumbent, below which pairs can be dropped."""
        return bool(np.isfinite(self.threshold))

    @property
    def start(self) -> tuple[Array, Array]:
        """The box of initial states."""
        return self.bounds.state_lower[0], self.bounds.state_upper[0]

    @property
    def reachable(self) -> tuple[Array, Array]:
        """The boxes of states at which steps begin, (H, n) each."""
        return self.bounds.state_lower[:-1], self.bounds.state_upper[:-1]
