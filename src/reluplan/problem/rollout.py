"""Rolling out actions in the learned dynamics: what a plan is really worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.problem import Problem

Array = NDArray[np.float64]
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """States (H+1, n), actions (H, m), auxiliaries (H+1, k) and rewards (H,) of a plan that was rolled out."""

    states: Array
    actions: Array
    auxiliaries: Array
    rewards: Array

    @property
    def horizon(self) -> int:
        return len(self.actions)

    @property
    def total_reward(self) -> float:
        return float(np.sum(self.rewards))


def rollout(problem: Problem, initial_state: Array, actions: Array, auxiliaries: Array | None = None) -> Trajectory:
    """The trajectory s_{t+1} = T(s_t, a_t, x_t) in float64, and R(s_t, a_t, x_t, s_{t+1}, x_{t+1}) of each step.

    Auxiliaries are part of the plan (shape (H+1, k)); zeros if not given.
    """
    horizon = len(actions)
    if auxiliaries is None:
        auxiliaries = np.zeros((horizon + 1, len(problem.auxiliaries)))
    states = np.empty((horizon + 1, len(problem.states)))
    states[0] = initial_state
    with np.errstate(over="ignore", invalid="ignore"):  # what diverges is found by the check, not by warnings
        for t in range(horizon):
            inputs = np.concatenate([states[t], actions[t], auxiliaries[t]])
            states[t + 1] = problem.next_states(inputs)
        rewards = problem.reward.evaluate(step_vectors(states, actions, auxiliaries))
    return Trajectory(states, actions, auxiliaries, rewards)


simulate = rollout
"""The public name."""


def step_vectors(states: NDArray[Scalar], actions: NDArray[Scalar], auxiliaries: NDArray[Scalar]) -> NDArray[Scalar]:
    """w_t = (s_t, a_t, x_t, s_{t+1}, x_{t+1}) for t = 1..H, shape (H, width); of values, bounds or columns alike."""
    return np.hstack([states[:-1], actions, auxiliaries[:-1], states[1:], auxiliaries[1:]])


def state_vector(problem: Problem, states: Array, auxiliaries: Array) -> Array:
    """One state and its auxiliaries where initial and goal rows read them, zeros elsewhere, shape (1, width)."""
    w = np.zeros((1, problem.layout.width))
    w[:, problem.layout.states] = states
    w[:, problem.layout.auxiliaries] = auxiliaries
    return w
