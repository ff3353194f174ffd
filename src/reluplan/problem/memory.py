"""What a problem's lags hold while a system runs: observed states completed by what was before."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.problem import Problem

Array = NDArray[np.float64]


def with_lags(problem: Problem, states: Array, actions: Array) -> Array:
    """Observed states (T, declared ones) with what was before behind each, (T, n); actions: those between them."""
    memory = Memory(problem)
    later = (memory.after(action, state) for action, state in zip(actions, states[1:], strict=False))
    return np.array([memory.begin(states[0]), *later])


class Memory:
    """States as they are observed, with the ones that hold the past behind them.

    Before the first step the past is what the problem says of it.
    """

    def __init__(self, problem: Problem) -> None:
        self._own = len(problem.own_states)
        self._first = problem.initial_lower[self._own :]
        names = [variable.name for variable in (*problem.states, *problem.actions)]
        self._sources = np.array([names.index(lag.source) for lag in problem.lags], dtype=np.int64)
        self._state = np.empty(0)

    def begin(self, state: Array) -> Array:
        """The first state: observed, or complete already."""
        own, past = state[: self._own], state[self._own :]
        self._state = np.concatenate([own, past if len(past) else self._first])
        return self._state

    def after(self, action: Array, state: Array) -> Array:
        """The state that was observed after an action."""
        self._state = np.concatenate([state[: self._own], np.concatenate([self._state, action])[self._sources]])
        return self._state
