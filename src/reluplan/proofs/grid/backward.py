"""The backward sweep: a value function on one grid that no plan can beat."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.bellman import BellmanOperator
from reluplan.proofs.grid.cells import ABSENT, PRESENT
from reluplan.proofs.grid.node_values import NodeValues
from reluplan.proofs.grid.pairs import Pairs, StepsInUse
from reluplan.proofs.grid.reward_to_come import RewardToCome
from reluplan.proofs.grid.timed_pool import OutOfTime

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BackwardSweep:
    """V_t with V_t(s) >= R + γ V_{t+1}(s') for every step of a plan better than the threshold.

    end: the number of steps that it goes through. values: V of the steps from `begin` to end, both included (0-based);
    begin is zero unless the time ran out. steps: at which the sweep found the pairs in use; used: the pairs with these.
    margin: the rounding error of the values.
    """

    operator: BellmanOperator
    reward_to_come: RewardToCome
    end: int
    values: tuple[NodeValues, ...]
    steps: StepsInUse
    margin: float

    @property
    def used(self) -> Pairs:
        return self.operator.pairs.within(self.steps.first, self.steps.last)

    @property
    def begin(self) -> int:
        return self.end + 1 - len(self.values)

    @property
    def complete(self) -> bool:
        """Whether it has come to the first step."""
        return self.begin == 0

    def bound(self, start_lower: Array, start_upper: Array) -> float:
        """What no better plan exceeds: V_1 over the box of initial states, if the sweep is complete.

        Otherwise γ^(t−1) max F_t + V_t over the cells in use at the step t where it ended; −infinity if there are none.
        """
        if self.complete:
            return self.values[0].maximum(start_lower, start_upper)
        cells = self._cells_at(self.begin)
        after = self.values[0].at_corners(cells).T
        before = self.reward_to_come.at_corners(self.begin, *(side.T for side in self.operator.grid.boxes(cells)))
        known = (after > PRESENT).all(axis=0)
        most = float((after + before)[:, known].max(initial=-np.inf))
        return most * self.operator.discount**self.begin if math.isfinite(most) else most

    def _cells_at(self, t: int) -> Index:
        """The cells that may be used at a step."""
        if t == self.end:
            return self.operator.grid.cells
        pairs = self.operator.pairs
        active = pairs.active(t)
        return pairs.cells[active[pairs.runs(active)[0]]]


def first_step(operator: BellmanOperator, reward_to_come: RewardToCome, final: NodeValues, end: int) -> BackwardSweep:
    """Before a sweep: V after the last of `end` steps alone."""
    return BackwardSweep(operator, reward_to_come, end, (final,), StepsInUse.never(len(operator.pairs)), 0.0)


def backward_sweep(begun: BackwardSweep, thresholds: Array, floors: Array) -> BackwardSweep:
    """From V of the step that a sweep has come to back to the first step, or as far as the time allows.

    V_t interpolates, at the corners of each cell, the largest functions of its pairs. A pair whose function stays below
    the step's threshold (H,) − F_t over the whole cell belongs to no better plan, and is left out; thresholds may have
    risen since the sweep began. Values below the floor (H,), less than any plan can earn from there on, come from
    planes that go on where no step is feasible: they are raised to it, lest slopes near them be wild.
    """
    operator, steps = begun.operator, begun.steps
    values = list(begun.values)
    margin = begun.margin
    for t in reversed(range(begun.begin)):
        active = operator.pairs.active(t)
        try:
            corners, rounding = operator.corners(t, active, values[0])
        except OutOfTime:
            break
        margin += rounding
        kept = _worth_it(operator, begun.reward_to_come, thresholds[t], t, active, corners)
        steps.note(active[kept], t)
        corners = np.maximum(corners, floors[t])
        corners[:, ~kept] = ABSENT
        values.insert(0, _node_values(operator.pairs, active, corners))
    return BackwardSweep(operator, begun.reward_to_come, begun.end, tuple(values), steps, margin)


def _worth_it(
    operator: BellmanOperator, reward_to_come: RewardToCome, threshold: float, t: int, active: Index, corners: Array
) -> NDArray[np.bool_]:
    """Which of the active pairs may belong to a better plan: F_t + R + γ V_{t+1} reaches the threshold."""
    starts, counts = operator.pairs.runs(active)
    cells = operator.pairs.cells[active[starts]]
    boxes = (side.T for side in operator.grid.boxes(cells))
    before = reward_to_come.at_corners(t, *boxes).repeat(counts, axis=1)
    is_worse = (corners + before).max(axis=0) < threshold  # never true of what is not a number
    return np.asarray(~is_worse & ~(corners[0] <= PRESENT))


def _node_values(pairs: Pairs, active: Index, corners: Array) -> NodeValues:
    """The maximum over the active pairs of each cell, then over the cells at each node."""
    if not len(active):
        return NodeValues(pairs.grid, np.zeros(0, dtype=np.int64), np.zeros(0))
    starts, _ = pairs.runs(active)
    cells = pairs.cells[active[starts]]
    return NodeValues.corner_maxima(pairs.grid, cells, np.maximum.reduceat(corners, starts, axis=1))
