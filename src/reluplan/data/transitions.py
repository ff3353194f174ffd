"""Transitions (s, a, s') of a system, the data that dynamics are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Transitions:
    """N transitions: states (N, n), actions (N, m), next_states (N, n), and where each comes from.

    episode and step (N,): rows of one episode with consecutive steps belong together (s' of one is s of the next).
    """

    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    episode: Index
    step: Index
    states: Array
    actions: Array
    next_states: Array

    def __len__(self) -> int:
        return len(self.states)

    def select(self, rows: Index | NDArray[np.bool_]) -> Transitions:
        """Some of the transitions, by index or mask."""
        return Transitions(
            self.state_names, self.action_names, self.episode[rows], self.step[rows],
            self.states[rows], self.actions[rows], self.next_states[rows],
        )  # fmt: skip


def concatenate(parts: Sequence[Transitions]) -> Transitions:
    """All transitions of several sources with the same variables; episodes of different sources stay apart.

    Episodes of a later source are numbered on from the highest number so far.
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
    )
