"""Rolling out actions in the learned dynamics: what a plan is really worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.discounting import present_value
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """States (H+1, n), actions (H, m), auxiliaries (H+1, k) and rewards (H,) of a plan that was rolled out, and the
    reward of its final state; rewards are those of their steps, before discounting."""

    states: Array
    actions: Array
    auxiliaries: Array
    rewards: Array
    final_reward: float = 0.0
    discount: float = 1.0

    @property
    def horizon(self) -> int:
        return len(self.actions)

    @property
    def total_reward(self) -> float:
        """What the plan is worth: Σ_t γ^(t−1) R_t + γ^H F."""
        return float(present_value(self.rewards, self.final_reward, self.discount))

    def part(self, first: int, last: int) -> Trajectory:
        """Steps first .. last − 1 (counted from 0), worth what they are at their own first step."""
        return Trajectory(
            self.states[first : last + 1],
            self.actions[first:last],
            self.auxiliaries[first : last + 1],
            self.rewards[first:last],
            self.final_reward if last == self.horizon else 0.0,
            self.discount,
        )


def rollout(problem: Problem, initial_state: Array, actions: Array, auxiliaries: Array | None = None) -> Trajectory:
    """The trajectory s_{t+1} = T(s_t, a_t, x_t) in float64, and R(s_t, a_t, x_t, s_{t+1}, x_{t+1}) of each step.

    Auxiliaries are part of the plan (shape (H+1, k)); zeros if not given, but for series.
    """
    horizon = len(actions)
    if auxiliaries is None:
        auxiliaries = np.zeros((horizon + 1, len(problem.auxiliaries)))
        if problem.series:
            auxiliaries = problem.with_horizon(horizon).with_series(auxiliaries)
    states = np.empty((horizon + 1, len(problem.states)))
    states[0] = initial_state
    with np.errstate(over="ignore", invalid="ignore"):  # what diverges is found by the check, not by warnings
        for t in range(horizon):
            inputs = np.concatenate([states[t], actions[t], auxiliaries[t]])
            states[t + 1] = problem.next_states(inputs)
    return rewarded(problem, states, actions, auxiliaries)


def rewarded(problem: Problem, states: Array, actions: Array, auxiliaries: Array) -> Trajectory:
    """States, actions and auxiliaries with what the problem pays for them."""
    with np.errstate(over="ignore", invalid="ignore"):
        rewards = problem.reward.evaluate(step_vectors(states, actions, auxiliaries))
        final = final_rewards(problem, states[-1:], auxiliaries[-1:])
    return Trajectory(states, actions, auxiliaries, rewards, float(final[0]), problem.discount)


simulate = rollout
"""The public name."""


def fitted(rows: Array, count: int) -> Array:
    """The first rows, the last of them repeated if there are too few."""
    return rows[np.minimum(np.arange(count), len(rows) - 1)]


def step_vectors(states: NDArray[Scalar], actions: NDArray[Scalar], auxiliaries: NDArray[Scalar]) -> NDArray[Scalar]:
    """w_t = (s_t, a_t, x_t, s_{t+1}, x_{t+1}) for t = 1..H, shape (H, width); of values, bounds or columns alike."""
    return np.hstack([states[:-1], actions, auxiliaries[:-1], states[1:], auxiliaries[1:]])


def final_rewards(problem: Problem, states: Array, auxiliaries: Array) -> Array:
    """F of final states (B, n) with their auxiliaries (B, k), shape (B,); zeros if there is none."""
    if problem.final_reward is None:
        return np.zeros(len(states))
    return problem.final_reward.evaluate(state_vectors(problem, states, auxiliaries))


def state_vectors(problem: Problem, states: Array, auxiliaries: Array) -> Array:
    """States (B, n) and auxiliaries (B, k) where functions of one state read them, zeros elsewhere, (B, width)."""
    w = np.zeros((len(states), problem.layout.width))
    w[:, problem.layout.states] = states
    w[:, problem.layout.auxiliaries] = auxiliaries
    return w
