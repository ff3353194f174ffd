"""The LP relaxation of the whole horizon, cut into windows by its own multipliers.

λ, the multipliers of "the state in which a window ends is the state in which the next begins", make the bounds of the
windows' LPs add up to that of the whole (LP duality); any others give valid bounds too. A plan that is better than the
incumbent earns at least

    D_i − (Σ_j γ^(t_j) D_j − L) / γ^(t_i)

in window i, where D_j >= its Lagrangian in any window j, since the others earn at most their D: with that row the LP of
the window tightens its boxes.
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
from reluplan.errors import InfeasibleError
from reluplan.optimisation.model import Index, Model, ModelBuilder
from reluplan.optimisation.persistent_lp import lp_bound, row_duals
from reluplan.optimisation.safe_bound import safe_upper_bound
from reluplan.problem.discounting import SMALLEST_FACTOR
from reluplan.problem.problem import Problem
from reluplan.proofs.lagrangian.subproblem import WindowSubproblem, window_subproblem
from reluplan.proofs.proof_state import ProofState
from reluplan.tightening.obbt_lp import tighten_by_reward_cutoff
from reluplan.tightening.settings import LpTighteningSettings

Array = NDArray[np.float64]

ROUNDING = 1e-9
"""Of all terms: cutoffs are lower, and sums higher, by that."""


WORK_A_STEP = 2000.0
"""Evaluations of the network that the LPs of a step take, about; what cannot be done in time is not begun."""


def is_affordable(problem: Problem, deadline: float) -> bool:
    """Whether the LP relaxation can be expected to be solved by the deadline: HiGHS may overshoot it."""
    work = WORK_A_STEP * problem.horizon * problem.dynamics.operations
    return clock.expected(work) <= deadline - clock.now()


@dataclass(frozen=True, eq=False)
class Relaxation:
    """A bound by the LP relaxation, and λ of every state (H + 1, n) at its own step's worth; those that are not at the
    boundary of two windows are zero."""

    bound: float
    multipliers: Array


def relax(problem: Problem, windows: Sequence[WindowSubproblem], deadline: float) -> Relaxation | None:
    """The LP relaxation of all windows together, with rows that tie the end of each to the start of the next, whose
    multipliers are λ; None if it does not end in time."""
    builder = ModelBuilder()
    ends: list[Index] = []
    links: list[Index] = []
    for window in windows:
        if clock.now() > deadline:
            return None
        plan_model = window.plan_model
        columns = builder.append(plan_model.model, window.smallest_factor)
        if ends:
            row = builder.add_rows(np.zeros(len(problem.states)), 0.0)
            builder.add_entries(row, ends[-1], 1.0)
            builder.add_entries(row, columns[plan_model.states[0]], -1.0)
            links.append(row)
        ends.append(columns[plan_model.states[-1]])
    model = builder.build().relaxed()
    duals = row_duals(model, max(0.0, deadline - clock.now()))
    if duals is None:
        return None
    multipliers = np.zeros((problem.horizon + 1, len(problem.states)))
    for window, row in zip(windows[1:], links, strict=True):
        if window.smallest_factor > SMALLEST_FACTOR:
            multipliers[window.span.first] = -duals[row] / window.smallest_factor
    return Relaxation(safe_upper_bound(model, duals), multipliers)


def windows_of(problem: Problem, boxes: HorizonBounds, length: int, first: int = 0) -> list[WindowSubproblem]:
    """The horizon from a step on, in windows of so many steps, the last one shorter if they do not fit."""
    firsts = range(first, problem.horizon, length)
    spans = [Span(t, min(length, problem.horizon - t)) for t in firsts]
    return [window_subproblem(problem, boxes, span) for span in spans]


def lp_bounds(windows: Sequence[WindowSubproblem], multipliers: Array, deadline: float) -> Array | None:
    """D_i by the LP of each window; None if they are not done in time."""
    bounds = []
    for window in windows:
        if clock.now() > deadline:
            return None
        bounds.append(lp_bound(lagrangian_model(window, multipliers), deadline))
    return np.array(bounds)


def lagrangian_model(window: WindowSubproblem, multipliers: Array) -> Model:
    """A window's Lagrangian, for multipliers of every state (H + 1, n) without hinges."""
    none = np.zeros(multipliers.shape[1])
    start, end = multipliers[window.span.first], multipliers[window.span.end]
    return window.model(np.concatenate([start, none]), np.concatenate([end, none]))


def cut_off(
    state: ProofState,
    windows: Sequence[WindowSubproblem],
    multipliers: Array,
    bounds: Array,
    units: bool,
    deadline: float,
) -> None:
    """Tighten the boxes of better plans, given D_i of all windows of the horizon; units: theirs too, by LPs.

    Raises InfeasibleError if nothing is left.
    """
    total = total_bound(windows, bounds)
    if not math.isfinite(total):
        return
    slack = max(0.0, total - state.plan.total_reward)
    tasks, asked = [], []
    settings = LpTighteningSettings(units=units)
    for window, bound in zip(windows, bounds, strict=True):
        factor = window.smallest_factor
        if factor < SMALLEST_FACTOR:
            continue
        cutoff = bound - slack / factor - ROUNDING * (abs(bound) + slack / factor)
        boxes = require_claim(window.bounds, BetterPlanBounds)
        tasks.append((window.plan_model, lagrangian_model(window, multipliers), cutoff, boxes, deadline, settings))
        asked.append(window.span)
    answers = state.pool.call_all(tighten_by_reward_cutoff, tasks, deadline)
    for answer in answers:
        if isinstance(answer, InfeasibleError):
            raise answer
    pairs = [(span, each) for span, each in zip(asked, answers, strict=True) if isinstance(each, BetterPlanBounds)]
    state.tighten([span for span, _ in pairs], [each for _, each in pairs])


def reach_within(state: ProofState, lps_until: float, deadline: float) -> None:
    """Forward bounds within the boxes, with LPs until a moment; raises NoBetterPlanError if nothing is left."""
    within = reachable_within(state.problem, state.boxes, lps_until, deadline)
    state.tighten([Span(0, state.problem.horizon)], [within])


def total_bound(windows: Sequence[WindowSubproblem], bounds: Array) -> float:
    """Σ γ^(t_i) D_i, rounded up."""
    terms = np.array([window.smallest_factor for window in windows]) * bounds
    return float(terms.sum() + ROUNDING * np.abs(terms).sum())
