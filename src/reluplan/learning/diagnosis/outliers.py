"""Crashes and resets: few rows that are unlike all others, and which no smooth dynamics explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import follows_previous
from reluplan.learning.diagnosis.residuals import Residuals
from reluplan.learning.settings import DiagnosisSettings

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Outliers:
    """rows: how many. error_share: of the squared error, theirs. at_ends: how many are the last of a run of steps.

    threshold: |s' − s| that tells them from the others, None if none does.
    """

    rows: int
    error_share: float
    at_ends: int
    threshold: float | None


def find_outliers(found: Residuals, settings: DiagnosisSettings) -> Outliers | None:
    """The rows whose change and whose error lie far out; None if there are none or too many, or they matter little.

    Where changes of every size are usual, a reset does not lie far out by its change: a very few rows whose errors do
    are enough.

    The robust score of v is |v − median| / (1.4826 · median |v − median|), which is about |v − mean| / deviation for
    normal numbers, and blind to what a few of them do.
    """
    missed = robust_score(found.missed) > settings.outlier_score
    is_very_few = missed.sum() <= max(1.0, settings.very_few * len(missed))
    far = missed if is_very_few else missed & (robust_score(found.change) > settings.outlier_score)
    total = float(np.sum(found.missed**2))
    if not 0 < far.sum() <= settings.most_outliers * len(far) or total == 0.0:
        return None
    share = float(np.sum(found.missed[far] ** 2)) / total
    if share < settings.outlier_share:
        return None
    return Outliers(int(far.sum()), share, int((far & _is_last(found)).sum()), _threshold(np.abs(found.change), far))


def robust_score(values: Array) -> Array:
    """How far each value lies from the median, in robust deviations."""
    distance = np.abs(values - np.median(values))
    deviation = 1.4826 * float(np.median(distance))
    return np.asarray(distance / max(deviation, 1e-9 * float(distance.max(initial=0.0)), 1e-300))


def _is_last(found: Residuals) -> Mask:
    """Whether the row that follows, if any, does not go on where this one ends."""
    return np.append(~follows_previous(found.transitions)[1:], True)


def _threshold(sizes: Array, far: Mask) -> float | None:
    """A number of few digits between the sizes of the others and of the outliers."""
    below, above = float(sizes[~far].max(initial=0.0)), float(sizes[far].min())
    middle = float(f"{(below + above) / 2.0:.2g}")
    return middle if below <= middle < above else None
