"""Receding horizon: plan a window of steps, commit to the first of them, go on from there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.rollout import Trajectory
from reluplan.search import starts
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.iterate import Iterate
from reluplan.search.subproblem import continued, joined, subproblem
from reluplan.search.time_slice import Paused
from reluplan.search.trust_region import TrustRegion

Array = NDArray[np.float64]


def receding_horizon(context: Context) -> Paused[None]:
    """A plan from windows in sequence: time is linear in the horizon, and short once the plan has become steady.

    Each window maximises its own reward; only its first part is kept, so that it does not matter that a window knows
    nothing of what comes after. The goal counts in the window that reaches it. When a window ends where it began,
    its actions repeat until the last window.
    """
    horizon = context.problem.horizon
    settings = context.settings.receding_horizon
    parts: list[Trajectory] = []
    plan = None
    done = 0
    shown = settings.window
    while done < horizon:
        length = min(settings.window, horizon - done)
        plan = yield from _plan_window(context, parts[-1] if parts else None, done, length, plan)
        kept = length if done + length == horizon else max(1, int(settings.committed * length))
        part = plan.part(0, kept)
        repeats = _repeats(part, horizon - done - settings.window, settings.steady)
        parts += [part] * repeats
        done += kept * repeats
        if done >= min(horizon, 2 * shown):  # what there is after 48, 96, 192, ... steps is a plan too
            shown = done
            context.offer(context.box.into(joined(parts, horizon)), "receding horizon")


def _plan_window(
    context: Context, before: Trajectory | None, first: int, length: int, plan: Trajectory | None
) -> Paused[Trajectory]:
    """Improve what the plan of the window before has left, or the best constant plan."""
    part = subproblem(context, first, length, None if before is None else before.states[-1])
    if before is not None and plan is not None:
        actions, auxiliaries = continued(plan, before.horizon, length)
        part.offer(part.box.into(Decisions(part.box.lower.initial, actions[None], auxiliaries[None])), "window")
    if not part.found:
        part.offer(part.ranked(starts.constants(part, part.settings.constant_plans))[0], "window")
    assert part.best is not None
    iterate = Iterate(part, part.best, part.settings.local_model.margin, "window")
    yield from TrustRegion(iterate).run(part.settings.receding_horizon.trust_region_steps)
    return part.best


def _repeats(part: Trajectory, steps_left: int, steady: float) -> int:
    """How often a part that ends where it began may follow itself before the last window."""
    moved = np.abs(part.states[-1] - part.states[0])
    if np.any(moved > steady * np.maximum(1.0, np.abs(part.states[0]))):
        return 1
    return max(1, steps_left // part.horizon)
