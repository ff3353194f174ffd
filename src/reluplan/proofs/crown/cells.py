"""Parts of the boxes of actions and initial states, each with a bound of its own: input splitting."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.boxes import BetterPlanBounds, Plans, tightened
from reluplan.problem.problem import Problem
from reluplan.proofs.crown.parameters import Parameters

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cell:
    """The plans whose actions (H, m) and first state (n,) lie in a box, and a proven bound of their reward.

    parameters: slopes and multipliers to begin with.
    """

    action_lower: Array
    action_upper: Array
    state_lower: Array
    state_upper: Array
    bound: float
    parameters: Parameters | None = None

    def __lt__(self, other: Cell) -> bool:
        """The largest bound comes first."""
        return self.bound > other.bound

    def within(self, bounds: Plans) -> Plans:
        """Boxes of plans, intersected with the cell: they hold for those plans that are in both."""
        arrays = bounds.copied().arrays()
        arrays["action_lower"] = np.maximum(arrays["action_lower"], self.action_lower)
        arrays["action_upper"] = np.minimum(arrays["action_upper"], self.action_upper)
        arrays["state_lower"][0] = np.maximum(arrays["state_lower"][0], self.state_lower)
        arrays["state_upper"][0] = np.minimum(arrays["state_upper"][0], self.state_upper)
        return tightened(bounds, arrays)

    def halves(self, problem: Problem) -> Iterator[tuple[Array, Array, Array, Array]]:
        """The boxes of two cells that contain every plan of this one, or none if nothing can be split.

        What is split is the side with the largest (H − t) · width / first width: what early actions do is felt by all
        steps that follow.
        """
        scores = self._scores(problem)
        place = int(np.argmax(scores)) if scores.size else 0
        if not scores.size or scores[place] <= 0.0:
            return
        lower = np.concatenate([self.state_lower, self.action_lower.ravel()])
        upper = np.concatenate([self.state_upper, self.action_upper.ravel()])
        middle = 0.5 * (lower[place] + upper[place])
        discrete = _is_discrete(problem)[place]
        below, above = (math.floor(middle), math.floor(middle) + 1.0) if discrete else (middle, middle)
        for low, high in ((lower[place], below), (above, upper[place])):
            sides = lower.copy(), upper.copy()
            sides[0][place], sides[1][place] = low, high
            count, shape = len(self.state_lower), self.action_lower.shape
            yield (
                sides[0][count:].reshape(shape),
                sides[1][count:].reshape(shape),
                sides[0][:count],
                sides[1][:count],
            )

    def _scores(self, problem: Problem) -> Array:
        """For every side of the first state and of the actions, how much is to be expected of splitting it."""
        horizon = problem.horizon
        low, high = problem.box(problem.actions)
        states = _share(self.state_upper - self.state_lower, problem.initial_upper - problem.initial_lower)
        actions = _share(self.action_upper - self.action_lower, high - low)
        weights = np.arange(horizon, 0, -1.0)
        return np.concatenate([(horizon + 1.0) * states, (weights[:, None] * actions).ravel()])


def whole(bounds: BetterPlanBounds) -> Cell:
    """The cell of all plans."""
    return Cell(bounds.action_lower, bounds.action_upper, bounds.state_lower[0], bounds.state_upper[0], math.inf)


def _share(width: Array, first: Array) -> Array:
    """Widths relative to the first ones; 0 for what is fixed, or too narrow to split."""
    share = width / np.where(first > 0.0, first, 1.0)
    return np.where((first > 0.0) & (share > 1e-6), share, 0.0)


def _is_discrete(problem: Problem) -> NDArray[np.bool_]:
    states = [variable.is_discrete for variable in problem.states]
    return np.array(states + [variable.is_discrete for variable in problem.actions] * problem.horizon, dtype=bool)
