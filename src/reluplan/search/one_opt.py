"""Discrete decisions changed one at a time (1-opt)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.rollout import Trajectory
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.local_search import local_search
from reluplan.search.time_slice import Paused

Array = NDArray[np.float64]


def one_opt(context: Context) -> Paused[None]:
    """Make the single change that helps most, again and again; then improve the rest of the plan."""
    if context.best is None or not context.box.any_discrete:
        return
    plan, value = context.best, context.best_merit
    for _ in range(context.settings.one_opt.rounds):
        batch = neighbours(context, plan)
        if not batch.count:
            break
        yield from context.pause(batch.count)
        _, score = context.evaluate(batch)
        merits = score.merit(context.merit.penalty)
        top = int(merits.argmax())
        if merits[top] <= value:
            break
        plan = context.offer(batch.take(np.array([top])), "one-opt")
        value = float(merits[top])
    yield from local_search(context, plan)


def neighbours(context: Context, plan: Trajectory) -> Decisions:
    """Copies of a plan in which one discrete decision is one more or one less."""
    base = Decisions.of(plan)
    box = context.box
    discrete = (box.discrete_states, box.discrete_actions, box.discrete_auxiliaries)
    changes = []
    for part, values in enumerate(base.parts):
        places = np.flatnonzero(np.broadcast_to(discrete[part], values.shape).ravel())
        changes += [(part, place, change) for place in places.tolist() for change in (-1.0, 1.0)]
    changes = [c for c in changes if _inside(box.lower.parts, box.upper.parts, base.parts, *c)]
    most = context.settings.one_opt.neighbours
    if len(changes) > most:
        changes = [changes[i] for i in context.rng.choice(len(changes), most, replace=False)]
    copies = [np.repeat(values, len(changes), axis=0) for values in base.parts]
    for row, (part, place, change) in enumerate(changes):
        copies[part][row].reshape(-1)[place] += change
    return Decisions(*copies)


def _inside(
    lower: tuple[Array, ...], upper: tuple[Array, ...], values: tuple[Array, ...], part: int, place: int, change: float
) -> bool:
    """Whether the changed value is still in its box."""
    changed = float(values[part].ravel()[place]) + change
    return bool(lower[part].ravel()[place] <= changed <= upper[part].ravel()[place])
