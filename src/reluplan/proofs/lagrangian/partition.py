"""Where to cut the horizon: windows of as many steps as a MILP can take, one repeated window in the steady state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.span import Span
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.lagrangian.settings import PartitionSettings, WindowBudget

Array = NDArray[np.float64]
Index = NDArray[np.int64]

DEFAULT = PartitionSettings()


def partition(
    trajectory: Trajectory, series: Array, unstable: Index, budget: WindowBudget, settings: PartitionSettings = DEFAULT
) -> list[Span]:
    """Windows of at least one step, as long as the budget allows; unstable: how many units of each step are, (H,)."""
    horizon = trajectory.horizon
    begin, end = steady_steps(trajectory, series, settings.steady_share)
    if end - begin < settings.shortest_steady:
        return _windows(unstable, 0, horizon, budget, settings.longest)
    # the window before the steady state ends inside it, and the last one begins inside it: both know where it is
    begin, end = begin + 1, min(end, horizon - 2)
    allowed = max(1, budget.steady // max(1, int(unstable[begin:end].max())))
    length = min(allowed, settings.longest, end - begin)
    count = (end - begin) // length
    end = begin + count * length
    before = _windows(unstable, 0, begin, budget, settings.longest)
    after = _windows(unstable, end, horizon, budget, settings.longest)
    return [*before, Span(begin, length, count), *after]


def steady_steps(trajectory: Trajectory, series: Array, steady_share: float = DEFAULT.steady_share) -> tuple[int, int]:
    """The longest stretch of steps around three quarters of the horizon in which no state and none of the series moves,
    (H+1, series); (t, t) if there is none."""
    states = trajectory.states
    middle = 3 * trajectory.horizon // 4
    reach = np.maximum(np.ptp(states, axis=0), 1e-9)
    moved = (np.abs(states - states[middle]) > steady_share * reach).any(axis=1)
    moved |= (series != series[middle]).any(axis=1)
    before, after = np.flatnonzero(moved[:middle]), np.flatnonzero(moved[middle:])
    begin = int(before[-1]) + 1 if len(before) else 0
    end = middle + int(after[0]) - 1 if len(after) else trajectory.horizon
    return begin, max(begin, end)


def _windows(unstable: Index, begin: int, end: int, budget: WindowBudget, longest: int) -> list[Span]:
    """Steps begin..end-1, each window as long as its budget allows."""
    spans: list[Span] = []
    few = budget.few if unstable[begin:end].sum() <= budget.few else 0
    while begin < end:
        used = np.cumsum(unstable[begin : min(end, begin + longest)])
        allowed = max((3 * budget.moving) // 2 if begin == 0 else budget.moving, few)
        length = max(1, int(np.searchsorted(used, allowed, side="right")))
        spans.append(Span(begin, length))
        begin += length
    return spans
