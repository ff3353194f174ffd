"""Move b: the same multipliers, with more exact bounds of windows that lose no more than their MILPs left open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reluplan.proofs.lagrangian.iterate import DualAscent, Iterate


def ask_again(ascent: DualAscent, iterate: Iterate) -> Iterate:
    """If there are such windows, and it helps."""
    gap, settings = ascent.gap(iterate), ascent.settings
    best, decomposition = iterate.evaluation, iterate.decomposition
    losses = ascent.losses(decomposition, best)
    doubts = decomposition.weights * [window.doubt if window.closed else 0.0 for window in best.windows]
    asked = (losses >= settings.worth_asking * gap) & (doubts > settings.doubtful * losses)
    again = np.flatnonzero(asked).tolist()
    if not again:
        return iterate
    found = ascent.evaluate(decomposition, best.multipliers, ascent.precision(gap), again)
    return replace(iterate, evaluation=found) if found.total < best.total else iterate
