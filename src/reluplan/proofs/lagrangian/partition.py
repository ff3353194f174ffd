"""Where to cut the horizon: windows of as many steps as a MILP can take, one repeated window while the plan rests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.encoding.window import Span
from reluplan.problem.rollout import Trajectory

Index = NDArray[np.int64]

RESTING = 1e-2
"""A plan rests while its states stay within this share of their range along the plan."""
SHORTEST_REST = 6
LONGEST = 25
"""Steps of a window, however few its binaries."""


@dataclass(frozen=True)
class Budget:
    """Binaries that a window may have: where the plan rests, and where it moves; half as many more at the start, which
    is known. few: all steps up to the rest are one window if they have no more than so many.
    """

    resting: int
    moving: int
    few: int = 0


def partition(trajectory: Trajectory, binaries: Index, budget: Budget) -> list[Span]:
    """Windows of at least one step, as long as the budget allows.

    binaries: how many each step has, (H,).
    """
    horizon = trajectory.horizon
    begin, end = resting_steps(trajectory)
    if end - begin < SHORTEST_REST:
        return _windows(binaries, 0, horizon, budget)
    # the window before the rest ends inside it, and the last one begins inside it: both know where the plan rests
    begin, end = begin + 1, min(end, horizon - 2)
    length = min(max(1, budget.resting // max(1, int(binaries[begin:end].max()))), LONGEST, end - begin)
    count = (end - begin) // length
    end = begin + count * length
    before, after = _windows(binaries, 0, begin, budget), _windows(binaries, end, horizon, budget)
    return [*before, Span(begin, length, count), *after]


def resting_steps(trajectory: Trajectory) -> tuple[int, int]:
    """The longest stretch of steps around three quarters of the horizon in which no state moves; (t, t) if none."""
    states = trajectory.states
    middle = 3 * trajectory.horizon // 4
    reach = np.maximum(np.ptp(states, axis=0), 1e-9)
    moved = (np.abs(states - states[middle]) > RESTING * reach).any(axis=1)
    before, after = np.flatnonzero(moved[:middle]), np.flatnonzero(moved[middle:])
    begin = int(before[-1]) + 1 if len(before) else 0
    end = middle + int(after[0]) - 1 if len(after) else trajectory.horizon
    return begin, max(begin, end)


def _windows(binaries: Index, begin: int, end: int, budget: Budget) -> list[Span]:
    """Steps begin..end-1, each window as long as its budget allows."""
    spans: list[Span] = []
    few = budget.few if binaries[begin:end].sum() <= budget.few else 0
    while begin < end:
        used = np.cumsum(binaries[begin : min(end, begin + LONGEST)])
        allowed = max((3 * budget.moving) // 2 if begin == 0 else budget.moving, few)
        length = max(1, int(np.searchsorted(used, allowed, side="right")))
        spans.append(Span(begin, length))
        begin += length
    return spans
