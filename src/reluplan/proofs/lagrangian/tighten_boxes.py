"""Move a: smaller boxes of better plans, and the same multipliers in them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from reluplan.bounds.boxes import BetterPlanBounds, require_claim
from reluplan.errors import InfeasibleError
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
    spans = ascent.partition(iterate.budget) if is_much_smaller else iterate.spans
    decomposition = ascent.cut_anew(iterate.decomposition, spans)
    after = replace(iterate, decomposition=decomposition, tightened_at=gap, is_tighter=True, refused=frozenset())
    again = [i for i, span in enumerate(after.spans) if span in lossy]
    evaluation = ascent.evaluate(decomposition, after.at_boundaries, ascent.precision(gap), again)
    return replace(after, evaluation=evaluation)


def _tighten(ascent: DualAscent, iterate: Iterate) -> None:
    """A plan better than ours has Σ R − λ_start · f(s_first) + λ_end · f(s_end) >= D_i − (total − reward) in each
    window of span i: the others reach at most their D. With this cutoff LPs tighten the boxes."""
    evaluation, state = iterate.evaluation, ascent.state
    if not math.isfinite(evaluation.total):
        return
    slack = evaluation.total - ascent.reward
    tasks = []
    for i, subproblem in enumerate(iterate.decomposition.subproblems):
        model = subproblem.model(evaluation.multipliers[i], evaluation.multipliers[i + 1])
        cutoff = evaluation.windows[i].bound - slack
        boxes = require_claim(subproblem.bounds, BetterPlanBounds)
        tasks.append((subproblem.plan_model, model, cutoff, boxes, ascent.deadline))
    answers = state.pool.call_all(tighten_by_reward_cutoff, tasks, ascent.deadline)
    for answer in answers:
        if isinstance(answer, InfeasibleError):
            raise answer
    found = {i: answer for i, answer in enumerate(answers) if isinstance(answer, BetterPlanBounds)}
    state.tighten([iterate.spans[i] for i in found], list(found.values()))
