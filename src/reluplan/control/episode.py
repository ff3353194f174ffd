"""Running a policy in a simulator."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.problem.discounting import present_value
from reluplan.simulators.ordered import OrderedSimulator

Array = NDArray[np.float64]
Policy = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Episode:
    """States (T+1, n), actions (T, m), rewards (T,) and seconds (T,) that the policy took; all of the true system.

    final_reward: the problem's, of the last state; discount: the problem's.
    ended_early: the simulator ended the episode before all steps were made, because a state broke its rules, say.
    """

    states: Array
    actions: Array
    rewards: Array
    seconds: Array
    ended_early: bool
    final_reward: float = 0.0
    discount: float = 1.0

    @property
    def total_reward(self) -> float:
        """Σ_t γ^(t−1) r_t + γ^T F(s_{T+1})."""
        return float(present_value(self.rewards, self.final_reward, self.discount))


def run_episode(
    simulator: OrderedSimulator,
    policy: Policy,
    steps: int,
    seed: int | None = None,
    start: Array | None = None,
    on_step: Callable[[int, float], None] | None = None,
) -> Episode:
    """Apply policy(s_t) for t = 1..T; on_step hears the step's number and its reward."""
    states = [simulator.reset(seed, start)]
    actions: list[Array] = []
    rewards: list[float] = []
    seconds: list[float] = []
    over = False
    while len(actions) < steps and not over:
        began = clock.now()
        wanted = policy(states[-1])
        seconds.append(clock.now() - began)
        action, state, reward, over = _step(simulator, states[-1], wanted)
        states.append(state)
        actions.append(action)
        rewards.append(reward)
        if on_step is not None:
            on_step(len(actions), reward)
    return Episode(
        states=np.array(states),
        actions=np.array(actions),
        rewards=np.array(rewards),
        seconds=np.array(seconds),
        ended_early=len(actions) < steps,
        final_reward=simulator.final_reward(states[-1]),
        discount=simulator.discount,
    )


def _step(simulator: OrderedSimulator, state: Array, wanted: Array) -> tuple[Array, Array, float, bool]:
    """(the action that was applied, next state, reward, whether the episode is over).

    The reward is the simulator's own, or the problem's for this step if the simulator knows none.
    """
    allowed = simulator.allowed(wanted)
    action = wanted if allowed is None else allowed  # to be refused with its reason
    next_state, paid, over = simulator.step(action)
    reward = simulator.problem_reward(state, action, next_state) if math.isnan(paid) else paid
    return action, next_state, reward, over
