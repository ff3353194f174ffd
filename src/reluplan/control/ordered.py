"""A simulator whose variables stand in the problem's order."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import step_vectors
from reluplan.simulators.base import Simulator
from reluplan.simulators.limits import ActionLimits, Box
from reluplan.simulators.matching import match_names

Array = NDArray[np.float64]


class OrderedSimulator:
    """Steps a simulator with actions in the problem's order, and returns states in it.

    Every variable of the problem must be one of the simulator's, which may have more: those actions keep their default.
    """

    def __init__(self, simulator: Simulator, problem: Problem) -> None:
        self._simulator, self._problem = simulator, problem
        states, actions = [v.name for v in problem.states], [v.name for v in problem.actions]
        self._states = match_names(simulator.state_names, states, "state", problem.source)
        self._actions = match_names(simulator.action_names, actions, "action", problem.source)
        box = Box(simulator.action_lower, simulator.action_upper, simulator.action_is_discrete)
        self._limits = ActionLimits(box, simulator.default_action, simulator.allows)
        self.horizon = simulator.horizon
        self._state = problem.initial_lower

    def reset(self, seed: int | None = None, start: Array | None = None) -> Array:
        """Begin an episode, in a given state if there is one; the simulator's further states keep their value."""
        state = np.array(self._simulator.reset(seed))
        if start is not None:
            if not self._simulator.can_set_state:
                raise InputError("this simulator cannot be put into a state: episodes begin where it lets them begin")
            state[self._states] = start
            self._simulator.set_state(state)
        self._state = state[self._states]
        return self._state

    def allowed(self, action: Array) -> Array:
        """The action itself, or one close to it that the present state allows.

        A plan may use a constraint's last digit (flow <= rlevel), which the true system does not forgive.
        """
        wanted = self._own_order(action)
        nearest = self._limits.nearest(wanted)
        return (wanted if nearest is None else nearest)[self._actions]

    def step(self, action: Array) -> tuple[Array, float, bool]:
        """Apply an action: (next state, reward, whether the episode is over).

        The reward is the simulator's own, or the problem's for this step if the simulator knows none.
        """
        before = self._state
        state, reward, over = self._simulator.step(self._own_order(action))
        self._state = state[self._states]
        return self._state, self._reward(before, action) if math.isnan(reward) else reward, over

    def _reward(self, state: Array, action: Array) -> float:
        states, auxiliaries = np.stack([state, self._state]), np.zeros((2, len(self._problem.auxiliaries)))
        return float(self._problem.reward.evaluate(step_vectors(states, action[None], auxiliaries))[0])

    def _own_order(self, action: Array) -> Array:
        own = self._simulator.default_action.copy()
        own[self._actions] = action
        return own
