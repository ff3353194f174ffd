"""Transitions (s, a, s') of a system, the data that dynamics are learned from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
