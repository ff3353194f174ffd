"""How far one-step predictions are off, in physical units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.learning.learning_data import LearningData
from reluplan.learning.predictor import Predictor

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StateError:
    """Errors of one predicted state on the held-out transitions, in its own unit.

    worst_row counts the transitions from 1, as they were read. R² is 1 − Σ error² / Σ (value − mean)², of the next
    state and of the change s' − s; the latter says whether the dynamics were learned. None if there is nothing to
    explain.
    """

    name: str
    rmse: float
    mae: float
    worst: float
    worst_row: int
    r2_next: float | None
    r2_change: float | None


def state_errors(predictor: Predictor, data: LearningData) -> tuple[StateError, ...]:
    """The errors of each predicted state on the test part."""
    test = data.transitions.select(data.split.test)
    before = test.states[:, data.output_columns]
    after = test.next_states[:, data.output_columns]
    errors = predictor.next_values(test.states, test.actions) - after
    rows = data.rows[data.split.test]
    return tuple(
        _state_error(test.state_names[column], error, value, value - previous, rows)
        for column, error, value, previous in zip(data.output_columns, errors.T, after.T, before.T, strict=True)
    )


def _state_error(name: str, error: Array, value: Array, change: Array, rows: NDArray[np.int64]) -> StateError:
    size = np.abs(error)
    return StateError(
        name=name,
        rmse=float(np.sqrt(np.mean(error**2))),
        mae=float(size.mean()),
        worst=float(size.max()),
        worst_row=int(rows[size.argmax()]) + 1,
        r2_next=_explained(error, value),
        r2_change=_explained(error, change),
    )


def _explained(error: Array, value: Array) -> float | None:
    """1 − Σ error² / Σ (value − mean)²."""
    total = np.sum((value - value.mean()) ** 2)
    return float(1.0 - np.sum(error**2) / total) if total > 1e-20 * np.sum(value**2) else None
