"""Move f: better multipliers, by a bundle step inside a trust region."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.proofs.lagrangian.iterate import DualAscent, Iterate, boundaries, step_sizes

Array = NDArray[np.float64]


def bundle_step(ascent: DualAscent, iterate: Iterate) -> Iterate:
    """λ that prove clearly more than the best ones, if a proposal does."""
    best, decomposition = iterate.evaluation, iterate.decomposition
    gap, settings = ascent.gap(iterate), ascent.settings.bundle
    for _ in range(settings.proposals):
        nothing_to_choose = (decomposition.groups() < 0).all()
        if nothing_to_choose or clock.now() > ascent.deadline or iterate.radius < settings.smallest_radius:
            return iterate
        radius = iterate.radius * _scale(ascent, iterate)
        multipliers, promised = decomposition.propose(best.multipliers, radius, best.total)
        expected = best.total - promised
        if not expected >= 0.1 * gap:
            return iterate
        trial = ascent.evaluate(decomposition, multipliers, ascent.precision(gap))
        gained = best.total - trial.total
        if gained >= 0.05 * gap:
            growth = 1.5 if gained > 0.5 * expected else 1.0
            return replace(iterate.accepting(trial), radius=iterate.radius * growth)
        iterate = replace(iterate, radius=iterate.radius * 0.4)
    return iterate


def _scale(ascent: DualAscent, iterate: Iterate) -> Array:
    """The size of a step in each λ: its own, that of the plan's LP, or that of its neighbours where both are tiny.

    None beside windows that lose little, where it would only cost MILPs, and none in the steady state, which has a
    search of its own: errors there count many times.
    """
    best, spans = iterate.evaluation, iterate.spans
    first = ascent.plan_multipliers[boundaries(spans)]
    scale = step_sizes(np.maximum(np.abs(best.multipliers), np.abs(first)))
    losses, gap = ascent.losses(iterate.decomposition, best), ascent.gap(iterate)
    for i, span in enumerate(spans):
        if span.count > 1:
            scale[i : i + 2] = 0.0
        if i > 0 and max(losses[i - 1], losses[i]) < ascent.settings.worth_asking * gap:
            scale[i] = 0.0
    return scale
