"""A bound on the total reward of every plan, by dynamic programming over a grid of the state space.

For any functions V_t with V_t(s) >= R(s, a, s') + V_{t+1}(s') for every feasible step and V_{H+1} >= 0, every plan is
worth at most V_1(s_1). Here V_t interpolates values at the nodes of a grid, made step by step from the last to the
first (`grid_backward`). A plan that beats the incumbent L never is in a cell with F_t + V_t < L, where F_t bounds the
reward collected so far (`grid_forward`): such cells are dropped, the rest is halved, and the sweep is repeated. What it
then proves is that every plan is worth at most max(L, V_1(s_1)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import BetterPlanBounds, HorizonBounds, tightened_for_better_plans
from reluplan.problem.problem import Problem
from reluplan.proofs.grid.backward import Backward, Values
from reluplan.proofs.grid.cells import PRESENT, Grid
from reluplan.proofs.grid.forward import Forward
from reluplan.proofs.grid.guide import Guide
from reluplan.proofs.grid.majorant import footprints, values_at
from reluplan.proofs.grid.model import GridModel, grid_model
from reluplan.proofs.grid.pace import OutOfTime, Pace
from reluplan.proofs.grid.pairs import Pairs, all_pairs, bound_pairs, joined
from reluplan.proofs.grid.planes import no_planes, slope_fan

Array = NDArray[np.float64]
Index = NDArray[np.int64]

MOST_STATES = 3
FIRST_CELLS = {1: 128, 2: 40, 3: 14}
"""Cells along each state of the first grid, by the number of states."""

FIRST_ACTION_PARTS = 2
MOST_BYTES = 2.4e9
MOST_NODES = 3_000_000
NODE_PASSES = 10
"""Over all nodes of a grid, in a sweep and what comes after it."""
MOST_GUIDE_NODES = 120_000
SLACK = 1e-9
"""Relative: plans this little better than the incumbent are not looked for."""

FROZEN_SHARE = 0.003
"""Steps whose values gained less than this share of the first step's are not swept again."""

LATE_SHARES = (0.03, 0.1, 0.3, np.inf)
"""Pairs of the late steps, whose values gained less than this share, keep their action boxes: they are many, and matter
little. The first share is taken with which the finer pairs fit into the memory."""

SLOPE_SHARES = (0.15, 0.5, 1.0)
"""Slopes of the planes above the collected reward, in parts of a typical slope of V."""


def grid_applies(problem: Problem) -> bool:
    """Whether the grid can bound this problem: one to three states, all continuous, and no auxiliaries."""
    few = 1 <= len(problem.states) <= MOST_STATES
    return few and not problem.auxiliaries and not problem.discrete_states.any()


def grid_bound(
    problem: Problem,
    bounds: BetterPlanBounds,
    incumbent: float | None,
    deadline: float,
    offer: Callable[[float, float], None],
    tell: Callable[[str], None],
    workers: int = 1,
) -> BetterPlanBounds:
    """Offers ever better bounds (value, rounding margin) on the reward of all plans, on ever finer grids, until the
    deadline (of clock.now), or until nothing better than the incumbent is left.

    bounds: boxes that contain every feasible plan. Constraints and the goal are used where they rule out whole boxes.
    Returns boxes that contain every plan better than the incumbent: its states and actions become narrower.
    """
    ends = [bounds.state_lower, bounds.state_upper, bounds.action_lower, bounds.action_upper]
    if not grid_applies(problem) or not all(np.isfinite(end).all() for end in ends):
        return bounds
    with ThreadPoolExecutor(max(1, workers)) as pool:
        search = _Search(problem, bounds, incumbent, Pace(deadline, pool if workers > 1 else None))
        try:
            while True:
                value, margin = search.sweep()
                tell(search.describe(value))
                if value < np.inf and (incumbent is not None or value > -np.inf):
                    offer(value if incumbent is None else max(value, incumbent), margin)
                if value <= search.threshold or not search.refine():
                    break
        except OutOfTime:
            tell("the time for the grid is over")
    return bounds if incumbent is None else tightened_for_better_plans(bounds, search.narrowed.arrays())


class _Search:
    """Grids of growing fineness over the part of the state space where a better plan could be.

    end: the number of steps that the next sweep goes through; final: V after them, from an earlier sweep if the steps
    after `end` hardly gain from finer grids any more. threshold: plans below it need no bound. narrowed: boxes of the
    plans above it.
    """

    def __init__(self, problem: Problem, bounds: HorizonBounds, incumbent: float | None, pace: Pace) -> None:
        self.problem, self.bounds, self.narrowed, self.pace = problem, bounds, bounds.copied(), pace
        self.slack = 0.0 if incumbent is None else SLACK * max(1.0, abs(incumbent))
        self.threshold = -np.inf if incumbent is None else incumbent - self.slack
        self.model = grid_model(problem)
        self.planes = no_planes(len(problem.states), problem.horizon)
        self.pairs = _first_pairs(self.model, bounds)
        self.guide: Guide | None = None
        self.end = problem.horizon
        self.final = _final_values(problem, bounds, self.pairs.grid)
        self.margin = 0.0
        self.node_seconds = 0.0
        self.values: list[Values] = []
        self.coarser_values: list[Values] = []

    def sweep(self) -> tuple[float, float]:
        """One backward sweep on the current grid: the bound and its margin.

        If the time runs out at step t, every plan is still worth at most the maximum of F_t + V_t.
        """
        grid = self.pairs.grid
        bounds = bound_pairs(self.model, self.pairs, self.pace)
        began = clock.now()
        rewards = self.model.rewards_at(grid.nodes)
        self.node_seconds = clock.now() - began
        reachable = self.bounds.state_lower, self.bounds.state_upper
        if self.guide is None:  # no slopes to go by beyond the reachable boxes: go everywhere
            reachable = _everywhere(grid, self.problem.horizon)
        self.backward = Backward(bounds, rewards, self.planes, self.threshold, reachable, self.guide)
        self.coarser_values, self.values = self.values, [self.final]
        for t in reversed(range(self.end)):
            try:
                self.values.insert(0, self.backward.step(t, self.values[0], self.pace))
            except OutOfTime:
                return self._bound_at(t + 1), self.margin + self.backward.margin
        if grid.node_count < MOST_GUIDE_NODES:
            targets = [rewards + after.spread(grid.node_count) for after in self.values[1:]]
            self.guide = Guide(grid, targets, self.guide)
        value = _maximum(grid, self.values[0], self.bounds.state_lower[0], self.bounds.state_upper[0])
        return value, self.margin + self.backward.margin

    def _bound_at(self, t: int) -> float:
        """max F_t + V_t over the cells with values."""
        grid = self.pairs.grid
        pairs = self.backward.pairs
        active = pairs.active(t)
        cells = pairs.cells[active[pairs.runs(active)[0]]] if t < self.end else grid.cells
        full = self.values[0].spread(grid.node_count)[grid.corner_nodes(cells)].T
        before = self.planes.at_corners(t, *(side.T for side in grid.boxes(cells)))
        known = (full > PRESENT).all(axis=0)
        return float((full + before)[:, known].max(initial=-np.inf))

    def describe(self, value: float) -> str:
        """What the sweep did, for progress reports."""
        cells = " x ".join(str(len(line) - 1) for line in self.pairs.grid.lines)
        return f"grid of {cells} cells, {len(self.pairs)} pairs, {self.end} steps: at most {value:.7g}"

    def refine(self) -> bool:
        """Forward sweep, drop what no better plan visits, halve the rest; whether there is room and time for it."""
        self.pace.check()
        used = _reachable(self.backward.used, self.bounds)
        start = self.bounds.state_lower[0], self.bounds.state_upper[0]
        if np.isfinite(self.threshold) and self.margin + self.backward.margin > self.slack:
            return False  # rounding could decide which cells are dropped
        if np.isfinite(self.threshold):
            slopes = slope_fan(used.grid.dimension, self._slope_sizes())
            forward = Forward(self.backward, used, self.values, slopes)
            try:
                self.planes, used = forward.sweep(start, self.pace)
            finally:
                self._narrow(forward.boxes)
        self.pace.check()
        gains = self._gains()
        self._freeze_end(gains)
        used = used.within(np.zeros_like(used.first), np.full_like(used.last, self.end - 1))
        used = used.subset(used.first <= used.last)
        if used.grid.halved().node_count > MOST_NODES or not self._has_time_for_finer_nodes():
            return False
        for share in LATE_SHARES:
            parts = self._parts(used, used.first >= _steps_above(gains, share))
            if sum(_bytes(*part) for part in parts) <= MOST_BYTES:
                self.pace.check()
                finer = _reachable(joined([pairs.halved(split) for pairs, split in parts]), self.bounds)
                self.pairs = finer.subset(finer.first <= finer.last)
                return True
        return False

    def _has_time_for_finer_nodes(self) -> bool:
        """Whether the next grid's nodes alone can be gone through, which no deadline interrupts: each pass over them
        takes as long as that of the rewards, times the growth of their number."""
        expected = NODE_PASSES * 2**self.pairs.grid.dimension * self.node_seconds
        return bool(clock.now() + expected <= self.pace.deadline)

    def _parts(self, used: Pairs, late: NDArray[np.bool_]) -> list[tuple[Pairs, NDArray[np.bool_]]]:
        """Pairs with the actions to split: those of late steps keep their action boxes."""
        split = self._actions_to_split()
        return [(used.subset(~late), split), (used.subset(late), np.zeros_like(split))]

    def _narrow(self, boxes: Sequence[tuple[Array, Array]]) -> None:
        """Intersect what is known of better plans with the boxes of states and actions from the first step on."""
        count, known = len(self.problem.states), self.narrowed
        for t, (low, high) in enumerate(boxes):
            known.state_lower[t] = np.maximum(known.state_lower[t], low[:count])
            known.state_upper[t] = np.minimum(known.state_upper[t], high[:count])
            known.action_lower[t] = np.maximum(known.action_lower[t], low[count:])
            known.action_upper[t] = np.minimum(known.action_upper[t], high[count:])

    def _gains(self) -> Array:
        """By how much the finer grid has lowered V at each step; empty before the second sweep."""
        grid = self.pairs.grid
        if len(self.coarser_values) <= self.end:
            return np.zeros(0)
        return np.array([_gain(grid, *pair) for pair in zip(self.values, self.coarser_values, strict=False)])

    def _freeze_end(self, gains: Array) -> None:
        """Leave out the last steps, if the finer grid has lowered V there by little of what it gained at the start.

        Their V is interpolated on the finer grid, which changes no value.
        """
        grid, fine = self.pairs.grid, self.pairs.grid.halved()
        end = _steps_above(gains, FROZEN_SHARE)
        if 0 < end < self.end:
            self.end = end
            self.margin += self.backward.margin
        self.final = _interpolated(grid, fine, self.values[self.end])

    def _slope_sizes(self) -> list[float]:
        """Slopes on the scale of V: how much V varies over the grid's cells."""
        grid = self.pairs.grid
        cells = self.pairs.cells[self.pairs.runs(np.arange(len(self.pairs)))[0]]
        lower, upper = grid.boxes(cells)
        nodes, width = grid.corner_nodes(cells), (upper - lower).max(axis=1)
        steepest = 0.0
        for values in self.values[:: max(1, len(self.values) // 8)]:
            corners = values.spread(grid.node_count)[nodes]
            known = (corners > PRESENT).all(axis=1)
            if known.any():
                steepest = max(steepest, float(np.median(np.ptp(corners[known], axis=1) / width[known])))
        return [share * (steepest or 1.0) for share in SLOPE_SHARES]

    def _actions_to_split(self) -> NDArray[np.bool_]:
        """Actions whose box moves the next state by more than a cell of the next grid."""
        pairs = self.backward.pairs
        if not len(pairs):
            return np.zeros(pairs.action_lower.shape[1], dtype=bool)
        width = (pairs.action_upper - pairs.action_lower).mean(axis=0) * self.backward.bounds.action_gain
        cell = min(float(np.median(np.diff(line))) for line in pairs.grid.lines)
        split: NDArray[np.bool_] = width > 0.75 * cell
        return split


def _bytes(pairs: Pairs, split: NDArray[np.bool_]) -> float:
    """About the memory that the halved pairs would take."""
    n, m = pairs.grid.dimension, len(split)
    growth = 2 ** (n + int(split.sum()))
    planes = 1 + len(SLOPE_SHARES) * (3**n - 1)
    numbers = 2 * n * (n + m + 1) + 16 * n + 4 * m + 8 + planes
    return 8.0 * len(pairs) * float(growth) * float(numbers)


def _steps_above(gains: Array, share: float) -> int:
    """How many steps there are up to the last that gained more than a share of the first; all if nothing is known."""
    if np.isinf(share):
        return 0
    if not len(gains):
        return np.iinfo(np.int64).max
    large = np.flatnonzero(gains > share * gains[0])
    return int(large[-1]) + 1 if len(large) else 0


def _gain(grid: Grid, values: Values, coarser: Values) -> float:
    """By how much V has come down between two sweeps, at the nodes of the coarser grid that both use; median."""
    fine = values.spread(grid.node_count).reshape([len(line) for line in grid.lines])
    fine = fine[(slice(None, None, 2),) * grid.dimension].ravel()
    coarse = coarser.spread(len(fine))
    both = (fine > PRESENT) & (coarse > PRESENT)
    return float(np.median(coarse[both] - fine[both])) if both.any() else 0.0


def _interpolated(grid: Grid, fine: Grid, values: Values) -> Values:
    """The same function at the nodes of the halved grid."""
    full = values.spread(grid.node_count).reshape([len(line) for line in grid.lines])
    for i in range(grid.dimension):
        along = np.moveaxis(full, i, 0)
        finer = np.empty((2 * len(along) - 1, *along.shape[1:]))
        finer[::2], finer[1::2] = along, 0.5 * (along[:-1] + along[1:])
        full = np.moveaxis(finer, 0, i)
    flat = full.ravel()
    assert len(flat) == fine.node_count
    nodes = np.flatnonzero(flat > PRESENT)
    return Values(nodes, flat[nodes])


def _first_pairs(model: GridModel, bounds: HorizonBounds) -> Pairs:
    lower, upper = bounds.state_lower.min(axis=0), bounds.state_upper.max(axis=0)
    grid = Grid.even(lower, upper, [FIRST_CELLS[len(lower)]] * len(lower), model.breakpoints)
    count = len(grid.cells)
    first, last = np.zeros(count, dtype=np.int64), np.full(count, bounds.horizon - 1)
    actions = bounds.action_lower.min(axis=0), bounds.action_upper.max(axis=0)
    return all_pairs(grid, *actions, FIRST_ACTION_PARTS, first, last)


def _reachable(pairs: Pairs, bounds: HorizonBounds) -> Pairs:
    """The pairs between the first and the last step at which the reachable box meets their cell."""
    lower, upper = pairs.grid.boxes(pairs.cells)
    first, last = np.full(len(pairs), np.iinfo(np.int64).max), np.full(len(pairs), -1)
    for t in range(bounds.horizon):
        meets = ((lower <= bounds.state_upper[t]) & (upper >= bounds.state_lower[t])).all(axis=1)
        first[meets], last[meets] = np.minimum(first[meets], t), t
    return pairs.within(first, last)


def _everywhere(grid: Grid, horizon: int) -> tuple[Array, Array]:
    """The whole grid at every step."""
    ends = np.array([[line[0], line[-1]] for line in grid.lines])
    return np.tile(ends[:, 0], (horizon + 1, 1)), np.tile(ends[:, 1], (horizon + 1, 1))


def _final_values(problem: Problem, bounds: HorizonBounds, grid: Grid) -> Values:
    """V_{H+1} = 0 at the corners of cells that meet the last reachable box and may satisfy the goal."""
    cells = grid.cells
    lower, upper = grid.boxes(cells)
    meets = ((lower <= bounds.state_upper[-1]) & (upper >= bounds.state_lower[-1])).all(axis=1)
    low, high = np.zeros((2, len(cells), problem.layout.width))
    low[:, problem.layout.states], high[:, problem.layout.states] = lower, upper
    for constraint in problem.goal:
        least, most = constraint.function.bounds(low, high)
        meets &= (least <= 1e-6) & ((most >= -1e-6) if constraint.equality else True)
    nodes = np.unique(grid.corner_nodes(cells[meets]))
    return Values(nodes, np.zeros(len(nodes)))


def _maximum(grid: Grid, values: Values, lower: Array, upper: Array) -> float:
    """The largest value over a box."""
    (prints,) = footprints(grid, lower[:, None], upper[:, None])
    found = float(values_at(prints, np.zeros(1, dtype=np.int64), values.spread(grid.node_count))[1].max())
    return found if found > PRESENT else -np.inf
