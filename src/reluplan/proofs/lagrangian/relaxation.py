"""The proof by the LP relaxation of the whole horizon, whose multipliers tell where better plans are.

    1  solve the LP relaxation over the boxes; its duals prove a bound (`safe_bound`)
    2  λ_t, the multipliers of s_{t+1} = F(s_t, a_t, x_t), cut it into windows: by LP duality

           Σ_i γ^(t_i) D_i  =  the bound of 1,   D_i = max Σ R − λ · s_first + λ' · s_end  over the LP of window i

    3  a plan that is better than the incumbent, L, earns at least D_i − (Σ γ^(t_i) D_i − L) / γ^(t_i) in window i,
       since the others earn at most their D: with that row the window's LP tightens its boxes (OBBT)
    4  smaller boxes reach less far: forward bounds within them
    5  again, while that moves something; then with LPs of units too, and with longer windows

All of it is LPs, of one step for the most part, so that it takes seconds where window MILPs take minutes. It pays where
leaving the good region is dear: few steps can afford it, and the region is all that is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import BetterPlanBounds, HorizonBounds, require_claim
from reluplan.bounds.reachability import reachable_within
from reluplan.bounds.span import Span
from reluplan.encoding.unroll import PlanModel, unroll
from reluplan.errors import InfeasibleError, NoBetterPlanError, OutOfTimeError
from reluplan.optimisation.model import Model
from reluplan.optimisation.persistent_lp import PersistentLp, row_duals
from reluplan.optimisation.safe_bound import safe_upper_bound
from reluplan.problem.discounting import SMALLEST_FACTOR
from reluplan.problem.problem import Problem
from reluplan.proofs.lagrangian.settings import Effort, RelaxationSettings
from reluplan.proofs.lagrangian.subproblem import WindowSubproblem, window_subproblem
from reluplan.proofs.proof_state import ProofState
from reluplan.tightening.obbt_lp import tighten_by_reward_cutoff
from reluplan.tightening.settings import LpTighteningSettings

Array = NDArray[np.float64]

ROUNDING = 1e-9
"""Of all terms: cutoffs are lower by that."""


class RelaxationProof:
    """Steps 1 to 5 above. Without a plan only the bound of step 1."""

    stage = "relaxation"
    summary = "the LP relaxation of the whole horizon, and boxes of better plans by its multipliers"
    needs_plan = False

    def __init__(self, settings: RelaxationSettings | None = None) -> None:
        self._settings = settings or RelaxationSettings()
        self._effort = 0
        self._known: _Known | None = None

    def improve(self, state: ProofState, deadline: float) -> None:
        """Until the bound meets the plan, the deadline, or nothing moves; a turn begins where the last has ended."""
        settings = self._settings
        if self._known is not None and not _Known.of(state).is_close_to(self._known, settings.worthwhile):
            self._effort = 0
        while self._effort < len(settings.efforts) and clock.now() < deadline and not state.incumbent.is_proven:
            before = _Known.of(state)
            if not self._round(state, settings.efforts[self._effort], deadline):
                return
            self._known = _Known.of(state)
            if self._known.is_close_to(before, settings.worthwhile) and clock.now() < deadline:
                self._effort += 1

    def _round(self, state: ProofState, effort: Effort, deadline: float) -> bool:
        """Steps 1 to 4; False if they cannot be done, or not in time."""
        relaxed = _relaxation(state.problem, state.boxes, deadline)
        if relaxed is None:
            return False
        state.offer(relaxed.bound, 0.0, "the LP relaxation of the whole horizon")
        if state.reward is None or state.incumbent.is_proven:
            return False
        try:
            self._tighten(state, relaxed.multipliers, effort, deadline)
        except NoBetterPlanError:
            raise
        except InfeasibleError:
            state.offer_no_better_plan("the LP relaxation")
            return False
        return True

    def _tighten(self, state: ProofState, multipliers: Array, effort: Effort, deadline: float) -> None:
        """Steps 2 to 4."""
        windows = _windows(state.problem, state.boxes, effort.length)
        bounds = _window_bounds(windows, multipliers, deadline)
        if bounds is None:
            return
        weights = np.array([window.smallest_factor for window in windows])
        total = float((weights * bounds).sum()) + ROUNDING * float(np.abs(weights * bounds).sum())
        state.offer(total, 0.0, "LPs of windows")
        if not math.isfinite(total):
            return
        slack = max(0.0, total - state.plan.total_reward)
        found = _cut_off(state, windows, multipliers, bounds, slack, effort, deadline)
        state.tighten(*found)
        until = clock.now() + self._settings.forward_share * max(0.0, deadline - clock.now())
        within = reachable_within(state.problem, state.boxes, min(until, deadline), deadline)
        state.tighten([Span(0, state.problem.horizon)], [within])


@dataclass(frozen=True)
class _Known:
    """What a round begins with: the plan, unstable units, and the boxes' widths together."""

    reward: float | None
    unstable: int
    size: float

    @classmethod
    def of(cls, state: ProofState) -> _Known:
        boxes = state.boxes
        widths = (
            (boxes.state_upper - boxes.state_lower).sum(axis=0),
            (boxes.action_upper - boxes.action_lower).sum(axis=0),
        )
        low, high = state.problem.box(state.problem.states)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.nan_to_num(widths[0] / (high - low), nan=0.0, posinf=0.0)
        actions = state.problem.box(state.problem.actions)
        spread = np.maximum(actions[1] - actions[0], 1e-300)
        return cls(state.reward, int(boxes.unstable.sum()), float(shares.sum() + (widths[1] / spread).sum()))

    def is_close_to(self, before: _Known, worthwhile: float) -> bool:
        """Whether too little has changed since then."""
        fewer = self.unstable < (1.0 - worthwhile) * before.unstable
        return not fewer and self.size >= (1.0 - worthwhile) * before.size


@dataclass(frozen=True, eq=False)
class _Relaxed:
    """A bound by the LP relaxation, and λ of every state (H + 1, n), each at its own step's worth."""

    bound: float
    multipliers: Array


def _relaxation(problem: Problem, boxes: HorizonBounds, deadline: float) -> _Relaxed | None:
    """Step 1; None if it does not end in time."""
    try:
        plan_model = unroll(problem, boxes, deadline=deadline)
    except OutOfTimeError:
        return None
    duals = row_duals(plan_model.model, max(0.0, deadline - clock.now()))
    if duals is None:
        return None
    return _Relaxed(safe_upper_bound(plan_model.model, duals), _multipliers(plan_model, duals))


def _multipliers(plan_model: PlanModel, duals: Array) -> Array:
    """λ_t for t = 1..H+1, shape (H + 1, n), from those of the link rows; zero for the first state and discrete ones."""
    problem = plan_model.problem
    multipliers = np.zeros((problem.horizon + 1, len(problem.states)))
    linked = plan_model.link_rows >= 0
    multipliers[1:][linked] = -duals[plan_model.link_rows[linked]]
    factors = problem.discount_factors[:, None]
    return np.where(factors > SMALLEST_FACTOR, multipliers / np.maximum(factors, SMALLEST_FACTOR), 0.0)


def _windows(problem: Problem, boxes: HorizonBounds, length: int) -> list[WindowSubproblem]:
    """The horizon in windows of so many steps, the last one shorter if they do not fit."""
    firsts = range(0, problem.horizon, length)
    spans = [Span(first, min(length, problem.horizon - first)) for first in firsts]
    return [window_subproblem(problem, boxes, span) for span in spans]


def _window_bounds(windows: Sequence[WindowSubproblem], multipliers: Array, deadline: float) -> Array | None:
    """D_i of step 2; None if they are not done in time."""
    bounds = []
    for window in windows:
        if clock.now() > deadline:
            return None
        model = _model(window, multipliers)
        best = PersistentLp(model).maximum(np.arange(model.column_count), model.objective, deadline)
        bounds.append(best + model.offset)
    return np.array(bounds)


def _model(window: WindowSubproblem, multipliers: Array) -> Model:
    none = np.zeros(multipliers.shape[1])
    start, end = multipliers[window.span.first], multipliers[window.span.end]
    return window.model(np.concatenate([start, none]), np.concatenate([end, none]))


def _cut_off(
    state: ProofState,
    windows: Sequence[WindowSubproblem],
    multipliers: Array,
    bounds: Array,
    slack: float,
    effort: Effort,
    deadline: float,
) -> tuple[list[Span], list[BetterPlanBounds]]:
    """Step 3: boxes of each window."""
    tasks, asked = [], []
    settings = LpTighteningSettings(units=effort.units)
    for window, bound in zip(windows, bounds, strict=True):
        factor = window.smallest_factor
        if factor < SMALLEST_FACTOR:
            continue
        cutoff = bound - slack / factor - ROUNDING * (abs(bound) + slack / factor)
        boxes = require_claim(window.bounds, BetterPlanBounds)
        tasks.append((window.plan_model, _model(window, multipliers), cutoff, boxes, deadline, settings))
        asked.append(window.span)
    answers = state.pool.call_all(tighten_by_reward_cutoff, tasks, deadline)
    for answer in answers:
        if isinstance(answer, InfeasibleError):
            raise answer
    pairs = [(span, each) for span, each in zip(asked, answers, strict=True) if isinstance(each, BetterPlanBounds)]
    return [span for span, _ in pairs], [each for _, each in pairs]
