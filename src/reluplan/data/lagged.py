"""Columns of what variables were some steps ago, from consecutive rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import LaggedState, Transitions, follows_previous
from reluplan.errors import InputError
from reluplan.problem.lags import Lag

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def with_lagged_columns(transitions: Transitions, columns: Sequence[Lag]) -> Transitions:
    """The transitions with further actions, one for each column; rows without enough rows before them are left out.

    Rows belong together if they are consecutive steps of one episode, and the first leads to the state of the second.
    """
    if not columns:
        return transitions
    deepest = max(column.steps for column in columns)
    before = _rows_before(transitions, deepest)
    kept = np.flatnonzero(before[:, deepest] >= 0)
    if not len(kept):
        raise InputError(
            f"the network reads {columns[0].name}, but no row has {deepest} consecutive rows before it (same episode, "
            "steps that count up by one, each leading to the state of the next)"
        )
    values = {name: transitions.states[:, at] for at, name in enumerate(transitions.state_names)}
    values |= {name: transitions.actions[:, at] for at, name in enumerate(transitions.action_names)}
    lagged = np.column_stack([values[column.variable][before[kept, column.steps]] for column in columns])
    found = transitions.select(kept)
    first = len(transitions.action_names)
    left_out = {f"no {deepest} rows before": len(transitions) - len(kept)} if len(kept) < len(transitions) else {}
    return replace(
        found,
        action_names=(*transitions.action_names, *(column.name for column in columns)),
        actions=np.hstack([found.actions, lagged]),
        dropped={**transitions.dropped, **left_out},
        lagged_states=tuple(
            LaggedState(first + at, transitions.state_names.index(column.variable), column.steps)
            for at, column in enumerate(columns)
            if column.variable in transitions.state_names
        ),
    )


def _rows_before(transitions: Transitions, deepest: int) -> Index:
    """The rows 0, 1, ..., deepest steps before each row, (N, deepest + 1); −1 where there is none."""
    count = len(transitions)
    order = np.lexsort((transitions.step, transitions.episode))
    follows = follows_previous(transitions.select(order))[1:]
    previous = np.full(count + 1, -1)
    previous[order[1:][follows]] = order[:-1][follows]
    before = np.empty((count, deepest + 1), dtype=np.int64)
    before[:, 0] = np.arange(count)
    for steps in range(1, deepest + 1):
        before[:, steps] = previous[before[:, steps - 1]]
    return before
