"""How far a bound is from a plan."""

from __future__ import annotations

import math


def absolute_gap(reward: float | None, bound: float | None) -> float | None:
    """bound − reward, None without a plan or a finite bound.

    >>> absolute_gap(-2.0, -1.5), absolute_gap(None, -1.5), absolute_gap(-2.0, math.inf)
    (0.5, None, None)
    """
    if reward is None or bound is None or math.isinf(bound):
        return None
    return max(0.0, bound - reward)


def relative_gap(reward: float | None, bound: float | None) -> float | None:
    """absolute_gap / max(1, |reward|)."""
    gap = absolute_gap(reward, bound)
    return None if gap is None or reward is None else gap / max(1.0, abs(reward))
