"""Many single steps at once, from any states: what they gain and where they lead."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.time_slice import Paused

Array = NDArray[np.float64]

CHUNK = 4096
"""Steps that are evaluated together; what fits into the cache is several times faster."""


def one_step(context: Context, states: Array, actions: Array) -> Paused[tuple[Array, Array]]:
    """R − penalty · violation of single steps (count,), and the next states (count, n)."""
    gains, following = [], []
    most = int(clock.SAMPLE_WORK / context.problem.dynamics.operations)
    size = max(1, min(CHUNK, most))
    for first in range(0, len(states), size):
        part = slice(first, first + size)
        batch = Decisions(states[part], actions[part, None], np.zeros((len(states[part]), 2, 0)))
        yield from context.pause()
        rollout = context.roll_out(batch)
        with np.errstate(over="ignore", invalid="ignore"):  # where plans explode
            gains.append(context.merit.step_merit(rollout))
        following.append(rollout.states[:, 1])
    return np.concatenate(gains), np.concatenate(following)


def final_value(context: Context, states: Array) -> Array:
    """F − penalty · violation of G at each of the states, shape (count,)."""
    batch = Decisions(states, np.zeros((len(states), 0, len(context.problem.actions))), np.zeros((len(states), 1, 0)))
    return context.merit.final_merit(context.roll_out(batch))
