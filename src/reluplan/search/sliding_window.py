"""Improving a plan that is too long for one linear program: in overlapping windows, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from reluplan import clock
from reluplan.problem.rollout import Trajectory
from reluplan.search.context import Context
from reluplan.search.local_search import improve_best, local_search
from reluplan.search.subproblem import splice, subproblem
from reluplan.search.time_slice import Paused


def improve(context: Context, plan: Trajectory) -> Paused[Trajectory]:
    """The plan of highest merit that local search reaches: on the whole horizon if that fits, else in windows."""
    work = local_search(context, plan) if fits(context) else improve_windows(context, plan, improve_best)
    return (yield from work)


def fits(context: Context) -> bool:
    """Whether the whole horizon fits into one linear program."""
    return context.problem.horizon <= longest_window(context)


def longest_window(context: Context) -> int:
    """How many steps fit into one linear program."""
    problem = context.problem
    settings = context.settings.local_model
    columns = len(problem.input_variables) + len(problem.reward.terms) + len(problem.constraints)
    return max(settings.shortest, min(settings.longest, settings.largest_columns // max(1, columns)))


def improve_windows(
    context: Context, plan: Trajectory, search: Callable[[Context], Paused[None]], skip_steady: bool = False
) -> Paused[Trajectory]:
    """Search in overlapping windows in turn, each between the states where it begins and ends now.

    `search` improves the best plan of the context of one window. skip_steady: leave out windows that stay in one state.
    """
    for first, last in _windows(context, plan):
        yield from context.pause()
        old = plan.part(first, last)
        if skip_steady and np.allclose(old.states, old.states[0], rtol=1e-6, atol=1e-6):
            continue
        end = None if last == plan.horizon else old.states[-1]
        part = subproblem(context, first, last - first, old.states[0] if first else None, end)
        part.take(old, "window")
        part.sink = _Forward(context, plan, first)
        yield from search(part)
        if part.best is not None and part.merit_of(part.best) > part.merit_of(old):
            trial = splice(context.problem, plan, part.best, first)
            context.take(trial, "window")
            plan = max(plan, trial, key=context.merit_of)
    return plan


@dataclass
class _Forward:
    """Passes better plans of a window on as plans of the whole horizon, but not too often: that takes a rollout."""

    context: Context
    plan: Trajectory
    first: int
    last_time: float = -np.inf

    def __call__(self, part: Trajectory, source: str) -> bool:
        if clock.now() > self.last_time + self.context.settings.sliding_window.pause:
            self.context.take(splice(self.context.problem, self.plan, part, self.first), source)
            self.last_time = clock.now()
        return True


def _windows(context: Context, plan: Trajectory) -> Iterator[tuple[int, int]]:
    """Overlapping windows in order; one that looks like the one before (a steady stretch) is left out."""
    length = longest_window(context)
    for first in range(0, max(1, plan.horizon - length // 2), max(1, length // 2)):
        last = min(first + length, plan.horizon)
        if first == 0 or not _same(plan.part(first, last), plan.part(first - length // 2, last - length // 2)):
            yield first, last


def _same(a: Trajectory, b: Trajectory) -> bool:
    return bool(np.allclose(a.states, b.states, atol=1e-7) and np.allclose(a.actions, b.actions, atol=1e-7))
