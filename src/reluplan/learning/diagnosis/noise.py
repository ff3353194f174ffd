"""What no function of the inputs can explain: rows that are alike and yet change differently."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from reluplan.data.transitions import follows_previous
from reluplan.learning.diagnosis.residuals import Residuals
from reluplan.learning.settings import DiagnosisSettings

Array = NDArray[np.float64]


def noise_variance(inputs: Array, values: Array, settings: DiagnosisSettings) -> float | None:
    """The part Γ of the variance of `values` (N,) that is no continuous function of `inputs` (N, n); None if rows are
    too far apart to tell.

    The Gamma test: with δ_k the mean squared distance to the k-th nearest row and γ_k half of the mean squared
    difference of the values there, γ ≈ Γ + A δ for small δ; Γ is where the line through k = 1, ..., p meets δ = 0. A
    function that is wavy between the rows makes the line too flat: a large Γ is told only if γ_1 is hardly more.
    """
    count = min(settings.neighbours, len(inputs) - 1)
    if count < 2:
        return None
    rows = np.random.default_rng(0).permutation(len(inputs))[: settings.most_rows]
    tree = KDTree(inputs[rows])
    distances, nearest = tree.query(inputs[rows], k=count + 1)
    delta = np.mean(distances[:, 1:] ** 2, axis=0)
    if delta[0] > settings.nearness * 2.0 * float(inputs.var(axis=0).sum()):
        return None
    gamma = np.mean((values[rows][nearest[:, 1:]] - values[rows][:, None]) ** 2, axis=0) / 2.0
    if np.ptp(delta) <= 1e-12 * max(float(delta.max()), 1e-300):
        return float(gamma.mean())
    slope = max(0.0, float(np.polyfit(delta, gamma, 1)[0]))
    noise = max(0.0, float(np.mean(gamma - slope * delta)))
    uncertain = settings.noticeable * float(values.var()) < noise < settings.credible * gamma[0]
    return None if uncertain else noise


def irreducible_share(found: Residuals, settings: DiagnosisSettings) -> float | None:
    """Γ of the change, less its linear part, over what the network misses on held-out rows; None if none can tell."""
    features = np.hstack([found.inputs, np.ones((len(found.inputs), 1))])
    rest = found.change - features @ np.linalg.lstsq(features, found.change, rcond=None)[0]
    variance = noise_variance(found.inputs, rest, settings)
    missed = float(np.mean(found.missed[found.held_out] ** 2))
    return None if variance is None or missed == 0.0 else variance / missed


def memory(found: Residuals) -> float:
    """The correlation of what is missed in one step with what is missed in the next, on held-out rows."""
    after = np.flatnonzero(follows_previous(found.transitions) & found.held_out)
    after = after[found.held_out[after - 1]]
    now, before = found.missed[after], found.missed[after - 1]
    if len(after) < 3 or now.std() == 0.0 or before.std() == 0.0:
        return 0.0
    return float(np.corrcoef(now, before)[0, 1])
