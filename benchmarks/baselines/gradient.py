"""Gradient ascent: Adam on all actions of several plans at once, through the network, projected to the boxes."""

from __future__ import annotations

import numpy as np

from .best import Best
from .noise import SMOOTHNESS, smooth
from .rollouts import Array, Rollouts
from .slopes import gradient

STARTS = 64
STEPS = 200
RATE = 0.03
"""Of the range of each action, at the beginning of a run; it falls to zero as a cosine."""


def ascend(rollouts: Rollouts, deadline: float, seed: int = 0) -> Best:
    """Runs until the deadline; after the first, half of the starts are near the best plan."""
    rng = np.random.default_rng(seed)
    best = Best(rollouts, deadline)
    side = rollouts.upper - rollouts.lower
    middle = (rollouts.lower + rollouts.upper) / 2
    shape = (STARTS, rollouts.problem.horizon, len(side))
    number = 0
    while not best.is_late:
        noise = smooth(rng, shape, SMOOTHNESS[number % len(SMOOTHNESS)])
        plans = middle + 0.5 * side * noise
        if best.actions is not None:
            half = STARTS // 2
            plans[:half] = best.actions + 0.1 * side * noise[:half]
        _run(best, np.clip(plans, rollouts.lower, rollouts.upper))
        best.charge_more()
        number += 1
    return best


def _run(best: Best, plans: Array) -> None:
    """Adam; whole-numbered actions are rounded where plans are rolled out, and moved as if they were not."""
    rollouts = best.rollouts
    first, second = np.zeros_like(plans), np.zeros_like(plans)
    for step in range(1, STEPS + 1):
        rounded = rollouts.fitting(plans)
        states = rollouts.states(rounded)
        best.offer(rounded, rollouts.judge_states(states, rounded))
        if best.is_late:
            return
        slopes = np.nan_to_num(gradient(rollouts, states, rounded, best.weight))
        first = 0.9 * first + 0.1 * slopes
        second = 0.999 * second + 0.001 * slopes**2
        move = first / (1.0 - 0.9**step) / (np.sqrt(second / (1.0 - 0.999**step)) + 1e-12)
        rate = 0.5 * RATE * (1.0 + np.cos(np.pi * step / STEPS)) * (rollouts.upper - rollouts.lower)
        plans = np.clip(plans + rate * move, rollouts.lower, rollouts.upper)
