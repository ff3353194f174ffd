"""Propagation over the horizon: what a goal or a bound cuts from one state cuts from those before and after too."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import AllPlanBounds, HorizonBounds, Plans, intersect_in_place, tightened
from reluplan.bounds.prediction import rounded_box
from reluplan.bounds.reachability import no_plan_exists
from reluplan.bounds.span import Span
from reluplan.encoding.window import Window, cut_window
from reluplan.errors import InfeasibleError, NoBetterPlanError
from reluplan.problem.problem import Problem
from reluplan.tightening.obbt_lp import lp_boxes
from reluplan.tightening.settings import PropagationSettings

Array = NDArray[np.float64]

DEFAULT = PropagationSettings()


def propagate(
    problem: Problem,
    bounds: Plans,
    deadline: float = math.inf,
    moved: Iterable[int] | None = None,
    settings: PropagationSettings = DEFAULT,
) -> Plans:
    """Boxes of the same plans, by LPs over single steps, backwards and forwards in turn.

    The forward bounds know what comes before a step; here the LP of a step s' = F(s, a, x), C, with s in S_t and s' in
    S_{t+1} tightens both boxes, the actions and the units. The first pass runs backwards from steps whose image
    reaches beyond S_{t+1}: a goal or state bounds cut it; or from those whose boxes were moved. Steps with equal boxes
    share one computation. Until the deadline (of clock.now). If a step has no solution, no plan of the bounds is left:
    raises NoPlanExistsError or NoBetterPlanError, as they claim.
    """
    work = _Propagation(problem, bounds, deadline, settings)
    if moved is None:
        work.waiting = _is_cut(problem, bounds, settings.clearly)
    else:
        work.waiting[list(moved)] = True
    try:
        for number in range(settings.most_passes):
            if not work.waiting.any():
                break
            work.run(backwards=number % 2 == 0)
    except InfeasibleError as error:
        raise nothing_left(problem, bounds, error) from None
    return work.bounds


def nothing_left(problem: Problem, bounds: HorizonBounds, error: InfeasibleError) -> InfeasibleError:
    """What it means that boxes are empty, by what they claim to contain."""
    if isinstance(bounds, AllPlanBounds):
        return no_plan_exists(problem, error)
    return NoBetterPlanError(f"{problem.source}: no better plan is left: {error}")


class _Propagation(Generic[Plans]):
    """The boxes so far, and which steps wait for an LP because a box beside them became smaller."""

    def __init__(self, problem: Problem, bounds: Plans, deadline: float, settings: PropagationSettings) -> None:
        self.problem = problem
        self.bounds: Plans = tightened(bounds, bounds.copied().arrays())
        self.waiting = np.zeros(bounds.horizon, dtype=bool)
        self._deadline = deadline
        self._settings = settings
        self._cache: dict[bytes, dict[str, Array]] = {}
        self._fruitless = 0

    def run(self, backwards: bool) -> None:
        """Every step that waits, in one direction; steps that it moves wait in their turn."""
        steps = range(self.bounds.horizon)
        for t in reversed(steps) if backwards else steps:
            if self._fruitless == self._settings.most_fruitless or clock.now() > self._deadline:
                self.waiting[:] = False
            if self.waiting[t]:
                self.waiting[t] = False
                self._visit(t)

    def _visit(self, t: int) -> None:
        step = cut_window(self.problem, self.bounds, Span(t, 1))
        try:
            found = self._tightened(step)
            intersect_in_place(self.bounds, step.span, found)
        except InfeasibleError as error:
            raise InfeasibleError(
                f"at step {t + 1} no state and action within the proven bounds leads on to the goal and the state "
                f"bounds ({error})"
            ) from None
        first_shrunk, next_shrunk = _shrunk(step.bounds, found, self._settings.clearly)
        if first_shrunk and t > 0:
            self.waiting[t - 1] = True
        if next_shrunk and t + 1 < self.bounds.horizon:
            self.waiting[t + 1] = True

    def _tightened(self, step: Window) -> HorizonBounds:
        """The boxes of a step after its LPs; those of a step like it, if there was one."""
        before = step.bounds
        special = bytes([bool(step.problem.initial_constraints), bool(step.problem.goal)])
        key = special + b"".join(array.tobytes() for array in before.arrays().values())
        if key not in self._cache:
            plan_model = step.plan_model
            self._cache[key] = lp_boxes(plan_model, plan_model.model, before, self._deadline, self._settings.lp)
            found = HorizonBounds(**{**before.arrays(), **self._cache[key]})
            paid = _shrunk(before, found, self._settings.clearly).any()
            paid |= found.unstable.sum() < before.unstable.sum()
            self._fruitless = 0 if paid else self._fruitless + 1
        return HorizonBounds(**{**before.arrays(), **self._cache[key]})


def _is_cut(problem: Problem, bounds: HorizonBounds, clearly: float) -> NDArray[np.bool_]:
    """Which steps have an image that reaches clearly beyond the box of the next state, shape (H,)."""
    low, high = rounded_box(problem, bounds.output_lower, bounds.output_upper)
    inside_low, inside_high = bounds.state_lower[1:], bounds.state_upper[1:]
    with np.errstate(invalid="ignore"):
        least = clearly * (inside_high - inside_low) + 1e-9
        beyond = (low < inside_low - least) | (high > inside_high + least)
    return np.asarray(beyond.any(axis=1))


def _shrunk(before: HorizonBounds, after: HorizonBounds, clearly: float) -> NDArray[np.bool_]:
    """Whether the box of the first state, and of the next one, became clearly smaller."""
    with np.errstate(invalid="ignore"):
        old, new = before.state_upper - before.state_lower, after.state_upper - after.state_lower
        return np.asarray((new < (1.0 - clearly) * old).any(axis=1))
