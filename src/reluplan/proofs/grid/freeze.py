"""Freezing the end: steps whose values hardly gain from finer grids are swept no more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.node_values import NodeValues

Array = NDArray[np.float64]


def step_gains(values: Sequence[NodeValues], coarser_values: Sequence[NodeValues]) -> Array:
    """By how much the finer grid has lowered V at each step; empty if there is no coarser one."""
    if len(coarser_values) < len(values):
        return np.zeros(0)
    return np.array([finer.gain_over(coarser) for finer, coarser in zip(values, coarser_values, strict=False)])


def steps_above(gains: Array, share: float) -> int | None:
    """How many steps there are up to the last that gained more than a share of the first; None if nothing is known."""
    if not len(gains):
        return None
    large = np.flatnonzero(gains > share * gains[0])
    return int(large[-1]) + 1 if len(large) else 0


def steps_to_sweep(end: int, gains: Array, frozen_share: float) -> int:
    """How many of the steps 1..end the next sweep goes through; at least one."""
    kept = steps_above(gains, frozen_share)
    return kept if kept is not None and 0 < kept < end else end
