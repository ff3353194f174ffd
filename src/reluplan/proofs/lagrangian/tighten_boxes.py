"""Move a: smaller boxes of better plans, and the same multipliers in them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from reluplan.bounds.boxes import BetterPlanBounds, require_claim
from reluplan.errors import InfeasibleError
from reluplan.problem.discounting import SMALLEST_FACTOR
from reluplan.proofs.lagrangian.iterate import DualAscent, Iterate
from reluplan.tightening.obbt_lp import tighten_by_reward_cutoff


def tighten_boxes(ascent: DualAscent, iterate: Iterate) -> Iterate:
    """If the gap has fallen enough since the last time; the horizon is cut anew where many units became stable."""
    gap, settings = ascent.gap(iterate), ascent.settings
    if gap >= settings.worth_tightening * iterate.tightened_at:
        return iterate
    losses = ascent.losses(iterate.decomposition, iterate.evaluation)
    lossy = {iterate.spans[i] for i in np.flatnonzero(losses >= settings.worth_asking * gap)}
    before = int(ascent.state.boxes.unstable.sum())
    _tighten(ascent, iterate)
    is_much_smaller = int(ascent.state.boxes.unstable.sum()) <= settings.many_fewer * before
    is_cut_anew = is_much_smaller and not iterate.is_merged
    spans = ascent.partition(iterate.budget) if is_cut_anew else iterate.spans
    decomposition = ascent.cut_anew(iterate.decomposition, spans)
    after = replace(
        iterate, decomposition=decomposition, tightened_at=gap, is_tighter=True, refused=frozenset(), is_searched=False
    )
    again = [i for i, span in enumerate(after.spans) if span in lossy]
    evaluation = ascent.evaluate(decomposition, after.at_boundaries, ascent.precision(gap), again)
    return replace(after, evaluation=evaluation)


def _tighten(ascent: DualAscent, iterate: Iterate) -> None:
    """A plan better than ours earns at least D_i − (total − reward) / γ^t in each window of span i, t its first step:
    the others reach at most their D. With the smallest of these cutoffs, the last window's, LPs tighten the boxes."""
    evaluation, state = iterate.evaluation, ascent.state
    if not math.isfinite(evaluation.total) or not iterate.decomposition.proves(evaluation):
        return
    slack = evaluation.total - ascent.reward
    tasks, asked = [], []
    for i, subproblem in enumerate(iterate.decomposition.subproblems):
        if subproblem.smallest_factor < SMALLEST_FACTOR:
            continue
        model = subproblem.model(evaluation.multipliers[i], evaluation.multipliers[i + 1])
        cutoff = evaluation.windows[i].bound - slack / subproblem.smallest_factor
        boxes = require_claim(subproblem.bounds, BetterPlanBounds)
        tasks.append((subproblem.plan_model, model, cutoff, boxes, ascent.deadline))
        asked.append(iterate.spans[i])
    answers = state.pool.call_all(tighten_by_reward_cutoff, tasks, ascent.deadline)
    for answer in answers:
        if isinstance(answer, InfeasibleError):
            raise answer
    pairs = zip(asked, answers, strict=True)
    found = [(span, answer) for span, answer in pairs if isinstance(answer, BetterPlanBounds)]
    state.tighten([span for span, _ in found], [answer for _, answer in found])
