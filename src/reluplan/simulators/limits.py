"""Which actions a state allows, and actions among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.simulators.settings import DEFAULT_EXPLORATION, ExplorationSettings

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Allowed = Callable[[Array], bool]

NEAREST_ROUNDS = 50
"""Halvings that find the allowed value next to a wanted one: to the last digit."""


@dataclass(frozen=True, eq=False)
class Box:
    """Variables with finite bounds, some of which take whole numbers only."""

    lower: Array
    upper: Array
    is_discrete: Mask

    @classmethod
    def of(cls, names: Sequence[str], lower: Array, upper: Array, is_discrete: Mask, what: str) -> Box:
        """The box of these bounds; without finite ones there is no spreading values over them."""
        for name, low, high in zip(names, lower, upper, strict=True):
            if low > high:
                raise InputError(f"{what} '{name}': the bounds of the problem and of the simulator do not overlap")
            if not (np.isfinite(low) and np.isfinite(high)):
                raise InputError(
                    f"{what} '{name}' has the bounds [{low:g}, {high:g}], so values cannot be spread over them; "
                    "name a problem file that bounds it with --problem"
                )
        return cls(lower, upper, is_discrete)

    def point(self, fractions: Array) -> Array:
        """lower + fraction · (upper − lower); whole numbers get equal shares of the fractions in [0, 1)."""
        return between(self.lower, self.upper, fractions, self.is_discrete)


def between(low: Array, high: Array, fractions: Array, is_discrete: Mask) -> Array:
    """The values at fractions of intervals, one per variable."""
    whole = low + np.minimum(np.floor(fractions * (high - low + 1.0)), high - low)
    return np.where(is_discrete, whole, np.clip(low + fractions * (high - low), low, high))


@dataclass(frozen=True, eq=False)
class ActionLimits:
    """The actions of a box that a rule allows; the rule speaks for one state, and along each axis for an interval."""

    box: Box
    default: Array
    allowed: Allowed
    settings: ExplorationSettings = DEFAULT_EXPLORATION

    def spread(self, fractions: Array, rng: np.random.Generator) -> Array | None:
        """An allowed action that stands for fractions of what is allowed, each in [0, 1]; None if none is found.

        The action at these fractions of the box, if allowed. Otherwise one coordinate after the other, in random
        order, is placed at its fraction of the interval that is allowed given the others: with uniform fractions,
        every part of the allowed set is reached.
        """
        action = self.box.point(fractions)
        if self.allowed(action):
            return action
        start = self._start(rng)
        if start is None:
            return None
        action = start
        rounds = self.settings.spread_rounds
        for at in rng.permutation(len(action)):
            low, high = action.copy(), action.copy()
            low[at] = self._reach(action, at, self.box.lower[at], rounds)
            high[at] = self._reach(action, at, self.box.upper[at], rounds)
            trial = np.where(low < high, between(low, high, fractions, self.box.is_discrete), action)
            action = trial if self.allowed(trial) else action
        return action

    def nearest(self, wanted: Array) -> Array | None:
        """An allowed action with every coordinate, in turn, as close to the wanted one as possible; None if there is
        no allowed action to start from.
        """
        wanted = np.clip(wanted, self.box.lower, self.box.upper)
        if self.allowed(wanted):
            return wanted
        action = self.default.copy()
        if not self.allowed(action):
            return None
        for at in range(len(action)):
            action[at] = self._reach(action, at, wanted[at], NEAREST_ROUNDS)
        return action

    def _start(self, rng: np.random.Generator) -> Array | None:
        """An allowed action: the default, or the first of many random ones."""
        if self.allowed(self.default):
            return self.default.copy()
        candidates = (self.box.point(rng.random(len(self.default))) for _ in range(self.settings.attempts))
        return next((action for action in candidates if self.allowed(action)), None)

    def _reach(self, action: Array, at: int, goal: float, rounds: int) -> float:
        """The value closest to the goal that one coordinate of an allowed action may take, by bisection."""
        trial = action.copy()
        near, far = float(action[at]), float(goal)
        trial[at] = far
        if near == far or self.allowed(trial):
            return far
        for _ in range(rounds):
            middle = 0.5 * (near + far)
            if self.box.is_discrete[at]:
                middle = near + np.trunc(middle - near)
            if middle == near:
                break
            trial[at] = middle
            if self.allowed(trial):
                near = middle
            else:
                far = middle
        return near
