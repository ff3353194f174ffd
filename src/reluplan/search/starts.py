"""Plans to start from, as batches of decisions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.search.context import Context
from reluplan.search.decisions import Decisions

Array = NDArray[np.float64]


def constants(context: Context, count: int) -> Decisions:
    """Plans that repeat one action: the lower, middle and upper corner of the box, then random ones."""
    share = context.rng.random((count, 1, context.box.lower.actions.shape[2]))
    share[:3] = np.array([0.0, 0.5, 1.0])[:count, None, None]
    return _with_actions(context, np.tile(share, (1, context.box.lower.horizon, 1)))


def middle(context: Context) -> Decisions:
    """The plan that stays in the middle of every box."""
    shapes = (part.shape for part in context.box.lower.parts)
    return context.box.at(Decisions(*(np.full(shape, 0.5) for shape in shapes)))


def smooth(context: Context, count: int) -> Decisions:
    """Plans that go through random values, linear in between."""
    knots = context.settings.smooth_knots
    values = context.rng.random((count, knots, context.box.lower.actions.shape[2])) * 1.5 - 0.25
    return _with_actions(context, np.clip(between_knots(values, context.box.lower.horizon), 0.0, 1.0))


def between_knots(values: Array, length: int) -> Array:
    """Linear interpolation of values (count, knots, m) at evenly spaced knots, shape (count, length, m)."""
    place = np.linspace(0.0, values.shape[1] - 1.0, length)
    left = np.minimum(place.astype(np.int64), values.shape[1] - 2)
    share = (place - left)[:, None]
    return np.asarray((1.0 - share) * values[:, left] + share * values[:, left + 1])


def _with_actions(context: Context, share: Array) -> Decisions:
    """Actions at these shares of their boxes, random initial states, auxiliaries in the middle."""
    box = context.box
    initial = context.rng.random((len(share), box.lower.initial.shape[1]))
    auxiliaries = np.full((len(share), *box.lower.auxiliaries.shape[1:]), 0.5)
    return box.at(Decisions(initial, share, auxiliaries))
