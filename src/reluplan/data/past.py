"""Which lags a system shows in its data: what the past explains that the present leaves open.

The change of a state is fitted by least squares on the states, actions and known inputs of the step, with squares of
each, in one half of the rows. A lag of one of them is suggested if, added to the columns, it explains a share of what
is left unexplained in the other half; the best one first, then again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.data.lagged import with_lagged_columns
from reluplan.data.transitions import Transitions
from reluplan.errors import InputError
from reluplan.problem.lags import Lag

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LagSettings:
    """longest: lag that is looked at. worthwhile: share of what is unexplained that a lag must explain in rows it was
    not fitted to. most: lags of one state's change. negligible: share of the variance that is left to noise.
    fewest_rows: for anything to be suggested."""

    longest: int = 3
    worthwhile: float = 0.1
    most: int = 4
    negligible: float = 1e-6
    fewest_rows: int = 60


@dataclass(frozen=True)
class SuggestedLag:
    """A lag that explains this share of what was unexplained of a state's change."""

    state: str
    lag: Lag
    share: float


def suggested_lags(transitions: Transitions, settings: LagSettings | None = None) -> tuple[SuggestedLag, ...]:
    """The lags that the change of each state asks for."""
    settings = settings or LagSettings()
    names = (*transitions.state_names, *transitions.action_names)
    columns = [Lag(name, k) for name in names for k in range(1, settings.longest + 1)]
    try:
        found = with_lagged_columns(transitions, columns)
    except InputError:
        return ()
    if len(found) < settings.fewest_rows:
        return ()
    own = len(transitions.action_names)
    present = np.hstack([found.states, found.actions[:, :own]])
    past = found.actions[:, own:]
    change = found.next_states - found.states
    lags: list[SuggestedLag] = []
    for at, state in enumerate(transitions.state_names):
        fits = _Fits(present, past, change[:, at], settings)
        lags += [SuggestedLag(state, columns[i], share) for i, share in fits.chosen()]
    return tuple(lags)


class _Fits:
    """Least-squares fits of one state's change: to every other block of rows, judged by the others."""

    def __init__(self, present: Array, past: Array, target: Array, settings: LagSettings) -> None:
        squares = present**2
        self._columns = np.hstack([np.ones((len(target), 1)), _scaled(present), _scaled(squares)])
        self._past = _scaled(past)
        self._target = target
        self._settings = settings
        self._fitted = (np.arange(len(target)) * 10 // len(target)) % 2 == 0

    def chosen(self) -> Iterator[tuple[int, float]]:
        """The number of each lag that pays, and the share that it explains."""
        taken: list[int] = []
        left = self._left(taken)
        total = float(np.var(self._target))
        while len(taken) < self._settings.most and left > self._settings.negligible * total:
            others = [i for i in range(self._past.shape[1]) if i not in taken]
            tried = [self._left([*taken, i]) for i in others]
            best = int(np.argmin(tried))
            share = 1.0 - tried[best] / left
            if not share >= self._settings.worthwhile:
                return
            taken.append(others[best])
            left = tried[best]
            yield others[best], share

    def _left(self, taken: list[int]) -> float:
        """The mean square that is left in the rows that were not fitted."""
        columns = np.hstack([self._columns, self._past[:, taken]])
        weights = np.linalg.lstsq(columns[self._fitted], self._target[self._fitted], rcond=None)[0]
        errors = self._target - columns @ weights
        return float(np.mean(errors[~self._fitted] ** 2))


def _scaled(columns: Array) -> Array:
    """Of mean zero and deviation one, or zero."""
    deviation = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0))
