"""Move e: the window that loses most becomes one with a neighbour, and all others stay as they are.

    D_{i, i+1}(λ) <= D_i(λ) + γ^length D_{i+1}(λ)

whatever λ is, since the windows of both together are pairs that meet in the same state: nothing but the time for a
longer MILP can be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from reluplan.bounds.span import Span
from reluplan.proofs.lagrangian.iterate import DualAscent, Iterate


def merge_windows(ascent: DualAscent, iterate: Iterate) -> Iterate:
    """The first pair that proves more; those that prove less are not tried again."""
    best = iterate.evaluation
    for spans in list(_merged(ascent, iterate))[: ascent.settings.merges]:
        decomposition = ascent.cut_anew(iterate.decomposition, spans)
        longer = replace(iterate, decomposition=decomposition)
        found = ascent.evaluate(decomposition, longer.at_boundaries, ascent.precision(ascent.gap(iterate)))
        if found.total < best.total:
            return replace(
                longer, evaluation=found, is_searched=False, is_merged=True, radius=ascent.settings.bundle.after_growth
            )
        iterate = replace(iterate, refused=iterate.refused | {tuple(spans)})
    return iterate


def _merged(ascent: DualAscent, iterate: Iterate) -> Iterator[list[Span]]:
    """Partitions with one of the lossiest windows in one with a neighbour: the one with fewer unstable units first."""
    spans, gap = iterate.spans, ascent.gap(iterate)
    losses = ascent.losses(iterate.decomposition, iterate.evaluation)
    unstable = ascent.state.boxes.unstable.sum(axis=1)
    for i in np.argsort(-losses).tolist():
        if losses[i] < ascent.settings.worth_asking * gap:
            return
        neighbours = [j for j in (i - 1, i + 1) if 0 <= j < len(spans) and spans[i].count == spans[j].count == 1]
        for j in sorted(neighbours, key=lambda j: int(unstable[spans[j].first : spans[j].end].sum())):
            first, second = min(i, j), max(i, j)
            length = spans[first].length + spans[second].length
            merged = [*spans[:first], Span(spans[first].first, length), *spans[second + 1 :]]
            seconds = max(iterate.evaluation.windows[k].seconds for k in (first, second))
            is_short = length <= ascent.settings.partition.longest
            if is_short and tuple(merged) not in iterate.refused and ascent.allows(seconds):
                yield merged
