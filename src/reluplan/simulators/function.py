"""A system given as a Python function step(state, action)."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.simulators.base import BoxedActions, require_no_instance
from reluplan.wording import did_you_mean

Array = NDArray[np.float64]


class FunctionSimulator(BoxedActions):
    """A function of the state and the action (arrays, in the order of STATES and ACTIONS of its module).

    The function returns the next state, or (next state, reward). Its module says STATES and ACTIONS, each a dict from
    name to (lower, upper), and INITIAL, a dict from name to the first value; HORIZON (steps) is optional.
    """

    can_set_state = True

    def __init__(self, spec: str, module: ModuleType, function: Callable[[Array, Array], Any]) -> None:
        self._spec = spec
        self._function = function
        self.state_names, self.state_lower, self.state_upper = _variables(spec, module, "STATES")
        self.action_names, self.action_lower, self.action_upper = _variables(spec, module, "ACTIONS")
        self.state_is_discrete = np.zeros(len(self.state_names), dtype=bool)
        self.action_is_discrete = np.zeros(len(self.action_names), dtype=bool)
        self.default_action = np.clip(np.zeros(len(self.action_names)), self.action_lower, self.action_upper)
        self.horizon = _horizon(spec, module)
        self._initial = _initial(spec, module, self.state_names)
        self._state = self._initial

    def reset(self, seed: int | None = None) -> Array:
        """The first state; the function is taken to be deterministic, so the seed changes nothing."""
        self._state = self._initial
        return self._state.copy()

    def step(self, action: Array) -> tuple[Array, float, bool]:
        self.require_allowed(action, self._spec)
        try:
            with np.errstate(all="ignore"):  # what is not finite is dealt with where it matters
                result = self._function(self._state.copy(), np.array(action, dtype=np.float64))
        except Exception as error:
            raise InputError(f"{self._spec}: the function failed: {type(error).__name__}: {error}") from error
        self._state, reward = self._parts(result)
        return self._state.copy(), reward, False

    def _parts(self, result: Any) -> tuple[Array, float]:
        """(next state, reward), the reward NaN if the function returns none."""
        reward = math.nan
        try:
            if isinstance(result, tuple) and len(result) == 2 and np.ndim(result[0]) > 0:
                result, reward = result[0], float(result[1])
            state = np.array(result, dtype=np.float64)
        except (TypeError, ValueError):
            state = np.empty(0)
        if state.shape != (len(self.state_names),):
            count = len(self.state_names)
            raise InputError(f"{self._spec}: the function must return {count} numbers, one per state; got {result!r}")
        return state, reward

    def set_state(self, state: Array) -> None:
        self._state = np.array(state, dtype=np.float64)

    def close(self) -> None:
        """Nothing is held."""


def open_function(spec: str, instance: str | None = None) -> FunctionSimulator:
    """The simulator of `file.py:function` or `package.module:function`.

    The file or package is executed, with the user's rights and without confinement: for trusted code only.
    """
    require_no_instance(spec, instance)
    place, _, name = spec.rpartition(":")
    if not place or not name:
        raise InputError(f"simulator '{spec}': expected file.py:function or package.module:function")
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(spec, place)
    function = getattr(module, name, None)
    if not callable(function):
        hint = did_you_mean(name, [key for key, value in vars(module).items() if callable(value)], "it has")
        raise InputError(f"{place}: has no function '{name}' ({hint})")
    return FunctionSimulator(spec, module, function)


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"{path}: no such Python file")
    module_spec = importlib.util.spec_from_file_location(f"reluplan_simulator_{path.stem}", path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    _import_from(path.parent)  # modules beside the file are its to use
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path}: cannot be run: {type(error).__name__}: {error}") from error
    return module


def _load_module(spec: str, name: str) -> ModuleType:
    _import_from(Path.cwd())  # as `python -m` does
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"simulator '{spec}': the module '{name}' cannot be imported: {error}") from None


def _import_from(folder: Path) -> None:
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))


def _variables(spec: str, module: ModuleType, key: str) -> tuple[tuple[str, ...], Array, Array]:
    """Names and bounds of STATES or ACTIONS."""
    table = getattr(module, key, None)
    example = f'{key} = {{"level": (0, 10)}}'
    if not isinstance(table, Mapping) or not table:
        raise InputError(f"{spec}: its module must say {example}, with one (lower, upper) per variable")
    try:
        bounds = np.array([[float(side) for side in pair] for pair in table.values()])
    except (TypeError, ValueError):
        bounds = np.empty((0, 0))
    if bounds.shape != (len(table), 2) or not (bounds[:, 0] <= bounds[:, 1]).all():
        raise InputError(f"{spec}: {key} is {table!r}; expected a lower and an upper bound each, as in {example}")
    return tuple(str(name) for name in table), bounds[:, 0], bounds[:, 1]


def _initial(spec: str, module: ModuleType, names: tuple[str, ...]) -> Array:
    table = getattr(module, "INITIAL", None)
    if not isinstance(table, Mapping) or set(table) != set(names):
        raise InputError(f"{spec}: its module must say INITIAL, a dict with a first value for each of {list(names)}")
    try:
        return np.array([float(table[name]) for name in names])
    except (TypeError, ValueError):
        raise InputError(f"{spec}: INITIAL is {table!r}; expected a number for each state") from None


def _horizon(spec: str, module: ModuleType) -> int | None:
    horizon = getattr(module, "HORIZON", None)
    if horizon is not None and (isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1):
        raise InputError(f"{spec}: HORIZON is {horizon!r}; expected a whole number of steps, 1 or more")
    return horizon
