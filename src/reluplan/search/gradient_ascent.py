"""Gradient ascent on many plans at once: rough, but it sees far beyond a trust box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.search import starts
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.local_search import local_search
from reluplan.search.settings import AscentSettings
from reluplan.search.time_slice import Paused

Array = NDArray[np.float64]


HUGE = 1e100
"""Slopes beyond this are cut off: where plans explode, only the sign counts."""


def gradient_ascent(context: Context) -> Paused[None]:
    """Gradient ascent from many plans, and a local search from the best of them."""
    settings = context.settings.gradient_ascent
    batch = Decisions.join(
        [
            starts.constants(context, settings.starts),
            starts.smooth(context, settings.starts),
            context.box.random(context.rng, settings.starts),
        ]
    )
    ascended, merits = yield from ascend(context, batch, settings.ascent)
    for which in np.argsort(-merits, kind="stable")[: settings.improved]:
        yield from context.pause()
        yield from local_search(context, context.offer(ascended.take(np.array([which])), "gradient ascent"))


@dataclass
class _Adam:
    """The moving averages of one array of gradients; `step` is about ±1 where gradients keep their sign."""

    settings: AscentSettings
    mean: Array | float = 0.0
    square: Array | float = 0.0
    count: int = 0

    def step(self, gradient: Array) -> Array:
        """m / √v with m, v the bias-corrected averages of the gradient and its square."""
        first, second = self.settings.mean_decay, self.settings.square_decay
        self.count += 1
        self.mean = first * self.mean + (1.0 - first) * gradient
        self.square = second * self.square + (1.0 - second) * gradient**2
        mean = self.mean / (1.0 - first**self.count)
        root = np.sqrt(self.square / (1.0 - second**self.count))
        return np.asarray(mean / np.maximum(root, 1e-12))


def ascend(context: Context, start: Decisions, settings: AscentSettings) -> Paused[tuple[Decisions, Array]]:
    """Adam with projection on the boxes; returns the best decisions of each plan on its way, and their merits.

    Discrete decisions are rounded for the rollout, while the ascent itself goes on with what is behind them.
    """
    box = context.box
    penalty = context.merit.penalty
    width = box.width
    behind = start
    best, best_merit = box.into(start), np.full(start.count, -np.inf)
    adams = _Adam(settings), _Adam(settings), _Adam(settings)
    for iteration in range(settings.iterations):
        plans = box.into(behind)
        score, gradient = yield from context.fast_gradient(plans)
        merit = score.merit(penalty)
        best, best_merit = _keep_better(best, best_merit, plans, merit)
        rate = _rate(settings, iteration)
        slopes = zip(adams, gradient.parts, width.parts, strict=True)
        moves = [rate * adam.step(_moderate(part * extent)) for adam, part, extent in slopes]
        behind = Decisions(
            np.clip(behind.initial + moves[0] * width.initial, box.lower.initial, box.upper.initial),
            np.clip(behind.actions + moves[1] * width.actions, box.lower.actions, box.upper.actions),
            np.clip(behind.auxiliaries + moves[2] * width.auxiliaries, box.lower.auxiliaries, box.upper.auxiliaries),
        )
    return best, best_merit


def _moderate(slopes: Array) -> Array:
    """No infinite ones, whose squares would be no numbers."""
    return np.clip(np.nan_to_num(slopes), -HUGE, HUGE)


def _rate(settings: AscentSettings, iteration: int) -> float:
    """From the first to the last rate in equal ratios."""
    done = iteration / max(1, settings.iterations - 1)
    return float(settings.first_rate * (settings.last_rate / settings.first_rate) ** done)


def _keep_better(best: Decisions, best_merit: Array, new: Decisions, merit: Array) -> tuple[Decisions, Array]:
    better = merit > best_merit
    row = better[:, None]
    chosen = Decisions(
        np.where(row, new.initial, best.initial),
        np.where(row[..., None], new.actions, best.actions),
        np.where(row[..., None], new.auxiliaries, best.auxiliaries),
    )
    return chosen, np.where(better, merit, best_merit)
