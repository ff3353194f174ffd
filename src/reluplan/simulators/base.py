"""What a simulator of the true system offers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Simulator(Protocol):
    """A system that is stepped: s' and the reward of (s, a, s'), in physical units.

    Bounds have one entry per variable, infinite where there is none.
    """

    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    state_lower: Array
    state_upper: Array
    action_lower: Array
    action_upper: Array
    horizon: int | None

    def reset(self, seed: int | None = None) -> Array:
        """Start an episode; returns its first state."""
        ...

    def step(self, action: Array) -> tuple[Array, float, bool]:
        """Apply an action: (next state, reward, whether the episode is over)."""
        ...

    @property
    def can_set_state(self) -> bool:
        """Whether `set_state` works."""
        ...

    def set_state(self, state: Array) -> None:
        """Put the running episode into this state."""
        ...

    def close(self) -> None:
        """Release what the simulator holds."""
        ...
