"""How to plan."""

from __future__ import annotations

import os
from dataclasses import dataclass

from reluplan.potentials.potential_set import PotentialSet
from reluplan.problem.rollout import Trajectory


@dataclass(frozen=True)
class PlanOptions:
    """The arguments of `plan`, which explains them."""

    method: str
    solver: str
    time_limit: float
    gap: float
    threads: int | None
    seed: int
    big_m: float | None = None
    interval_count: int = 2
    potentials: PotentialSet | None = None
    start: Trajectory | None = None
    trust_potentials: bool = False

    @property
    def thread_count(self) -> int:
        return min(self.threads or available_cores(), 4 * available_cores())


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
