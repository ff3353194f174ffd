"""Transitions (s, a, s') of a system, the data that dynamics are learned from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class LaggedState:
    """An action's column that holds what a state's column was some steps ago."""

    action: int
    state: int
    steps: int


@dataclass(frozen=True, eq=False)
class Transitions:
    """N transitions: states (N, n), actions (N, m), next_states (N, n), and where each comes from.

    episode and step (N,): rows of one episode with consecutive steps belong together (s' of one is s of the next).
    extras: further columns by name, each (N,), such as the simulator's reward; nothing is learned from them.
    dropped: how many rows of the data each condition has left out, by its text.
    lagged_states: columns of actions that follow from earlier states.
    """

    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    episode: Index
    step: Index
    states: Array
    actions: Array
    next_states: Array
    extras: Mapping[str, Array] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    lagged_states: tuple[LaggedState, ...] = ()

    def __len__(self) -> int:
        return len(self.states)

    def select(self, rows: Index | NDArray[np.bool_]) -> Transitions:
        """Some of the transitions, by index or mask."""
        return Transitions(
            self.state_names, self.action_names, self.episode[rows], self.step[rows],
            self.states[rows], self.actions[rows], self.next_states[rows],
            {name: values[rows] for name, values in self.extras.items()}, self.dropped, self.lagged_states,
        )  # fmt: skip


def concatenate(parts: Sequence[Transitions]) -> Transitions:
    """All transitions of several sources with the same variables; episodes of different sources stay apart.

    Episodes of a later source are numbered on from the highest number so far; extras that a source lacks are left out.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    episodes = []
    offset = 0
    for part in parts:
        if (part.state_names, part.action_names) != (first.state_names, first.action_names):
            raise InputError("transitions of different variables cannot be put together")
        shift = offset - int(part.episode.min(initial=0)) if offset else 0
        episodes.append(part.episode + shift)
        offset = int(episodes[-1].max(initial=offset - 1)) + 1
    return Transitions(
        first.state_names,
        first.action_names,
        np.concatenate(episodes),
        np.concatenate([part.step for part in parts]),
        np.concatenate([part.states for part in parts]),
        np.concatenate([part.actions for part in parts]),
        np.concatenate([part.next_states for part in parts]),
        {name: np.concatenate([part.extras[name] for part in parts]) for name in _common_extras(parts)},
        {text: sum(part.dropped.get(text, 0) for part in parts) for part in parts for text in part.dropped},
    )


def follows_previous(transitions: Transitions) -> NDArray[np.bool_]:
    """Whether each row goes on where the row before it ended, shape (N,)."""
    follows = np.zeros(len(transitions), dtype=bool)
    follows[1:] = (
        (np.diff(transitions.episode) == 0)
        & (np.diff(transitions.step) == 1)
        & np.isclose(transitions.states[1:], transitions.next_states[:-1], rtol=1e-6, atol=1e-9).all(axis=1)
    )
    return follows


def _common_extras(parts: Sequence[Transitions]) -> list[str]:
    return [name for name in parts[0].extras if all(name in part.extras for part in parts)]
