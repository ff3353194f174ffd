"""What remains of an earlier plan, one step later."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory, fitted, rollout

Array = NDArray[np.float64]


def shifted_plan(problem: Problem, previous: Trajectory) -> Trajectory:
    """The rest of an earlier plan, simulated from the problem's first state; from there it may break constraints.

    (a_2, ..., a_H) of the earlier plan, cut to the problem's horizon or completed by one of a few endings: a valid one
    if there is any, with the highest reward.
    """
    rest = previous.actions[1 : problem.horizon + 1]
    auxiliaries = problem.with_series(fitted(previous.auxiliaries[1:], problem.horizon + 1))
    plans = (
        rollout(problem, problem.initial_lower, np.vstack([rest, ending]), auxiliaries)
        for ending in _endings(problem, previous, problem.horizon - len(rest))
    )
    return max(plans, key=lambda p: (check(problem, p).ok, p.total_reward))


def idle_action(problem: Problem) -> Array:
    """The action nearest to zero within the bounds."""
    return np.clip(np.zeros(len(problem.actions)), *problem.box(problem.actions))


def _endings(problem: Problem, previous: Trajectory, count: int) -> Iterator[Array]:
    """Actions for the steps that the earlier plan does not reach: the last one again, or none."""
    yield np.tile(previous.actions[-1], (count, 1))
    if count > 0:
        yield np.tile(idle_action(problem), (count, 1))
