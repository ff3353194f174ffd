"""The Bellman operator over the pairs of one grid, bounded from above."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.proofs.grid.cells import ABSENT, PRESENT, Grid, corner_values
from reluplan.proofs.grid.coarse_slopes import CoarseSlopes
from reluplan.proofs.grid.majorant import planes_above
from reluplan.proofs.grid.node_values import NodeValues
from reluplan.proofs.grid.pair_bounds import PairBounds
from reluplan.proofs.grid.pairs import Pairs
from reluplan.proofs.grid.settings import GridSettings
from reluplan.proofs.grid.stencils import Stencils, make_stencils
from reluplan.proofs.grid.timed_pool import TimedPool

Array = NDArray[np.float64]
Index = NDArray[np.int64]

ROUNDOFF = 2.0**-52

STEP_ROUNDINGS = 64
"""More than the number of roundings between two steps' values, in each of which the largest term may lose an ulp."""

PAIR_OPERATIONS = 500.0
STENCIL_OPERATIONS = 40.0
NODE_OPERATIONS = 20.0
"""What a step costs for each pair, for each node of its image, and for each node of the grid: time on one core, about,
in units of `clock.OPERATIONS_PER_SECOND`."""


@dataclass(frozen=True, eq=False)
class Job:
    """A chunk of pairs with stencils of one shape: their places in the list that is worked on, the stencils, their
    places there, and the pairs."""

    places: Index
    stencils: Stencils
    members: Index
    pairs: Index


@dataclass(frozen=True, eq=False)
class BellmanOperator:
    """For each pair an affine function of s above max over its actions of R(s, a, s') + γ V(s').

    Over each pair the function W = node_reward + γ V is majorised on the image by a plane, s' is replaced by its affine
    bounds (the sign of the slope says which), and the action takes the vertex of its box that is best for the plane.
    That leaves an affine function of s.

    Any slope of the plane is valid. A fitted one is what makes V smooth, but across a cliff of V its plane rises above
    the cliff's top, the next step's above that, and so on. With a limit, `overshoot`, a pair takes the constant
    majorant wherever its function would exceed that by more: then max V_t <= max V_{t+1} + max R + overshoot.

    node_rewards: over all nodes of the grid; to compute them took `node_seconds`.
    reachable: boxes of the states at every step, (H + 1, n) each.
    """

    bounds: PairBounds
    node_rewards: Array
    node_seconds: float
    reachable: tuple[Array, Array]
    coarse_slopes: CoarseSlopes | None
    pool: TimedPool
    settings: GridSettings
    discount: float = 1.0
    overshoot: float = math.inf

    @property
    def pairs(self) -> Pairs:
        return self.bounds.pairs

    @property
    def grid(self) -> Grid:
        return self.bounds.pairs.grid

    def corners(self, t: int, active: Index, after: NodeValues) -> tuple[Array, float]:
        """The affine functions of some pairs for V = V_{t+1} at the corners of their cells, (2^n, B), and the rounding
        error of the values."""
        target = self.target(after)
        corners = np.full((2**self.grid.dimension, len(active)), ABSENT)
        slopes = None if self.coarse_slopes is None else self.coarse_slopes.at_step(t)

        def fill(job: Job) -> float:
            clock.spend(self._operations(job))
            corners[:, job.places], steepest = self._pair_values(job, target, slopes)
            return steepest

        steepest = np.max([0.0, *self.pool.map(fill, self._jobs_at(t, active))])  # which keeps what is not a number
        return corners, self._rounding(target, float(steepest))

    def target(self, after: NodeValues) -> Array:
        """node_reward + γ V over all nodes of the grid, for V = V_{t+1}."""
        clock.spend(NODE_OPERATIONS * self.grid.node_count)
        return self.node_rewards + after.times(self.discount).spread()

    def jobs(self, pairs: Index) -> Iterator[Job]:
        """Chunks of pairs, with the stencils of their whole images."""
        return self._whole_images(pairs, self._group_and_member[0][pairs])

    def _whole_images(self, pairs: Index, group: Index) -> Iterator[Job]:
        """Chunks of the pairs that have a group of stencils (not −1)."""
        member = self._group_and_member[1]
        for number, stencils in enumerate(self._stencils):
            for part in self._chunks(np.flatnonzero(group == number)):
                yield Job(part, stencils, member[pairs[part]], pairs[part])

    def _jobs_at(self, t: int, active: Index) -> Iterator[Job]:
        """Chunks of pairs at one step.

        Images that reach beyond the box of states at t + 1 are cut off there, where values are extrapolated.
        """
        bottom, top = (side[t + 1][:, None] for side in self.reachable)
        low, high = self.bounds.image_lower[:, active], self.bounds.image_upper[:, active]
        beyond = ((low < bottom) | (high > top)).any(axis=0)
        empty = ((low > top) | (high < bottom)).any(axis=0)
        yield from self._whole_images(active, np.where(beyond, -1, self._group_and_member[0][active]))
        cut = np.flatnonzero(beyond & ~empty)
        for stencils in make_stencils(self.grid, np.maximum(low[:, cut], bottom), np.minimum(high[:, cut], top)):
            for part in self._chunks(np.arange(len(stencils))):
                places = cut[stencils.members[part]]
                yield Job(places, stencils, part, active[places])

    def _pair_values(self, job: Job, target: Array, slopes: Array | None) -> tuple[Array, float]:
        """The affine function of each pair at its cell's corners, (2^n, B), and the steepest slope used."""
        coarse = None if slopes is None else slopes[:, self._coarse_cells[job.pairs]]
        share = self.settings.own_slope_share
        slope, height, highest = planes_above(job.stencils, job.members, target, share, coarse)
        values = self._at_corners(job.pairs, slope, height - (slope * job.stencils.centres[:, job.members]).sum(axis=0))
        high = np.flatnonzero(values.max(axis=0) > highest + self._largest_rest[job.pairs] + self.overshoot)
        if len(high):
            values[:, high] = self._at_corners(job.pairs[high], np.zeros_like(slope[:, high]), highest[high])
        absent = highest <= PRESENT
        values[:, absent] = ABSENT
        return values, float(np.abs(slope[:, ~absent]).max(initial=0.0))

    def _at_corners(self, pairs: Index, slope: Array, offset: Array) -> Array:
        """max over the actions of slope · s' + offset + r, bounded by an affine function of s, at the cells' corners,
        (2^n, B)."""
        row = self.bounds.combined_rows(pairs, slope)
        row[-1] += offset
        lower, upper = (side[:, pairs] for side in self.bounds.cell_boxes)
        values = corner_values(*self.bounds.maximise_actions(pairs, row), lower, upper)
        values[np.isnan(values)] = np.inf  # unknown: nothing is proven by it
        return values

    def _rounding(self, target: Array, steepest: float) -> float:
        """Above the rounding error of a step's values."""
        present = target[target > PRESENT]
        size = float(np.abs(present).max(initial=0.0)) + 4.0 * self.grid.dimension * steepest * self._magnitude
        return STEP_ROUNDINGS * ROUNDOFF * size

    @staticmethod
    def _operations(job: Job) -> float:
        """Of what is computed for the pairs of a chunk at one step, about."""
        return len(job.places) * (PAIR_OPERATIONS + STENCIL_OPERATIONS * job.stencils.offsets.size)

    def _chunks(self, members: Index) -> Iterator[Index]:
        size = self.settings.chunk_pairs
        for start in range(0, len(members), size):
            yield members[start : start + size]

    @cached_property
    def _stencils(self) -> list[Stencils]:
        """Of the images of all pairs."""
        return make_stencils(self.grid, self.bounds.image_lower, self.bounds.image_upper)

    @cached_property
    def _group_and_member(self) -> tuple[Index, Index]:
        """For every pair the number of its group of stencils, and its place there."""
        group = np.zeros(len(self.pairs), dtype=np.int64)
        member = np.zeros(len(self.pairs), dtype=np.int64)
        for number, stencils in enumerate(self._stencils):
            group[stencils.members] = number
            member[stencils.members] = np.arange(len(stencils))
        return group, member

    @cached_property
    def _coarse_cells(self) -> Index:
        """For every pair the cell of the coarse grid in which the middle of its image is."""
        assert self.coarse_slopes is not None
        return self.coarse_slopes.locate(0.5 * (self.bounds.image_lower + self.bounds.image_upper))

    @cached_property
    def _largest_rest(self) -> Array:
        """The largest r of every pair, (P,)."""
        if self.bounds.reward_rows is None:
            return np.zeros(len(self.pairs))
        on_states, largest = self.bounds.maximise_actions(np.arange(len(self.pairs)), self.bounds.reward_rows)
        lower, upper = self.bounds.cell_boxes
        return np.asarray(largest + np.maximum(on_states * lower, on_states * upper).sum(axis=0))

    @cached_property
    def _magnitude(self) -> float:
        """The largest state of the grid, in absolute value."""
        return float(max(np.abs(line).max() for line in self.grid.lines))
