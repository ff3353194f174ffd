"""The forward sweep: how much reward a better plan can have collected on its way, and where it can be at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.backward import ROUNDOFF, Backward, Values
from reluplan.proofs.grid.majorant import Footprints, planes_above
from reluplan.proofs.grid.pace import Pace
from reluplan.proofs.grid.pairs import Pairs, combined_rows, maximise_actions
from reluplan.proofs.grid.planes import Planes

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Forward:
    """F_1 = 0 over the start box, and offset_{t+1,k} = max over the pairs in use at t of F_t + R − λ_k · s'.

    That is at most max over the cell of F_t(s) − λ_k · s, plus the pair's gain, which no step changes:
    gain_k = max over the pair of λ_k · (s − s') + R. The first of the two is at most offset_{t,k}, and at most what
    the plane says that is lowest in the middle of the cell. Pairs with F_t + R + V_{t+1} below the incumbent are no
    longer in use. values: V_1 .. V_{H+1} of the backward sweep. boxes: (lower, upper) around the states and actions
    (n + m,) of the pairs in use at each step so far.
    """

    def __init__(self, backward: Backward, used: Pairs, values: Sequence[Values], slopes: Array) -> None:
        self.backward, self.used, self.values, self.slopes = backward, used, values, slopes
        self.boxes: list[tuple[Array, Array]] = []
        self.first = np.full(len(used), np.iinfo(np.int64).max)
        self.last = np.full(len(used), -1)
        self._gains = np.empty((len(slopes), len(used)))
        self._has_gain = np.zeros(len(used), dtype=bool)

    def sweep(self, start: tuple[Array, Array], pace: Pace) -> tuple[Planes, Pairs]:
        """The planes, and the pairs with the steps at which they are still in use."""
        horizon = len(self.values) - 1
        planes = Planes(self.slopes, np.full((horizon + 1, len(self.slopes)), -np.inf))
        planes.offsets[0] = -np.minimum(self.slopes * start[0], self.slopes * start[1]).sum(axis=1)
        for t in range(horizon):
            planes.offsets[t + 1] = self._step(t, planes, pace)
        return planes, self.used.within(self.first, self.last)

    def _step(self, t: int, planes: Planes, pace: Pace) -> Array:
        active, before, relative = self._possible(t, planes)
        corners = self.backward.corners(t, active, self.values[t + 1], pace)
        kept = (corners + before).max(axis=0) >= self.backward.incumbent
        active, relative = active[kept], relative[:, kept]
        self.first[active], self.last[active] = np.minimum(self.first[active], t), np.maximum(self.last[active], t)
        self.boxes.append(self._box(active))
        self._compute_gains(active, pace)
        return np.asarray((relative + self._gains[:, active]).max(axis=1, initial=-np.inf))

    def _box(self, pairs: Index) -> tuple[Array, Array]:
        """The smallest box around some pairs; lower > upper if there are none."""
        lower, upper = self.used.grid.boxes(self.used.cells[pairs])
        low, high = np.hstack([lower, self.used.action_lower[pairs]]), np.hstack([upper, self.used.action_upper[pairs]])
        return low.min(axis=0, initial=np.inf), high.max(axis=0, initial=-np.inf)

    def _possible(self, t: int, planes: Planes) -> tuple[Index, Array, Array]:
        """The pairs whose cells have F_t + V_t at least the incumbent, F_t at their corners, and F_t − λ_k · s."""
        active = self.used.active(t)
        grid = self.used.grid
        starts, counts = self.used.runs(active)
        cells = self.used.cells[active[starts]]
        lower, upper = (side.T for side in grid.boxes(cells))
        before = planes.at_corners(t, lower, upper)
        values = self.values[t].spread(grid.node_count)[grid.corner_nodes(cells)].T
        possible = ((before + values).max(axis=0) >= self.backward.incumbent).repeat(counts)
        relative = planes.relative(t, lower, upper)
        cell = np.repeat(np.arange(len(cells)), counts)[possible]
        return active[possible], before[:, cell], relative[:, cell]

    def _compute_gains(self, pairs: Index, pace: Pace) -> None:
        """Gains of pairs that are needed for the first time."""
        new = pairs[~self._has_gain[pairs]]
        self._has_gain[new] = True

        def fill(work: tuple[Footprints, Index, Index]) -> None:
            prints, members, pair = work
            self._gains[:, pair] = _gains(self.backward, prints, members, self.slopes)

        for _ in pace.map(fill, self.backward.groups_of(new)):
            pass


def _gains(backward: Backward, prints: Footprints, chosen: Index, slopes: Array) -> Array:
    """max over cell and action box of λ · s − λ · s' + R for every plane λ, (K, B), rounded up."""
    bounds, pair = backward.bounds, prints.members[chosen]
    slope, height, _ = planes_above(prints, chosen, backward.node_rewards)
    height = height - (slope * prints.centres[:, chosen]).sum(axis=0)
    lower, upper = (side[:, pair] for side in bounds.cell_boxes)
    reach = 1.0 + np.maximum(np.abs(lower), np.abs(upper)).max(axis=0)
    gains = np.empty((len(slopes), len(pair)))
    for k, plane in enumerate(slopes):
        row = combined_rows(bounds, pair, slope - plane[:, None])
        row[: len(plane)] += plane[:, None]
        row[-1] += height
        on_states, offset = maximise_actions(bounds, pair, row)
        size = np.abs(offset) + np.abs(height) + (np.abs(slope) + np.abs(plane)[:, None]).sum(axis=0) * reach
        gains[k] = offset + np.maximum(on_states * lower, on_states * upper).sum(axis=0) + 256 * ROUNDOFF * size
    return gains
