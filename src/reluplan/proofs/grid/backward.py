"""The backward sweep: values on the grid that no plan can beat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.cells import ABSENT, PRESENT, Grid
from reluplan.proofs.grid.guide import Guide
from reluplan.proofs.grid.majorant import Footprints, footprints, planes_above
from reluplan.proofs.grid.pace import Pace
from reluplan.proofs.grid.pairs import PairBounds, Pairs, combined_rows, corner_values, maximise_actions
from reluplan.proofs.grid.planes import Planes

Array = NDArray[np.float64]
Index = NDArray[np.int64]

CHUNK = 8192
ROUNDOFF = 2.0**-52
OPERATIONS = 64
"""More than the number of roundings between two steps' values, in each of which the largest term may lose an ulp."""


@dataclass(frozen=True, eq=False)
class Values:
    """V at the nodes that are in use at one step: flat node numbers and values."""

    nodes: Index
    values: Array

    def spread(self, node_count: int) -> Array:
        """An array over all nodes, absent ones included."""
        full = np.full(node_count, ABSENT)
        full[self.nodes] = self.values
        return full


class Backward:
    """V_{H+1} = 0 and, for every cell and every action box, V_t(s) >= max over s' of R + V_{t+1}(s').

    Over each pair the function W = node_reward + V_{t+1} is majorised on the image by a plane, s' is replaced by its
    affine bounds (the sign of the slope says which), and the action takes the vertex of its box that is best for the
    plane. That leaves an affine function of s; V_t interpolates the largest ones at the cell's corners. A pair whose
    function stays below incumbent − F_t over the whole cell belongs to no better plan, and is left out.
    """

    def __init__(
        self,
        bounds: PairBounds,
        node_rewards: Array,
        planes: Planes,
        incumbent: float,
        reachable: tuple[Array, Array],
        guide: Guide | None,
    ) -> None:
        self.bounds, self.pairs, self.grid = bounds, bounds.pairs, bounds.pairs.grid
        self.reachable = reachable
        self.node_rewards, self.planes, self.incumbent = node_rewards, planes, incumbent
        self.prints = footprints(self.grid, bounds.image_lower, bounds.image_upper)
        self.group, self.place = _places(self.prints, len(self.pairs))
        self.first = np.full(len(self.pairs), np.iinfo(np.int64).max)
        self.last = np.full(len(self.pairs), -1)
        self.margin = 0.0
        self.guide = guide
        centres = 0.5 * (bounds.image_lower + bounds.image_upper)
        self.guide_cells = None if guide is None else guide.locate(centres)
        self._magnitude = float(max(np.abs(line).max() for line in self.grid.lines))

    @property
    def used(self) -> Pairs:
        """The pairs, with the steps at which the sweep found them in use."""
        return self.pairs.within(self.first, self.last)

    def step(self, t: int, after: Values, pace: Pace) -> Values:
        """V_t (0-based t) from V_{t+1}; notes which pairs stay in use and the rounding error of the step."""
        active = self.pairs.active(t)
        return self._gather(t, active, self.corners(t, active, after, pace))

    def corners(self, t: int, active: Index, after: Values, pace: Pace) -> Array:
        """For each pair its bound of R + V_{t+1}, an affine function of s, at the corners of its cell, (2^n, B)."""
        target = self.node_rewards + after.spread(self.grid.node_count)
        corners = np.full((2**self.grid.dimension, len(active)), ABSENT)
        slopes = None if self.guide is None else self.guide.slopes(t)

        def fill(work: tuple[Index, Footprints, Index, Index]) -> float:
            chosen, prints, members, pair = work
            corners[:, chosen], slope = self._pair_values(prints, members, pair, target, slopes)
            return slope

        steepest = max(pace.map(fill, self._work(t, active)), default=0.0)
        self._add_margin(target, steepest)
        return corners

    def groups_of(self, pairs: Index) -> Iterator[tuple[Footprints, Index, Index]]:
        """Chunks of pairs with footprints of one shape: the footprints, the places there, and the pairs."""
        group = self.group[pairs]
        for number, prints in enumerate(self.prints):
            for part in _chunks(pairs[group == number]):
                yield prints, self.place[part], part

    def _work(self, t: int, active: Index) -> Iterator[tuple[Index, Footprints, Index, Index]]:
        """Chunks of pairs with footprints of one shape: their places among the active pairs, their footprints, their
        places there, and the pairs.

        Images that reach beyond the box of states at t + 1 are cut off there, where values are extrapolated.
        """
        bottom, top = (side[t + 1][:, None] for side in self.reachable)
        low, high = self.bounds.image_lower[:, active], self.bounds.image_upper[:, active]
        beyond = ((low < bottom) | (high > top)).any(axis=0)
        empty = ((low > top) | (high < bottom)).any(axis=0)
        group = np.where(beyond, -1, self.group[active])
        for number, prints in enumerate(self.prints):
            for part in _chunks(np.flatnonzero(group == number)):
                yield part, prints, self.place[active[part]], active[part]
        cut = np.flatnonzero(beyond & ~empty)
        for prints in footprints(self.grid, np.maximum(low[:, cut], bottom), np.minimum(high[:, cut], top)):
            for part in _chunks(np.arange(len(prints.members))):
                chosen = cut[prints.members[part]]
                yield chosen, prints, part, active[chosen]

    def _pair_values(
        self, prints: Footprints, members: Index, pair: Index, target: Array, slopes: Array | None
    ) -> tuple[Array, float]:
        """The affine function of each pair at its cell's corners, (2^n, B), and the steepest slope used."""
        guide = None if slopes is None or self.guide_cells is None else slopes[:, self.guide_cells[pair]]
        slope, height, highest = planes_above(prints, members, target, guide)
        row = combined_rows(self.bounds, pair, slope)
        row[-1] += height - (slope * prints.centres[:, members]).sum(axis=0)
        lower, upper = (side[:, pair] for side in self.bounds.cell_boxes)
        values = corner_values(*maximise_actions(self.bounds, pair, row), lower, upper)
        present = highest > PRESENT
        values[:, ~present] = ABSENT
        return values, float(np.abs(slope[:, present]).max(initial=0.0))

    def _add_margin(self, target: Array, steepest: float) -> None:
        present = target[target > PRESENT]
        size = float(np.abs(present).max(initial=0.0)) + 4.0 * self.grid.dimension * steepest * self._magnitude
        self.margin += OPERATIONS * ROUNDOFF * size

    def _gather(self, t: int, active: Index, corners: Array) -> Values:
        """Drop what cannot improve on the incumbent, then the maximum over pairs at each cell, over cells at nodes."""
        if not len(active):
            return Values(np.zeros(0, dtype=np.int64), np.zeros(0))
        starts, counts = self.pairs.runs(active)
        cells = self.pairs.cells[active[starts]]
        boxes = (side.T for side in self.grid.boxes(cells))
        before = self.planes.at_corners(t, *boxes).repeat(counts, axis=1)
        kept = ((corners + before).max(axis=0) >= self.incumbent) & (corners[0] > PRESENT)
        used = active[kept]
        self.first[used], self.last[used] = np.minimum(self.first[used], t), np.maximum(self.last[used], t)
        corners[:, ~kept] = ABSENT
        return _node_maxima(self.grid, cells, np.maximum.reduceat(corners, starts, axis=1))


def _node_maxima(grid: Grid, cells: Index, corners: Array) -> Values:
    nodes = grid.corner_nodes(cells)
    used, place = np.unique(nodes, return_inverse=True)
    place = place.reshape(nodes.shape)
    values = np.full(len(used), ABSENT)
    for k in range(nodes.shape[1]):  # no two cells share their k-th corner
        values[place[:, k]] = np.maximum(values[place[:, k]], corners[k])
    present = values > PRESENT
    return Values(used[present], values[present])


def _places(prints: list[Footprints], count: int) -> tuple[Index, Index]:
    """For every pair the number of its group of footprints, and its place there."""
    group, place = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for number, part in enumerate(prints):
        group[part.members] = number
        place[part.members] = np.arange(len(part.members))
    return group, place


def _chunks(members: Index) -> Iterator[Index]:
    for start in range(0, len(members), CHUNK):
        yield members[start : start + CHUNK]
