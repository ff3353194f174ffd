"""Plans to start from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.primal.context import Context
from reluplan.primal.decisions import Decisions

Array = NDArray[np.float64]


def constants(context: Context, count: int) -> Decisions:
    """Plans that repeat one action: the lower, middle and upper corner of the box, then random ones."""
    rng, box = context.rng, context.box
    share = rng.random((count, 1, box.lower.actions.shape[2]))
    share[:3] = np.array([0.0, 0.5, 1.0])[:count, None, None]
    initial = rng.random((count, box.lower.initial.shape[1]))
    auxiliaries = np.full((count, *box.lower.auxiliaries.shape[1:]), 0.5)
    return box.at(Decisions(initial, np.tile(share, (1, box.lower.horizon, 1)), auxiliaries))
