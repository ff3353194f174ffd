"""What a simulator of the true system offers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Simulator(Protocol):
    """A system that is stepped: s' and the reward of (s, a, s'), in physical units.

    Bounds have one entry per variable, infinite where there is none; `state_is_discrete` and `action_is_discrete` mark
    variables that take whole numbers (or 0 and 1) only; `default_action` is what "do nothing" means.
    """

    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    state_lower: Array
    state_upper: Array
    action_lower: Array
    action_upper: Array
    state_is_discrete: Mask
    action_is_discrete: Mask
    default_action: Array
    horizon: int | None

    def reset(self, seed: int | None = None) -> Array:
        """Start an episode; returns its first state."""
        ...

    def allows(self, action: Array) -> bool:
        """Whether the present state allows an action."""
        ...

    def refusal(self, action: Array) -> str | None:
        """Why the present state does not allow an action; None if it does."""
        ...

    def step(self, action: Array) -> tuple[Array, float, bool]:
        """Apply an action: (next state, reward, whether the episode is over); NaN for a reward that is not known.

        An action that is refused raises an InputError that says why.
        """
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


class BoxedActions:
    """For simulators that refuse an action only if it lies outside their bounds."""

    action_names: tuple[str, ...]
    action_lower: Array
    action_upper: Array

    def allows(self, action: Array) -> bool:
        return bool(((self.action_lower <= action) & (action <= self.action_upper)).all())

    def refusal(self, action: Array) -> str | None:
        for name, value, low, high in zip(self.action_names, action, self.action_lower, self.action_upper, strict=True):
            if not low <= value <= high:
                return f"{name} = {value:g} lies outside [{low:g}, {high:g}]"
        return None

    def require_allowed(self, action: Array, source: str) -> None:
        """Complain about an action that is refused."""
        refused = self.refusal(action)
        if refused is not None:
            raise InputError(f"{source}: the action is refused: {refused}")


def require_no_instance(spec: str, instance: str | None) -> None:
    """Complain about an instance of what has none."""
    if instance is not None:
        raise InputError(f"simulator '{spec}': only RDDL domains have instances; leave out '{instance}'")
