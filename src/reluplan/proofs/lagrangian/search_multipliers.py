"""Better multipliers by the sampled dual function: before the first MILP, and as move d between rounds of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.proofs.lagrangian.decomposition import Decomposition
from reluplan.proofs.lagrangian.following_plan import following_plan
from reluplan.proofs.lagrangian.iterate import DualAscent, Iterate, boundaries, step_sizes
from reluplan.proofs.lagrangian.partition import steady_steps
from reluplan.proofs.lagrangian.sampled_dual import sampled_multipliers
from reluplan.proofs.lagrangian.settings import WindowBudget

Array = NDArray[np.float64]

SINGLE_STEPS = WindowBudget(steady=1, moving=1, few=0)


def first_multipliers(ascent: DualAscent, multipliers: Array) -> Array:
    """λ of every step (H + 1, 2n), improved where the plan moves by the sampled dual function of single steps."""
    spans = ascent.partition(SINGLE_STEPS)
    at = boundaries(spans)
    multipliers = multipliers.copy()
    decomposition, tolerance = ascent.without_samples(spans), 0.3 * ascent.state.tolerance
    radius = ascent.settings.sampled_dual.first_radius
    multipliers[at] = _searched(ascent, decomposition, multipliers[at], tolerance, radius)
    return multipliers


def search_multipliers(ascent: DualAscent, iterate: Iterate) -> Iterate:
    """Where the windows of now lose something, and the last search gained much: windows that the sampling missed are
    cuts for the next one."""
    best, settings, gap = iterate.evaluation, ascent.settings, ascent.gap(iterate)
    moving = np.array([span.count == 1 for span in iterate.spans])
    lost = ascent.losses(iterate.decomposition, best)[moving].sum()
    if iterate.is_searched or lost < settings.worth_asking * gap or not ascent.affords(best):
        return iterate
    iterate = replace(iterate, is_searched=True)
    radius, precision = settings.sampled_dual.next_radius, ascent.precision(gap)
    found = _searched(ascent, iterate.decomposition, best.multipliers, precision, radius)
    if np.array_equal(found, best.multipliers):
        return iterate
    trial = ascent.evaluate_below(iterate.decomposition, found, precision, best.total)
    if trial.total >= best.total:
        return iterate
    iterate = iterate.accepting(trial)
    follow_multipliers(ascent, iterate.multipliers)
    return replace(iterate, is_searched=best.total - trial.total < settings.sampled_dual.worthwhile * gap)


def follow_multipliers(ascent: DualAscent, multipliers: Array) -> bool:
    """Whether a plan that follows λ of every step (H + 1, 2n), and is improved, is better than the incumbent."""
    state, before = ascent.state, ascent.plan
    begin, end = steady_steps(before, ascent.state.problem.series_table, ascent.settings.partition.steady_share)
    steps = begin + 1 if begin < end else state.problem.horizon
    settings = ascent.settings.sampled_dual
    until = clock.now() + settings.share * ascent.remaining
    found = following_plan(state.problem, state.boxes, ascent.guide, multipliers, steps, until, state.seed, settings)
    if found is not None:
        state.improve(found)
    return ascent.plan is not before


def _searched(
    ascent: DualAscent, decomposition: Decomposition, multipliers: Array, tolerance: float, radius: float
) -> Array:
    """λ at the boundaries of a decomposition; that of a steady state, which has a search of its own, stays."""
    settings = ascent.settings.sampled_dual
    spans = [subproblem.span for subproblem in decomposition.subproblems]
    scale = step_sizes(np.maximum(np.abs(multipliers), np.abs(ascent.plan_multipliers[boundaries(spans)])))
    for i, span in enumerate(spans):
        if span.count > 1:
            scale[i : i + 2] = 0.0
    until = clock.now() + settings.share * ascent.remaining
    return sampled_multipliers(decomposition, multipliers, radius * scale, until, tolerance, settings)
