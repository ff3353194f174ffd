"""Receding horizon: plan a window of steps, commit to the first of them, go on from there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.rollout import Trajectory
from reluplan.search import starts
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.iterate import Iterate
from reluplan.search.subproblem import continued, cut_out, joined, subproblem
from reluplan.search.trust_region import TrustRegion

Array = NDArray[np.float64]

WINDOW = 24
COMMITTED = 0.5
"""The share of a window that is kept."""
STEADY = 1e-7
"""States closer than this (relative) count as the same when a steady tail is looked for."""
STEPS = 30
"""Trust-region steps in one window."""


def receding_horizon(context: Context) -> None:
    """A plan from windows in sequence: time is linear in the horizon, and short once the plan has become steady.

    Each window maximises its own reward; only its first part is kept, so that it does not matter that a window knows
    nothing of what comes after. The goal counts in the window that reaches it. When a window ends where it began,
    its actions repeat until the last window.
    """
    horizon = context.problem.horizon
    parts: list[Trajectory] = []
    plan, done = None, 0
    while done < horizon and not (context.expired and parts):
        length = min(WINDOW, horizon - done)
        plan = _plan_window(context, parts[-1] if parts else None, done, length, plan)
        kept = length if done + length == horizon else max(1, int(COMMITTED * length))
        part = cut_out(plan, 0, kept)
        repeats = _repeats(part, horizon - done - WINDOW)
        parts += [part] * repeats
        done += kept * repeats
    context.offer(context.box.into(joined(parts, horizon)), "receding horizon")


def _plan_window(
    context: Context, before: Trajectory | None, first: int, length: int, plan: Trajectory | None
) -> Trajectory:
    """Improve what the plan of the window before has left, or the best constant plan."""
    part = subproblem(context, first, length, None if before is None else before.states[-1])
    if before is not None and plan is not None:
        actions, auxiliaries = continued(plan, before.horizon, length)
        part.offer(part.box.into(Decisions(part.box.lower.initial, actions[None], auxiliaries[None])), "window")
    if not part.found:
        part.offer(part.ranked(starts.constants(part, 8))[0], "window")
    assert part.best is not None
    TrustRegion(Iterate(part, part.best, "window")).run(STEPS)
    return part.best


def _repeats(part: Trajectory, steps_left: int) -> int:
    """How often a part that ends where it began may follow itself before the last window."""
    moved = np.abs(part.states[-1] - part.states[0])
    if np.any(moved > STEADY * np.maximum(1.0, np.abs(part.states[0]))):
        return 1
    return max(1, steps_left // part.horizon)
