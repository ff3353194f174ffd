"""Move g: the same multipliers with longer windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from reluplan.bounds.span import Span
from reluplan.proofs.lagrangian.iterate import DualAscent, Iterate
from reluplan.proofs.lagrangian.settings import WindowBudget


def grow_windows(ascent: DualAscent, iterate: Iterate) -> Iterate:
    """The first larger budget that proves more; partitions that prove less are not tried again."""
    best = iterate.evaluation
    for budget in _larger_budgets(ascent, iterate):
        spans = ascent.partition(budget)
        if tuple(spans) in iterate.refused or not _is_affordable(ascent, iterate, spans):
            continue
        decomposition = ascent.cut_anew(iterate.decomposition, spans)
        longer = replace(iterate, decomposition=decomposition)
        precision = ascent.precision(ascent.gap(iterate))
        found = ascent.evaluate(decomposition, longer.at_boundaries, precision)
        if found.total < best.total:
            return replace(
                longer,
                evaluation=found,
                budget=budget,
                radius=ascent.settings.bundle.after_growth,
                is_searched=False,
                is_merged=False,
            )
        iterate = replace(iterate, refused=iterate.refused | {tuple(spans)})
    return iterate


def _larger_budgets(ascent: DualAscent, iterate: Iterate) -> list[WindowBudget]:
    """The budget of now, which may do more than before with smaller boxes, then more where more is lost."""
    is_steady = np.array([span.count > 1 for span in iterate.spans])
    losses = ascent.losses(iterate.decomposition, iterate.evaluation)
    longer = [_enlarged(ascent, iterate, "steady"), _enlarged(ascent, iterate, "moving")]
    steady_first = losses[is_steady].sum() > losses[~is_steady].sum()
    return [iterate.budget, *(longer if steady_first else longer[::-1])]


def _enlarged(ascent: DualAscent, iterate: Iterate, kind: Literal["steady", "moving"]) -> WindowBudget:
    """Twice the units for windows of one kind, and again until it changes something."""
    budget = iterate.budget
    for _ in range(ascent.settings.partition.most_doublings):
        budget = replace(budget, **{kind: 2 * getattr(budget, kind)})
        if ascent.partition(budget) != iterate.spans:
            break
    return budget


def _is_affordable(ascent: DualAscent, iterate: Iterate, spans: list[Span]) -> bool:
    """Whether the windows differ, and the MILPs of those that they replace were quick."""
    replaced = [i for i, span in enumerate(iterate.spans) if span not in spans]
    return bool(replaced) and ascent.allows(max(iterate.evaluation.windows[i].seconds for i in replaced))
