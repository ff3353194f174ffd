"""Greedy rollouts: steps that good plans take, for the scale of potentials and for where they should be small."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.potentials.settings import DEFAULT_ROLLOUTS, RolloutSettings
from reluplan.problem.problem import Problem
from reluplan.problem.steps import evaluate_steps

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Steps t = 0, 1, ... of a few plans: inputs (T, chains, inputs), rewards (T, chains), −inf after a dead end."""

    inputs: Array
    rewards: Array

    @classmethod
    def none(cls, problem: Problem, chains: int) -> Rollouts:
        """Without any step."""
        return cls(np.zeros((0, chains, problem.layout.input_count)), np.zeros((0, chains)))

    def from_step(self, first: int, count: int) -> tuple[Array, Array]:
        """Inputs (k, n) and rewards (k,) of the steps first..first + count − 1 that could be made."""
        span = slice(first, first + count)
        made = np.isfinite(self.rewards[span])
        return self.inputs[span][made], self.rewards[span][made]


def greedy_rollouts(
    problem: Problem,
    lower: Array,
    upper: Array,
    horizon: int,
    rng: np.random.Generator,
    deadline: float = math.inf,
    settings: RolloutSettings = DEFAULT_ROLLOUTS,
) -> Rollouts:
    """From random initial states, at each step the best action (in lower..upper) of several hundred tries, which
    first cover the box and then close in on the best one. Nothing for problems with auxiliaries or endless boxes. Steps
    that are not done by the deadline (of clock.now) are left out."""
    if problem.auxiliaries or not np.isfinite([*lower, *upper, *problem.initial_lower, *problem.initial_upper]).all():
        return Rollouts.none(problem, settings.chains)
    states = rng.uniform(problem.initial_lower, problem.initial_upper, (settings.chains, len(problem.states)))
    states = problem.round_states(states)
    inputs = []
    rewards = []
    for _ in range(horizon):
        found = _best_step(problem, states, lower, upper, rng, deadline, settings)
        if found is None:
            break
        inputs.append(found[0])
        rewards.append(found[1])
        states = found[2]
    if not inputs:
        return Rollouts.none(problem, settings.chains)
    alive = np.logical_and.accumulate(np.isfinite(rewards), axis=0)
    return Rollouts(np.array(inputs), np.where(alive, rewards, -np.inf))


def _best_step(
    problem: Problem,
    states: Array,
    lower: Array,
    upper: Array,
    rng: np.random.Generator,
    deadline: float,
    settings: RolloutSettings,
) -> tuple[Array, Array, Array] | None:
    """Inputs, rewards and next states of the best action found for each state; None after the deadline."""
    discrete = np.array([v.is_discrete for v in problem.actions], dtype=bool)
    chains = len(states)
    rows = np.arange(chains)
    tries = settings.tries
    best = np.broadcast_to((lower + upper) / 2.0, (chains, len(lower)))
    for spread in settings.spreads:
        if clock.now() >= deadline:
            return None
        noise = rng.uniform(-spread, spread, (chains, tries, len(lower))) * (upper - lower)
        noise[:, 0] = 0.0
        actions = np.clip(best[:, None] + noise, lower, upper)
        actions = np.where(discrete, np.round(actions), actions)
        tried = np.concatenate([np.repeat(states[:, None], tries, axis=1), actions], axis=2)
        rewards, after = _evaluate(problem, tried.reshape(chains * tries, -1))
        at = rewards.reshape(chains, tries).argmax(axis=1)
        best = actions[rows, at]
    chosen = rows * tries + at
    return tried[rows, at], rewards[chosen], after[chosen]


def _evaluate(problem: Problem, inputs: Array) -> tuple[Array, Array]:
    """Rewards (−inf where a bound or constraint is violated) and next states."""
    steps = evaluate_steps(problem, inputs)
    kept = steps.end_within(*problem.box(problem.states)) & steps.satisfy()
    return np.where(kept, steps.rewards(), -np.inf), steps.next_states
