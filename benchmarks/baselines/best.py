"""The best plan so far that breaks nothing, and how heavily breaking is charged."""

from __future__ import annotations

import time

import numpy as np

from reluplan.problem.check import check
from reluplan.problem.rollout import Trajectory, simulate

from .rollouts import Array, Judged, Rollouts

LESS = 3.0
"""The charge grows by this factor when a run ends without an allowed plan."""


class Best:
    """Keeps the best allowed plan of all that are offered until the deadline (of time.monotonic)."""

    def __init__(self, rollouts: Rollouts, deadline: float) -> None:
        self.rollouts = rollouts
        self.deadline = deadline
        self.actions: Array | None = None
        self.reward = -np.inf
        self.weight = 0.0

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self.deadline

    def scores(self, actions: Array) -> Array:
        """reward − weight · broken of each plan, (P,); the best that breaks nothing is kept."""
        return self.offer(actions, self.rollouts.judge(actions))

    def offer(self, actions: Array, judged: Judged) -> Array:
        """The same of plans that are judged already. The first weigh ten times the spread of their rewards."""
        if self.weight == 0.0:
            finite = judged.rewards[np.isfinite(judged.rewards)]
            self.weight = 10.0 * (1.0 + float(np.ptp(finite))) if len(finite) else 10.0
        rewards = np.where(judged.allowed, judged.rewards, -np.inf)
        index = int(rewards.argmax())
        if rewards[index] > self.reward:
            self.actions, self.reward = actions[index].copy(), float(rewards[index])
        return judged.rewards - self.weight * np.minimum(judged.broken, 1e300)

    def charge_more(self) -> None:
        """For a method that begins anew without having found an allowed plan."""
        if self.actions is None:
            self.weight *= LESS

    def checked(self) -> Trajectory | None:
        """The plan as the product rolls it out, if the product's own check passes it."""
        if self.actions is None:
            return None
        problem = self.rollouts.problem
        trajectory = simulate(problem, problem.initial_lower, self.actions)
        return trajectory if check(problem, trajectory).ok else None
