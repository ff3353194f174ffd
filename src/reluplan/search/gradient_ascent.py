"""Gradient ascent on many plans at once: rough, but it sees far beyond a trust box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.search import starts
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.local_search import local_search

Array = NDArray[np.float64]

FIRST_RATE, LAST_RATE = 0.05, 0.001
"""Steps as shares of the box, falling geometrically."""
MEMORY, SQUARE_MEMORY = 0.9, 0.99


CLIMBERS = 6
"""Of each kind."""
ASCENT_STEPS = 60
IMPROVED = 2


def gradient_ascent(context: Context) -> None:
    """Gradient ascent from many plans, and a local search from the best of them."""
    batch = Decisions.join(
        [
            starts.constants(context, CLIMBERS),
            starts.smooth(context, CLIMBERS),
            context.box.random(context.rng, CLIMBERS),
        ]
    )
    ascended, merits = ascend(context, batch, ASCENT_STEPS)
    for which in np.argsort(-merits, kind="stable")[:IMPROVED]:
        if not context.expired:
            local_search(context, context.offer(ascended.take(np.array([which])), "gradient ascent"))


@dataclass
class _Adam:
    """The moving averages of one array of gradients; `step` is about ±1 where gradients keep their sign."""

    mean: Array | float = 0.0
    square: Array | float = 0.0
    count: int = 0

    def step(self, gradient: Array) -> Array:
        """m / √v with m, v the bias-corrected averages of the gradient and its square."""
        self.count += 1
        self.mean = MEMORY * self.mean + (1.0 - MEMORY) * gradient
        self.square = SQUARE_MEMORY * self.square + (1.0 - SQUARE_MEMORY) * gradient**2
        mean = self.mean / (1.0 - MEMORY**self.count)
        root = np.sqrt(self.square / (1.0 - SQUARE_MEMORY**self.count))
        return np.asarray(mean / np.maximum(root, 1e-12))


def ascend(
    context: Context, start: Decisions, iterations: int, first_rate: float = FIRST_RATE
) -> tuple[Decisions, Array]:
    """Adam with projection on the boxes; returns the best decisions of each plan on its way, and their merits.

    Discrete decisions are rounded for the rollout, while the ascent itself goes on with what is behind them.
    """
    box, penalty = context.box, context.merit.penalty
    width = box.width
    behind = start
    best, best_merit = box.into(start), np.full(start.count, -np.inf)
    adams = _Adam(), _Adam(), _Adam()
    for iteration in range(iterations):
        if context.expired:
            break
        rollout, score, gradient = context.gradient(box.into(behind))
        merit = score.merit(penalty)
        best, best_merit = _keep_better(best, best_merit, rollout.decisions, merit)
        rate = first_rate * (LAST_RATE / first_rate) ** (iteration / max(1, iterations - 1))
        moves = [
            rate * adam.step(np.nan_to_num(part) * extent)
            for adam, part, extent in zip(adams, gradient.parts, width.parts, strict=True)
        ]
        behind = Decisions(
            np.clip(behind.initial + moves[0] * width.initial, box.lower.initial, box.upper.initial),
            np.clip(behind.actions + moves[1] * width.actions, box.lower.actions, box.upper.actions),
            np.clip(behind.auxiliaries + moves[2] * width.auxiliaries, box.lower.auxiliaries, box.upper.auxiliaries),
        )
    return best, best_merit


def _keep_better(best: Decisions, best_merit: Array, new: Decisions, merit: Array) -> tuple[Decisions, Array]:
    better = merit > best_merit
    row = better[:, None]
    chosen = Decisions(
        np.where(row, new.initial, best.initial),
        np.where(row[..., None], new.actions, best.actions),
        np.where(row[..., None], new.auxiliaries, best.auxiliaries),
    )
    return chosen, np.where(better, merit, best_merit)
