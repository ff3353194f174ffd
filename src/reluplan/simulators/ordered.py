"""A simulator whose variables stand in the problem's order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.problem.memory import Memory
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import final_rewards, step_vectors
from reluplan.problem.series import table
from reluplan.simulators.base import Simulator
from reluplan.simulators.limits import ActionLimits, Box
from reluplan.simulators.matching import match_names

Array = NDArray[np.float64]


class OrderedSimulator:
    """Steps a simulator with actions in the problem's order, and returns states in it.

    Every variable of the problem must be one of the simulator's, which may have more: those actions keep their default.
    It remembers what was before, where the problem has lags, and at which step the episode is, where it has series.
    """

    def __init__(self, simulator: Simulator, problem: Problem) -> None:
        states = [variable.name for variable in problem.own_states]
        actions = [variable.name for variable in problem.actions]
        box = Box(simulator.action_lower, simulator.action_upper, simulator.action_is_discrete)
        self._simulator = simulator
        self._problem = problem
        self._states = match_names(simulator.state_names, states, "state", problem.source)
        self._actions = match_names(simulator.action_names, actions, "action", problem.source)
        self._limits = ActionLimits(box, simulator.default_action, simulator.allows)
        self._default = np.clip(simulator.default_action, box.lower, box.upper)
        self._memory = Memory(problem)
        self._steps = 0

    @property
    def horizon(self) -> int | None:
        """Steps of an episode, None if the simulator names none."""
        return self._simulator.horizon

    @property
    def can_set_state(self) -> bool:
        """Whether an episode may begin in a given state."""
        return self._simulator.can_set_state

    def reset(self, seed: int | None = None, start: Array | None = None) -> Array:
        """Begin an episode, in a given state if there is one; the simulator's further states keep their value."""
        state = np.array(self._simulator.reset(seed))
        own, self._steps = len(self._states), 0
        if start is not None:
            if not self.can_set_state:
                raise InputError("this simulator cannot be put into a state: episodes begin where it lets them begin")
            state[self._states] = start[:own]
            self._simulator.set_state(state)
        past = np.empty(0) if start is None else start[own:]
        return self._memory.begin(np.concatenate([state[self._states], past]))

    def allowed(self, action: Array) -> Array | None:
        """The action itself if the present state allows it, else one close to it; None if none is found.

        A plan may use a constraint's last digit (flow <= rlevel), which the true system does not forgive.
        """
        own = self._own_order(action)
        nearest = own if self._simulator.allows(own) else self._limits.nearest(own)
        return None if nearest is None else nearest[self._actions]

    def refusal(self, action: Array) -> str | None:
        """Why the present state does not allow an action; None if it does."""
        return self._simulator.refusal(self._own_order(action))

    def step(self, action: Array) -> tuple[Array, float, bool]:
        """Apply an action: (next state, the simulator's own reward, whether the episode is over).

        The reward is NaN if the simulator knows none.
        """
        state, reward, over = self._simulator.step(self._own_order(action))
        self._steps += 1
        return self._memory.after(action, state[self._states]), reward, over

    def problem_reward(self, state: Array, action: Array, next_state: Array) -> float:
        """What the problem pays for the step that the true system has just made."""
        states = np.stack([state, next_state])
        auxiliaries = self._auxiliaries(max(0, self._steps - 1), 2)
        return float(self._problem.reward.evaluate(step_vectors(states, action[None], auxiliaries))[0])

    @property
    def discount(self) -> float:
        """The problem's."""
        return self._problem.discount

    def final_reward(self, state: Array) -> float:
        """What the problem pays for the last state of the true system."""
        return float(final_rewards(self._problem, state[None], self._auxiliaries(self._steps, 1))[0])

    def _auxiliaries(self, first: int, count: int) -> Array:
        """What series are from a step on; others are zero."""
        values = np.zeros((count, len(self._problem.auxiliaries)))
        values[:, self._problem.series_columns] = table(self._problem.series, self._problem.first_step + first, count)
        return values

    def _own_order(self, action: Array) -> Array:
        own = self._default.copy()
        own[self._actions] = action
        return own
