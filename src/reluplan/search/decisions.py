"""What a plan decides, for a batch of plans at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.rollout import Trajectory

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Decisions:
    """B plans over H steps: initial states (B, n), actions (B, H, m), auxiliaries (B, H+1, k).

    Gradients with respect to decisions have the same shape, and use the same class.
    """

    initial: Array
    actions: Array
    auxiliaries: Array

    @classmethod
    def of(cls, trajectory: Trajectory) -> Decisions:
        """The decisions of one plan, as a batch of one."""
        return cls(trajectory.states[None, 0], trajectory.actions[None], trajectory.auxiliaries[None])

    @classmethod
    def join(cls, parts: list[Decisions]) -> Decisions:
        """One batch after the other."""
        return cls(
            np.concatenate([part.initial for part in parts]),
            np.concatenate([part.actions for part in parts]),
            np.concatenate([part.auxiliaries for part in parts]),
        )

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """Initial states, actions, auxiliaries."""
        return self.initial, self.actions, self.auxiliaries

    @property
    def count(self) -> int:
        return len(self.actions)

    @property
    def horizon(self) -> int:
        return int(self.actions.shape[1])

    def take(self, which: NDArray[np.int64]) -> Decisions:
        """The plans with these numbers."""
        return Decisions(self.initial[which], self.actions[which], self.auxiliaries[which])

    def minus(self, other: Decisions) -> Decisions:
        """The step from another batch of the same shape to this one."""
        return Decisions(*(a - b for a, b in zip(self.parts, other.parts, strict=True)))

    def at_least(self, value: float) -> Decisions:
        """Every entry raised to a value."""
        return Decisions(*(np.maximum(part, value) for part in self.parts))

    def plus(self, step: Decisions, factors: Array) -> Decisions:
        """This plan plus each factor times the step: a batch of one becomes one of len(factors)."""
        f = factors[:, None, None]
        return Decisions(
            self.initial + f[..., 0] * step.initial,
            self.actions + f * step.actions,
            self.auxiliaries + f * step.auxiliaries,
        )
