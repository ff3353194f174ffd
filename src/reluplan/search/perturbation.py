"""Iterated local search: perturbations of the best plan, improved in turn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.rollout import Trajectory
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.gradient_ascent import ascend
from reluplan.search.local_search import local_search
from reluplan.search.starts import between_knots
from reluplan.search.time_slice import Paused

Array = NDArray[np.float64]


def perturbation(context: Context) -> Paused[None]:
    """Add noise to stretches of the best plan, let gradients settle it a little, improve the best of the batch."""
    if context.best is None:
        return
    settings = context.settings.perturbation
    batch, merits = yield from ascend(context, perturbed(context, context.best), settings.ascent)
    for which in np.argsort(-merits, kind="stable")[: settings.improved]:
        yield from local_search(context, context.offer(batch.take(np.array([which])), "perturbation"))


def perturbed(context: Context, plan: Trajectory) -> Decisions:
    """Copies of a plan with smooth noise on a random stretch of the actions (and on initial states)."""
    rng = context.rng
    width = context.box.width
    settings = context.settings.perturbation
    count = settings.plans
    base = Decisions.of(plan)
    size = settings.smallest * (settings.largest / settings.smallest) ** rng.random(count)
    knots = rng.integers(settings.fewest_knots, settings.most_knots + 1, count)
    noise = np.stack([_stretch(context, int(number)) for number in knots])
    return context.box.into(
        Decisions(
            base.initial + size[:, None] * rng.normal(size=(count, base.initial.shape[1])) * width.initial,
            base.actions + size[:, None, None] * noise * width.actions,
            np.repeat(base.auxiliaries, count, axis=0),
        )
    )


def _stretch(context: Context, knots: int) -> Array:
    """Smooth noise of size one on a random stretch of steps, zero elsewhere, shape (H, m)."""
    rng = context.rng
    _, horizon, count = context.box.lower.actions.shape
    first, last = np.sort(rng.integers(0, horizon + 1, 2))
    noise = np.zeros((horizon, count))
    if last > first:
        noise[first:last] = between_knots(rng.normal(size=(1, knots, count)), last - first)[0]
    return noise
