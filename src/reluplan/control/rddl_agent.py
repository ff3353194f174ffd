"""The controller as a pyRDDLGym agent, for pyRDDLGym's own evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from reluplan.control.controller import Controller
from reluplan.data.names import GROUND_SEPARATOR, OBJECT_SEPARATOR, bracket_name
from reluplan.errors import InputError, MissingExtraError

try:
    from pyRDDLGym.core.policy import BaseAgent
except ImportError:
    raise MissingExtraError("pyRDDLGym", "rddl", "An RDDL agent") from None


class ControllerAgent(BaseAgent):  # type: ignore[misc]  # pyRDDLGym has no types
    """Feeds a controller with a (not vectorized) RDDL environment's states: `ControllerAgent(c).evaluate(env)`."""

    use_tensor_obs = False

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self._actions = [ground_name(v.name) for v in controller.problem.actions]

    def sample_action(self, state: dict[str, Any]) -> dict[str, float]:
        """The action for a state, both as pyRDDLGym names and stores them."""
        seen = {bracket_name(name): value for name, value in state.items()}
        missing = [v.name for v in self.controller.problem.own_states if v.name not in seen]
        if missing:
            raise InputError(f"the environment does not show {', '.join(missing)}; it shows {', '.join(seen)}")
        values = np.array([float(seen[v.name]) for v in self.controller.problem.own_states])
        return dict(zip(self._actions, self.controller.policy(values).tolist(), strict=True))

    def reset(self) -> None:
        """Begin another episode."""
        self.controller.reset()


def ground_name(name: str) -> str:
    """The name of a variable as pyRDDLGym writes it.

    >>> ground_name("rlevel[t1]"), ground_name("link[a,b]"), ground_name("speed")
    ('rlevel___t1', 'link___a__b', 'speed')
    """
    base, bracket, objects = name.removesuffix("]").partition("[")
    return base + GROUND_SEPARATOR + objects.replace(",", OBJECT_SEPARATOR) if bracket else name
