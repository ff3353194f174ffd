"""Sweeps over the horizon: what a goal or a bound cuts from one state cuts from the states before and after it too."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.reachability import HorizonBounds, rounded_box
from reluplan.encoding.window import Span, Window, copied, cut_window, narrow_in_place
from reluplan.errors import InfeasibleError
from reluplan.problem.problem import Problem
from reluplan.tightening.obbt_lp import tighten_window

Array = NDArray[np.float64]

CLEARLY = 0.01
"""A box that becomes narrower by less than this share of its width moves no other."""
MOST_SWEEPS, MOST_FRUITLESS = 6, 8
"""It ends after this many sweeps, or this many different steps one after the other without a gain."""


def sweep(
    problem: Problem, bounds: HorizonBounds, deadline: float = math.inf, moved: Iterable[int] | None = None
) -> HorizonBounds:
    """Boxes that contain every plan, from boxes that do: LPs over single steps, backwards and forwards in turn.

    The forward bounds know what comes before a step; here the LP of a step s' = F(s, a, x), C, with s in S_t and s' in
    S_{t+1} narrows both boxes, the actions and the neurons. The first sweep runs backwards from steps whose image
    reaches beyond S_{t+1}: a goal or state bounds cut it; or from those whose boxes were moved. Steps with equal boxes
    share one computation. Until the deadline (of clock.now); raises InfeasibleError if a step has no solution.
    """
    sweeping = _Sweeping(problem, bounds, deadline)
    if moved is None:
        sweeping.waiting = _is_cut(problem, bounds)
    else:
        sweeping.waiting[list(moved)] = True
    for number in range(MOST_SWEEPS):
        if not sweeping.waiting.any():
            break
        sweeping.run(backwards=number % 2 == 0)
    return sweeping.bounds


class _Sweeping:
    """The boxes so far, and which steps wait for an LP because a box beside them became smaller."""

    def __init__(self, problem: Problem, bounds: HorizonBounds, deadline: float) -> None:
        self.problem, self.bounds, self.deadline = problem, copied(bounds), deadline
        self.waiting = np.zeros(bounds.horizon, dtype=bool)
        self._cache: dict[bytes, HorizonBounds] = {}
        self._fruitless = 0

    def run(self, backwards: bool) -> None:
        """Every step that waits, in one direction; steps that it moves wait in their turn."""
        steps = range(self.bounds.horizon)
        for t in reversed(steps) if backwards else steps:
            if self._fruitless == MOST_FRUITLESS or clock.now() > self.deadline:
                self.waiting[:] = False
            if self.waiting[t]:
                self.waiting[t] = False
                self._visit(t)

    def _visit(self, t: int) -> None:
        step = cut_window(self.problem, self.bounds, Span(t, 1))
        try:
            found = self._tightened(step)
            narrow_in_place(self.bounds, step.span, found)
        except InfeasibleError as error:
            raise InfeasibleError(
                f"at step {t + 1} no state and action within the proven bounds leads on to the goal and the state "
                f"bounds ({error})"
            ) from None
        shrunk = _shrunk(step.bounds, found)
        if shrunk[0] and t > 0:
            self.waiting[t - 1] = True
        if shrunk[1] and t + 1 < self.bounds.horizon:
            self.waiting[t + 1] = True

    def _tightened(self, step: Window) -> HorizonBounds:
        """The boxes of a step after its LPs; those of a step like it, if there was one."""
        before = step.bounds
        special = bytes([bool(step.problem.initial_constraints), bool(step.problem.goal)])
        key = special + b"".join(getattr(before, field.name).tobytes() for field in dataclasses.fields(before))
        if key not in self._cache:
            found = tighten_window(step.plan_model, step.plan_model.model, before, self.deadline)
            paid = _shrunk(before, found).any() or found.unstable.sum() < before.unstable.sum()
            self._cache[key], self._fruitless = found, 0 if paid else self._fruitless + 1
        return self._cache[key]


def _is_cut(problem: Problem, bounds: HorizonBounds) -> NDArray[np.bool_]:
    """Which steps have an image that reaches clearly beyond the box of the next state, shape (H,)."""
    low, high = rounded_box(problem, bounds.output_lower, bounds.output_upper)
    inside_low, inside_high = bounds.state_lower[1:], bounds.state_upper[1:]
    with np.errstate(invalid="ignore"):
        least = CLEARLY * (inside_high - inside_low) + 1e-9
        beyond = (low < inside_low - least) | (high > inside_high + least)
    return np.asarray(beyond.any(axis=1))


def _shrunk(before: HorizonBounds, after: HorizonBounds) -> NDArray[np.bool_]:
    """Whether the box of the first state, and of the next one, became clearly smaller."""
    with np.errstate(invalid="ignore"):
        old, new = before.state_upper - before.state_lower, after.state_upper - after.state_lower
        return np.asarray((new < (1.0 - CLEARLY) * old).any(axis=1))
