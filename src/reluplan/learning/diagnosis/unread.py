"""Missing inputs: columns that the network does not read, but that explain what it misses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions
from reluplan.learning.diagnosis.residuals import Residuals

Array = NDArray[np.float64]
BINS = 10
FOLDS = 5
CONSEQUENCES = frozenset({"reward", "simulator_reward", "done", "terminated", "truncated", "terminal", "timestamp"})
"""Columns that follow from a step, or that only count: they explain nothing that could be known before it."""


def most_telling(found: Residuals, input_names: tuple[str, ...]) -> tuple[str, float] | None:
    """The unread column that explains most of what the network misses, and the share of it that it explains."""
    shares = {
        name: explained_share(column, found)
        for name, column in unread_columns(found.transitions, input_names).items()
        if np.isfinite(column).all() and np.ptp(column) > 0.0
    }
    return max(shares.items(), key=lambda item: item[1]) if shares else None


def unread_columns(transitions: Transitions, input_names: tuple[str, ...]) -> dict[str, Array]:
    """States, actions, other columns and the step, as far as the network does not read them."""
    states = dict(zip(transitions.state_names, transitions.states.T, strict=True))
    actions = dict(zip(transitions.action_names, transitions.actions.T, strict=True))
    extras = {name: column for name, column in transitions.extras.items() if name.casefold() not in CONSEQUENCES}
    columns = {"step": transitions.step.astype(np.float64), **extras, **states, **actions}
    return {name: column for name, column in columns.items() if name not in input_names}


def explained_share(column: Array, found: Residuals) -> float:
    """1 − Σ (e − ê)² / Σ (e − ē)²; ê and the mean ē of a row come from other episodes, in the better of two ways.

    Either ê is constant in each of ten quantiles of the column, or least squares on the column, its square, and its
    products with the inputs: an unread wind may act through the speed. The rows of an episode are left out together,
    since a column that is constant in each of few episodes explains these too easily.
    """
    edges = np.unique(np.quantile(column, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))
    steps = np.eye(BINS)[np.searchsorted(edges, column)]
    scaled = ((column - column.mean()) / column.std())[:, None]
    one = np.ones_like(scaled)
    products = np.hstack([scaled, scaled**2, scaled * found.inputs, one])
    folds = _folds(found.transitions)
    total = max(_left(one, found.missed, folds), 1e-300)
    return 1.0 - min(_left(steps, found.missed, folds), _left(products, found.missed, folds)) / total


def _folds(transitions: Transitions) -> NDArray[np.int64]:
    """The part 0, ..., 4 of each row: whole episodes at random or, of fewer than five, runs of rows."""
    names, episode = np.unique(transitions.episode, return_inverse=True)
    if len(names) < FOLDS:
        return np.arange(len(transitions)) * FOLDS // len(transitions)
    return np.asarray(np.random.default_rng(0).permutation(len(names))[episode] % FOLDS)


def _left(features: Array, values: Array, folds: NDArray[np.int64]) -> float:
    """The squared error of least squares, each part of the rows judged by a fit to the others."""
    left = 0.0
    for fold in range(FOLDS):
        out = folds == fold
        fitted = np.linalg.lstsq(features[~out], values[~out], rcond=None)[0]
        left += float(np.sum((values[out] - features[out] @ fitted) ** 2))
    return left
