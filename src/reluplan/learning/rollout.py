"""How prediction errors grow when the network is fed its own predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions, follows_previous
from reluplan.learning.predictor import Predictor
from reluplan.learning.settings import RolloutSettings

Array = NDArray[np.float64]
DEFAULT = RolloutSettings()


@dataclass(frozen=True)
class RolloutError:
    """Errors after so many steps, over windows of held-out episodes; one number per predicted state."""

    steps: int
    windows: int
    rmse: tuple[float, ...]
    worst: tuple[float, ...]


@dataclass(frozen=True)
class Drift:
    """RMSE after 1, 2, ... steps, one row per step, one column per predicted state."""

    windows: int
    rmse: tuple[tuple[float, ...], ...]


def rollout_errors(
    predictor: Predictor, episodes: Transitions, rounded: NDArray[np.bool_], settings: RolloutSettings = DEFAULT
) -> tuple[RolloutError, ...]:
    """Errors after some numbers of steps, as far as the episodes go."""
    found = []
    for steps in settings.horizons:
        errors = roll_out(predictor, episodes, steps, rounded)[:, -1]
        if len(errors):
            rmse, worst = np.sqrt(np.mean(errors**2, axis=0)), np.abs(errors).max(axis=0)
            found.append(RolloutError(steps, len(errors), tuple(rmse.tolist()), tuple(worst.tolist())))
    return tuple(found)


def drift(predictor: Predictor, episodes: Transitions, steps: int, rounded: NDArray[np.bool_]) -> Drift:
    """The error of every step of windows of that length."""
    errors = roll_out(predictor, episodes, steps, rounded)
    return Drift(len(errors), tuple(tuple(row) for row in np.sqrt(np.mean(errors**2, axis=0)).tolist()))


def roll_out(predictor: Predictor, episodes: Transitions, steps: int, rounded: NDArray[np.bool_]) -> Array:
    """ŝ_{t+1} = f(ŝ_t, a_t) with ŝ_1 = s_1 and the data's actions; the errors ŝ − s, shape (windows, steps, k).

    What states were some steps ago is predicted too, as far as it lies in the window.

    Windows are disjoint runs of consecutive rows. States that the network does not predict are the data's;
    rounded: predicted states that take whole numbers.
    """
    rows = _windows(episodes, steps)[:, None] + np.arange(steps)
    errors = np.empty((*rows.shape, len(predictor.output_columns)))
    states = episodes.states[rows[:, 0]]
    passed = [states]
    with np.errstate(over="ignore", invalid="ignore"):  # what diverges shows as such in the report
        for t in range(steps):
            actions = episodes.actions[rows[:, t]]
            for lagged in episodes.lagged_states:
                if lagged.steps <= t:
                    actions[:, lagged.action] = passed[t - lagged.steps][:, lagged.state]
            predicted = predictor.next_values(states, actions)
            predicted = np.where(rounded, np.floor(predicted + 0.5), predicted)
            states = episodes.next_states[rows[:, t]].copy()
            errors[:, t] = predicted - states[:, predictor.output_columns]
            states[:, predictor.output_columns] = predicted
            passed.append(states)
    return errors


def _windows(episodes: Transitions, steps: int) -> NDArray[np.int64]:
    """First rows of disjoint windows: at places 0, steps, 2 steps, ... of each run that is long enough."""
    first = np.flatnonzero(~follows_previous(episodes))
    lengths = np.diff(np.append(first, len(episodes)))
    starts = [np.arange(start, start + length - steps + 1, steps) for start, length in zip(first, lengths, strict=True)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *starts])
