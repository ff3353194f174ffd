"""Gymnasium environments with vector observations and vector or discrete actions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError, MissingExtraError
from reluplan.simulators.base import BoxedActions, require_no_instance

Array = NDArray[np.float64]


class GymnasiumSimulator(BoxedActions):
    """An environment; states are obs[0], obs[1], ..., actions are action[0], ....

    Its own limit on the number of steps is told as the horizon, not enforced. The state can be set where the
    environment keeps it, under the name `state`, in the form in which it shows it.
    """

    def __init__(self, name: str, environment: Any, horizon: int | None) -> None:
        self._name = name
        self._environment = environment
        self.horizon = horizon
        observation = environment.observation_space
        action = environment.action_space
        self._choices = int(action.n) if _kind(action) == "Discrete" else 0
        self._require_vectors(observation, action)
        self.state_names = tuple(f"obs[{i}]" for i in range(observation.shape[0]))
        self.state_lower, self.state_upper = _box(observation)
        self.state_is_discrete = np.full(len(self.state_names), observation.dtype.kind not in "f")
        if self._choices:
            first = int(action.start)
            self.action_lower = np.array([float(first)])
            self.action_upper = np.array([first + self._choices - 1.0])
        else:
            self.action_lower, self.action_upper = _box(action)
        self.action_names = tuple(f"action[{i}]" for i in range(len(self.action_lower)))
        self.action_is_discrete = np.full(len(self.action_names), self._choices > 0 or action.dtype.kind not in "f")
        self.default_action = np.clip(np.zeros(len(self.action_names)), self.action_lower, self.action_upper)
        self.can_set_state = self._shows_its_state(self.reset(0))

    def _require_vectors(self, observation: Any, action: Any) -> None:
        if _kind(observation) != "Box" or len(observation.shape) != 1:
            raise InputError(f"gym:{self._name}: observations are {observation}; only vectors (Box) can be learned")
        if not self._choices and (_kind(action) != "Box" or len(action.shape) != 1):
            raise InputError(f"gym:{self._name}: actions are {action}; only vectors (Box) and Discrete can be planned")

    def _shows_its_state(self, observation: Array) -> bool:
        state = getattr(self._environment.unwrapped, "state", None)
        if state is None or np.shape(state) != observation.shape:
            return False
        return bool(np.allclose(np.asarray(state, dtype=np.float64), observation, rtol=1e-6, atol=1e-6))

    def reset(self, seed: int | None = None) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            observation, _ = self._environment.reset(seed=seed)
        return np.asarray(observation, dtype=np.float64)

    def step(self, action: Array) -> tuple[Array, float, bool]:
        self.require_allowed(action, f"gym:{self._name}")
        given = round(action[0]) if self._choices else np.asarray(action, self._environment.action_space.dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            observation, reward, terminated, truncated, _ = self._environment.step(given)
        return np.asarray(observation, dtype=np.float64), float(reward), bool(terminated or truncated)

    def set_state(self, state: Array) -> None:
        if not self.can_set_state:
            raise InputError(f"gym:{self._name}: this environment cannot be put into a chosen state")
        self._environment.unwrapped.state = np.array(state, dtype=np.float64)

    def close(self) -> None:
        self._environment.close()


def open_gymnasium(name: str, instance: str | None = None) -> GymnasiumSimulator:
    """The registered environment of that name, without its limit on steps."""
    require_no_instance(f"gym:{name}", instance)
    try:
        import gymnasium
    except ImportError:
        raise MissingExtraError("gymnasium", "gym", "A gymnasium simulator") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            horizon = gymnasium.spec(name).max_episode_steps
            environment = gymnasium.make(name, max_episode_steps=-1, disable_env_checker=True)
    except Exception as error:  # unknown names, missing packages, faults of the environment itself
        raise InputError(f"gym:{name}: gymnasium cannot make it: {' '.join(str(error).split())}") from None
    return GymnasiumSimulator(name, environment, horizon)


def _kind(space: Any) -> str:
    return type(space).__name__


def _box(space: Any) -> tuple[Array, Array]:
    """Bounds of a Box; the largest float32 stands for no bound."""
    largest = float(np.finfo(np.float32).max)
    lower, upper = space.low.astype(np.float64), space.high.astype(np.float64)
    return np.where(lower <= -largest, -np.inf, lower), np.where(upper >= largest, np.inf, upper)
