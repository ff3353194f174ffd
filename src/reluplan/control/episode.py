"""Running a policy in a simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.control.ordered import OrderedSimulator

Array = NDArray[np.float64]
Policy = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Episode:
    """States (T+1, n), actions (T, m), rewards (T,) and seconds (T,) that the policy took; all of the true system.

    ended_early: the simulator ended the episode before all steps were made, because a state broke its rules, say.
    """

    states: Array
    actions: Array
    rewards: Array
    seconds: Array
    ended_early: bool

    @property
    def total_reward(self) -> float:
        return float(np.sum(self.rewards))


def run_episode(
    simulator: OrderedSimulator,
    policy: Policy,
    steps: int,
    seed: int | None = None,
    start: Array | None = None,
    on_step: Callable[[int, float], None] | None = None,
) -> Episode:
    """Apply policy(s_t) for t = 1..T; on_step hears the step's number and its reward."""
    states, over = [simulator.reset(seed, start)], False
    actions: list[Array] = []
    rewards: list[float] = []
    seconds: list[float] = []
    while len(actions) < steps and not over:
        began = clock.now()
        wanted = policy(states[-1])
        seconds.append(clock.now() - began)
        action = simulator.allowed(wanted)
        state, reward, over = simulator.step(action)
        states.append(state)
        actions.append(action)
        rewards.append(reward)
        if on_step is not None:
            on_step(len(actions), reward)
    return Episode(np.array(states), np.array(actions), np.array(rewards), np.array(seconds), len(actions) < steps)
