"""Where two functions differ most: samples, then ascent from the worst of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from reluplan import clock
from reluplan.learning.distillation.region import Points, Region

Array = NDArray[np.float64]


@dataclass(frozen=True)
class AscentSettings:
    """Local ascent without derivatives. starts: worst samples that it begins from. proposals: points tried around each
    at a time; rounds: how often; first_step: of the box's width, halved whenever a round brought nothing better."""

    starts: int = 16
    proposals: int = 24
    rounds: int = 40
    first_step: float = 0.1


def worst_points(
    error: Callable[[Array], Array],
    points: Points,
    sizes: Array,
    output: int,
    region: Region,
    rng: Generator,
    settings: AscentSettings,
    deadline: float = math.inf,
) -> tuple[Points, Array]:
    """The points from which |error| of one output could not be raised any more, worst first, and that error.

    error: (N, n) to (N, outputs); sizes (N,): of that output at the points. From the worst of these, steps of all
    coordinates or of a few, each within the box of its point; a step that leaves the box ends at its edge. What is
    found is a lower bound of the true maximum.
    """
    chosen = np.argsort(sizes)[::-1][: settings.starts]
    best = points.select(chosen)
    heights = sizes[chosen]
    steps = np.full(len(chosen), settings.first_step)
    for _ in range(settings.rounds):
        if clock.now() > deadline:
            break
        tried = _proposals(best, steps, settings.proposals, region, rng)
        found = np.abs(error(tried.reshape(-1, tried.shape[-1]))[:, output]).reshape(tried.shape[:2])
        place = found.argmax(axis=1)
        rows = np.arange(len(chosen))
        better = found[rows, place] > heights
        values = np.where(better[:, None], tried[rows, place], best.values)
        best = Points(values, best.lower, best.upper)
        heights = np.where(better, found[rows, place], heights)
        steps = np.where(better, steps, 0.5 * steps)
    order = np.argsort(heights)[::-1]
    return best.select(order), heights[order]


def _proposals(best: Points, steps: Array, count: int, region: Region, rng: Generator) -> Array:
    """(starts, count, n): normal steps, half of them in one or two coordinates alone."""
    shape = (len(best), count, best.values.shape[1])
    width = best.upper - best.lower
    moves = rng.normal(size=shape) * (steps[:, None] * width)[:, None, :]
    few = rng.random(shape) < min(1.0, 1.5 / shape[2])
    is_few = np.arange(count)[None, :, None] % 2 == 0
    moved = best.values[:, None, :] + np.where(is_few & ~few, 0.0, moves)
    return region.snapped(moved, best.lower[:, None, :], best.upper[:, None, :])
