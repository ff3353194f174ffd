"""What stays the same from grid to grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.boxes import BetterPlanBounds
from reluplan.problem.problem import Problem
from reluplan.proofs.grid.model import GridModel
from reluplan.proofs.grid.settings import GridSettings
from reluplan.proofs.grid.timed_pool import TimedPool

Array = NDArray[np.float64]


SMALLEST_FACTOR = 1e-9
"""Of a discount: steps that count less than this are not decided by what the plan may still lose."""


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
