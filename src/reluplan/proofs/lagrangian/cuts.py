"""What the windows' bounds say to others: each is a cut of the whole horizon."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from reluplan.encoding.window_cuts import WindowCut
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.lagrangian.decomposition import Key, WindowBound


def window_cuts(known: Mapping[Key, WindowBound], plan: Trajectory, most_rows: int) -> tuple[WindowCut, ...]:
    """The cuts that are closest to the plan, as many as have most_rows windows together."""
    cuts = sorted(_cuts(known, plan.states.shape[1]), key=lambda cut: cut.slack(plan) / cut.span.length)
    rows = np.cumsum([cut.span.count for cut in cuts])
    return tuple(cuts[: int(np.searchsorted(rows, most_rows, side="right"))])


def _cuts(known: Mapping[Key, WindowBound], states: int) -> Iterator[WindowCut]:
    for (span, start, end), window in known.items():
        if math.isfinite(window.bound):
            at_start, at_end = np.frombuffer(start), np.frombuffer(end)
            yield WindowCut(
                span, at_start[: 2 * states], at_start[2 * states :], at_end[: 2 * states], at_end[2 * states :],
                window.bound,
            )  # fmt: skip
