"""The forward sweep: how much reward a better plan can have collected on its way, and where it can be at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import BetterPlanBounds, tightened_for_better_plans
from reluplan.proofs.grid.backward import BackwardSweep
from reluplan.proofs.grid.bellman import NODE_OPERATIONS, PAIR_OPERATIONS, ROUNDOFF, BellmanOperator, Job
from reluplan.proofs.grid.cells import LARGEST_VALUE
from reluplan.proofs.grid.majorant import planes_above
from reluplan.proofs.grid.pairs import Pairs, StepsInUse
from reluplan.proofs.grid.reward_to_come import RewardToCome
from reluplan.proofs.grid.timed_pool import OutOfTime

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Box = tuple[Array, Array]

REACH_MARGIN = 2.0**-36
"""Relative to the largest state: more than the rounding error of an image, less than any cell."""

GAIN_ROUNDINGS = 256
"""More than the number of roundings in a pair's gain, each of at most an ulp of its terms."""


@dataclass(frozen=True, eq=False)
class ForwardSweep:
    """reward_to_come: F of all steps. used: the pairs, with the steps at which they are still in use. margin: the
    rounding error of the backward sweep and of this one. boxes: (lower, upper) around the states and actions (n + m,)
    of the pairs in use at each step that the sweep came to. complete: whether these are all steps; the rest is of no
    use if not."""

    reward_to_come: RewardToCome
    used: Pairs
    margin: float
    boxes: tuple[Box, ...] = ()
    complete: bool = True


class ForwardPass:
    """A forward sweep that goes on where it was interrupted.

    F_1 = 0 over the start box, and offset_{t+1,k} = max over the pairs in use at t of (F_t + R) / γ − λ_k · s'.

    γ times that is at most max over the cell of F_t(s) − γ λ_k · s, plus the pair's gain, which no step changes:
    gain_k = max over the pair of γ λ_k · (s − s') + R. The first of the two is at most what plane k says, and at most
    what the plane says that is lowest in the middle of the cell. Pairs with F_t + R + γ V_{t+1} below the threshold of
    their step (H,) are no longer in use, nor those of cells that no pair in use before them leads to. slopes: λ (K, n).
    end: the step that it has come to.
    """

    def __init__(self, backward: BackwardSweep, used: Pairs, slopes: Array, start: Box) -> None:
        self._backward, self._used = backward, used
        self._discount = backward.operator.discount
        self._gains = _Gains(backward.operator, self._discount * slopes)
        self._reached = _Reached(backward.operator, start)
        self._steps = StepsInUse.never(len(used))
        offsets = np.full((backward.end + 1, len(slopes)), -np.inf)
        offsets[0] = -np.minimum(slopes * start[0], slopes * start[1]).sum(axis=1)
        self._to_come = RewardToCome(slopes, offsets, self._discount)
        self._boxes: list[Box] = []
        self._margin = backward.margin

    @property
    def end(self) -> int:
        return len(self._boxes)

    def go_on(self, thresholds: Array) -> ForwardSweep:
        """As far as the time allows; thresholds may have risen since the last call."""
        try:
            while self.end < self._backward.end:
                self._step(thresholds[self.end])
        except OutOfTime:
            pass
        used = self._used.within(self._steps.first, self._steps.last)
        complete = self.end == self._backward.end
        return ForwardSweep(self._to_come, used, self._margin, tuple(self._boxes), complete)

    def _step(self, threshold: float) -> None:
        """One step; all that may be interrupted comes before anything is kept."""
        t, used = self.end, self._used
        candidates = self._reached.of(used.active(t))
        active, relative, rounding = _in_use(self._backward, used, candidates, self._to_come, threshold, t)
        collected = (relative + self._gains.of(active)).max(axis=1, initial=-np.inf)
        self._margin += rounding
        self._steps.note(active, t)
        self._reached.go_on(active)
        self._to_come.offsets[t + 1] = _a_step_later(collected, self._discount)
        self._boxes.append(_box(used, active))


def _a_step_later(collected: Array, discount: float) -> Array:
    """collected / γ, rounded up; unknown (infinity) where so much was compounded that numbers end."""
    if discount == 1.0:
        return collected
    with np.errstate(over="ignore"):
        later = collected / discount
    later = later + 4.0 * ROUNDOFF * np.where(np.isfinite(later), np.abs(later), 0.0)
    return np.where(np.isfinite(collected) & (np.abs(later) > LARGEST_VALUE), np.inf, later)


def tightened(bounds: BetterPlanBounds, boxes: Sequence[Box]) -> BetterPlanBounds:
    """The bounds, intersected with boxes of states and actions (n + m,) from the first step on."""
    if not boxes:
        return bounds
    steps, n = len(boxes), bounds.state_lower.shape[1]
    lower, upper = (np.array(side) for side in zip(*boxes, strict=True))
    arrays = {
        "state_lower": _with_first(bounds.state_lower, np.maximum(bounds.state_lower[:steps], lower[:, :n])),
        "state_upper": _with_first(bounds.state_upper, np.minimum(bounds.state_upper[:steps], upper[:, :n])),
        "action_lower": _with_first(bounds.action_lower, np.maximum(bounds.action_lower[:steps], lower[:, n:])),
        "action_upper": _with_first(bounds.action_upper, np.minimum(bounds.action_upper[:steps], upper[:, n:])),
    }
    return tightened_for_better_plans(bounds, arrays)


def _with_first(array: Array, first: Array) -> Array:
    """The array with its first rows replaced."""
    return np.concatenate([first, array[len(first) :]])


def _in_use(
    backward: BackwardSweep, used: Pairs, candidates: Index, to_come: RewardToCome, threshold: float, t: int
) -> tuple[Index, Array, float]:
    """Of the candidates those with F_t + R + V_{t+1} at least the threshold, F_t − λ_k · s over each, and the rounding
    error."""
    clock.spend(NODE_OPERATIONS * len(candidates))
    active, before, relative = _possible(backward, used, candidates, to_come, threshold, t)
    corners, rounding = backward.operator.corners(t, active, backward.values[t + 1])
    kept = ~((corners + before).max(axis=0) < threshold)  # what is not a number is kept
    return active[kept], relative[:, kept], rounding


def _possible(
    backward: BackwardSweep, used: Pairs, active: Index, to_come: RewardToCome, threshold: float, t: int
) -> tuple[Index, Array, Array]:
    """Of the pairs those whose cells have F_t + V_t at least the threshold, F_t at their corners, and F_t − λ_k · s."""
    starts, counts = used.runs(active)
    cells = used.cells[active[starts]]
    lower, upper = (side.T for side in used.grid.boxes(cells))
    before = to_come.at_corners(t, lower, upper)
    values = backward.values[t].at_corners(cells).T
    possible = (~((before + values).max(axis=0) < threshold)).repeat(counts)
    relative = to_come.relative(t, lower, upper)
    cell = np.repeat(np.arange(len(cells)), counts)[possible]
    return active[possible], before[:, cell], relative[:, cell]


def _box(pairs: Pairs, chosen: Index) -> Box:
    """The smallest box around the states and actions of some pairs; lower > upper if there are none."""
    lower, upper = pairs.grid.boxes(pairs.cells[chosen])
    low = np.hstack([lower, pairs.action_lower[chosen]])
    high = np.hstack([upper, pairs.action_upper[chosen]])
    return low.min(axis=0, initial=np.inf), high.max(axis=0, initial=-np.inf)


class _Reached:
    """The cells that plans can be in, step by step: at first those of the start box, then those that meet an image of
    a pair in use. Images are widened by more than their rounding error."""

    def __init__(self, operator: BellmanOperator, start: Box) -> None:
        self._pairs = operator.pairs
        grid = operator.grid
        margin = REACH_MARGIN * np.maximum(1.0, np.abs(np.array(grid.ends)).max(axis=0))
        first, count = grid.cover(start[0][None] - margin, start[1][None] + margin)
        self._flags = grid.covered(first, count)
        bounds = operator.bounds
        self._covers = grid.cover(bounds.image_lower.T - margin, bounds.image_upper.T + margin)

    def of(self, pairs: Index) -> Index:
        """Those of the pairs whose cells are reached."""
        return np.asarray(pairs[self._flags[self._pairs.cells[pairs] @ self._pairs.grid.strides]])

    def go_on(self, pairs: Index) -> None:
        """To the next step, by the steps of some pairs."""
        first, count = self._covers
        self._flags = self._pairs.grid.covered(first[pairs], count[pairs])


class _Gains:
    """The gains of pairs, computed when they are needed for the first time."""

    def __init__(self, operator: BellmanOperator, slopes: Array) -> None:
        self._operator = operator
        self._slopes = slopes
        self._gains = np.empty((len(slopes), len(operator.pairs)))
        self._known = np.zeros(len(operator.pairs), dtype=bool)

    def of(self, pairs: Index) -> Array:
        """(K, B), rounded up."""
        new = pairs[~self._known[pairs]]
        for _ in self._operator.pool.map(self._fill, self._operator.jobs(new)):
            pass
        self._known[new] = True
        return self._gains[:, pairs]

    def _fill(self, job: Job) -> None:
        clock.spend(PAIR_OPERATIONS * len(job.places))
        self._gains[:, job.pairs] = _gains(self._operator, job, self._slopes)


def _gains(operator: BellmanOperator, job: Job, slopes: Array) -> Array:
    """max over cell and action box of λ · s − λ · s' + R for every slope λ, (K, B), rounded up."""
    bounds, pairs = operator.bounds, job.pairs
    share = operator.settings.own_slope_share
    slope, height, _ = planes_above(job.stencils, job.members, operator.node_rewards, share)
    height = height - (slope * job.stencils.centres[:, job.members]).sum(axis=0)
    lower, upper = (side[:, pairs] for side in bounds.cell_boxes)
    reach = 1.0 + np.maximum(np.abs(lower), np.abs(upper)).max(axis=0)
    gains = np.empty((len(slopes), len(pairs)))
    for k, plane in enumerate(slopes):
        row = bounds.combined_rows(pairs, slope - plane[:, None])
        row[: len(plane)] += plane[:, None]
        row[-1] += height
        on_states, offset = bounds.maximise_actions(pairs, row)
        size = np.abs(offset) + np.abs(height) + (np.abs(slope) + np.abs(plane)[:, None]).sum(axis=0) * reach
        largest = offset + np.maximum(on_states * lower, on_states * upper).sum(axis=0)
        gains[k] = largest + GAIN_ROUNDINGS * ROUNDOFF * size
    gains[np.isnan(gains)] = np.inf
    return gains
