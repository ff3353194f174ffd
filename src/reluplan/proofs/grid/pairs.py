"""Pairs of a cell and a box of actions, with affine bounds of the step over each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.crown import crown_bounds
from reluplan.network.relu_network import ReluNetwork
from reluplan.proofs.grid.cells import Grid
from reluplan.proofs.grid.model import GridModel
from reluplan.proofs.grid.pace import Pace

Array = NDArray[np.float64]
Index = NDArray[np.int64]

CHUNK = 8192
MOST_NUMBERS, MOST_OPERATIONS = 3e7, 5e8
"""Pairs that are bounded at once, and the numbers and the operations that this may take."""
"""Boxes that are bounded at once: enough to keep numpy busy, few enough for the cache."""

TOLERANCE = 1e-6
"""A pair is dropped only if it violates a constraint by more than any accepted plan may."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """P pairs of a cell (P, n) and an action box (P, m), sorted by cell, each with the first and the last step
    (0-based) at which a plan that matters may use it."""

    grid: Grid
    cells: Index
    action_lower: Array
    action_upper: Array
    first: Index
    last: Index

    def __len__(self) -> int:
        return len(self.cells)

    def subset(self, chosen: NDArray[np.bool_] | Index) -> Pairs:
        """Only the chosen pairs, which keep their order."""
        return Pairs(
            self.grid,
            self.cells[chosen],
            self.action_lower[chosen],
            self.action_upper[chosen],
            self.first[chosen],
            self.last[chosen],
        )

    def active(self, t: int) -> Index:
        """The pairs that may be used at step t."""
        return np.flatnonzero((self.first <= t) & (t <= self.last))

    def runs(self, chosen: Index) -> tuple[Index, Index]:
        """Where each cell begins among the chosen pairs, and how many pairs it has there."""
        number = self.cells[chosen] @ self.grid.strides
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        return starts, np.diff(np.append(starts, len(chosen)))

    def within(self, first: Index, last: Index) -> Pairs:
        """The same pairs, in use from first to last at most."""
        return replace(self, first=np.maximum(self.first, first), last=np.minimum(self.last, last))

    @property
    def step_count(self) -> int:
        """How many (pair, step) combinations there are: the work of one sweep."""
        return int(np.maximum(self.last - self.first + 1, 0).sum())

    def halved(self, split_actions: NDArray[np.bool_]) -> Pairs:
        """Every cell cut in two along each state, every action box along the chosen actions."""
        action_steps = np.array(list(product(*((0, 1) if split else (0,) for split in split_actions))))
        state_steps = self.grid.corner_steps
        cells = (2 * self.cells[:, None, :] + state_steps).repeat(len(action_steps), axis=1)
        width = (self.action_upper - self.action_lower) * np.where(split_actions, 0.5, 1.0)
        lower = self.action_lower[:, None, :] + action_steps * width[:, None, :]
        upper = np.where(split_actions & (action_steps == 0), lower + width[:, None, :], self.action_upper[:, None, :])
        repeat = len(state_steps) * len(action_steps)
        states, actions = (len(self) * repeat, cells.shape[-1]), (len(self) * repeat, len(split_actions))
        children = Pairs(
            self.grid.halved(),
            cells.reshape(states),
            np.tile(lower, (1, len(state_steps), 1)).reshape(actions),
            np.tile(upper, (1, len(state_steps), 1)).reshape(actions),
            self.first.repeat(repeat),
            self.last.repeat(repeat),
        )
        return children.sorted()

    def sorted(self) -> Pairs:
        """In the order of their cells."""
        return self.subset(np.argsort(self.cells @ self.grid.strides, kind="stable"))


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Pairs of the same grid, together."""
    columns = ("cells", "action_lower", "action_upper", "first", "last")
    return Pairs(
        parts[0].grid, *(np.concatenate([getattr(part, name) for part in parts]) for name in columns)
    ).sorted()  # fmt: skip


def all_pairs(grid: Grid, lower: Array, upper: Array, parts: int, first: Index, last: Index) -> Pairs:
    """Every cell, from its first to its last step, with the action box [lower, upper] cut into equal parts."""
    cells = grid.cells
    steps = np.array(list(product(range(parts), repeat=len(lower))))
    edges = np.linspace(lower, upper, parts + 1)
    low, high = (np.stack([edges[steps[:, j] + side, j] for j in range(len(lower))], axis=1) for side in (0, 1))
    return Pairs(
        grid,
        cells.repeat(len(steps), axis=0),
        np.tile(low, (len(cells), 1)),
        np.tile(high, (len(cells), 1)),
        first.repeat(len(steps)),
        last.repeat(len(steps)),
    )


@dataclass(frozen=True, eq=False)
class PairBounds:
    """The step over every pair: for s in the cell and a in the action box,

        lower_rows (s, a, 1) <= s' <= upper_rows (s, a, 1)   and   r <= rest_rows (s, a, 1);

    rows (n, n + m + 1, P), rest_rows (n + m + 1, P) or None, image: the box of s' inside the grid, (n, P).
    """

    pairs: Pairs
    lower_rows: Array
    upper_rows: Array
    rest_rows: Array | None
    image_lower: Array
    image_upper: Array

    @cached_property
    def cell_boxes(self) -> tuple[Array, Array]:
        """Lower and upper corners of the cells, (n, P)."""
        lower, upper = self.pairs.grid.boxes(self.pairs.cells)
        return lower.T.copy(), upper.T.copy()

    @cached_property
    def action_boxes(self) -> tuple[Array, Array]:
        """Lower and upper corners of the action boxes, (m, P)."""
        return self.pairs.action_lower.T.copy(), self.pairs.action_upper.T.copy()

    @cached_property
    def action_gain(self) -> Array:
        """How far one unit of each action moves a state, on average over the pairs, (m,)."""
        return np.asarray(np.abs(self.upper_rows[:, self.pairs.grid.dimension : -1]).mean(axis=2).max(axis=0))


def bound_pairs(model: GridModel, pairs: Pairs, pace: Pace) -> PairBounds:
    """CROWN bounds over every pair; pairs that leave the grid or violate a constraint are dropped."""

    size = _chunk_size(model.network)

    def bound(start: int) -> PairBounds:
        chunk = pairs.subset(np.arange(start, min(start + size, len(pairs))))
        return _bound_chunk(model, _integral(chunk, model.discrete_actions))

    return _joined(list(pace.map(bound, range(0, max(1, len(pairs)), size))))


def _chunk_size(network: ReluNetwork) -> int:
    """Pairs at once: fewer for large networks, whose back-substitution has rows · columns numbers for each of them."""
    numbers, operations, before = 1.0, 1.0, 0.0
    for layer in (*network.hidden, network.output):
        numbers = max(numbers, 2.0 * layer.weights.size)
        operations += 4.0 * layer.unit_count * before + 8.0 * layer.weights.size
        before += layer.weights.size
    return max(1, int(min(CHUNK, MOST_NUMBERS / numbers, MOST_OPERATIONS / operations)))


def combined_rows(bounds: PairBounds, pair: Index, slope: Array) -> Array:
    """Affine upper bounds of slope · s' + r in (s, a, 1), slopes (n, B) to rows (n + m + 1, B)."""
    positive, negative = np.maximum(slope, 0.0), np.minimum(slope, 0.0)
    row = positive[0] * bounds.upper_rows[0][:, pair] + negative[0] * bounds.lower_rows[0][:, pair]
    for i in range(1, len(slope)):
        row += positive[i] * bounds.upper_rows[i][:, pair] + negative[i] * bounds.lower_rows[i][:, pair]
    return np.asarray(row if bounds.rest_rows is None else row + bounds.rest_rows[:, pair])


def maximise_actions(bounds: PairBounds, pair: Index, row: Array) -> tuple[Array, Array]:
    """max over the action boxes of affine functions of (s, a): slopes in s (n, B) and offsets (B,)."""
    n = bounds.pairs.grid.dimension
    low, high = bounds.action_boxes
    best = row[-1].copy()
    for j, on_action in enumerate(row[n:-1]):
        best += np.maximum(on_action * low[j, pair], on_action * high[j, pair])
    return row[:n], best


def corner_values(slope: Array, offset: Array, lower: Array, upper: Array) -> Array:
    """slope · s + offset at the corners of boxes, (2^n, B), the last state varying fastest."""
    values = offset[None]
    for i in range(len(slope)):
        ends = np.stack([slope[i] * lower[i], slope[i] * upper[i]])
        values = (values[:, None] + ends).reshape(-1, len(offset))
    return values


def _integral(pairs: Pairs, discrete: NDArray[np.bool_]) -> Pairs:
    """Boxes of discrete actions shrink to the integers inside; boxes without one go."""
    lower = np.where(discrete, np.ceil(pairs.action_lower), pairs.action_lower)
    upper = np.where(discrete, np.floor(pairs.action_upper), pairs.action_upper)
    return replace(pairs, action_lower=lower, action_upper=upper).subset(np.asarray((lower <= upper).all(axis=1)))


def _bound_chunk(model: GridModel, pairs: Pairs) -> PairBounds:
    n = pairs.grid.dimension
    cell_lower, cell_upper = pairs.grid.boxes(pairs.cells)
    lower, upper = np.hstack([cell_lower, pairs.action_lower]), np.hstack([cell_upper, pairs.action_upper])
    bounds = crown_bounds(model.network, lower, upper)
    low, high = bounds.output_box(lower, upper)
    lower_rows = np.concatenate([bounds.lower_slope, bounds.lower_offset[:, :, None]], axis=2)
    upper_rows = np.concatenate([bounds.upper_slope, bounds.upper_offset[:, :, None]], axis=2)
    edges = np.array([[line[0], line[-1]] for line in pairs.grid.lines])
    image_lower, image_upper = np.maximum(low[:, :n], edges[:, 0]), np.minimum(high[:, :n], edges[:, 1])
    kept = (image_lower <= image_upper).all(axis=1)
    rules = slice(n + model.has_rest, None)
    kept &= (low[:, rules] <= TOLERANCE).all(axis=1)
    kept &= ((high[:, rules] >= -TOLERANCE) | ~model.equalities).all(axis=1)
    return PairBounds(
        pairs.subset(kept),
        lower_rows[kept, :n].transpose(1, 2, 0),
        upper_rows[kept, :n].transpose(1, 2, 0),
        upper_rows[kept, n].T if model.has_rest else None,
        image_lower[kept].T,
        image_upper[kept].T,
    )


def _joined(chunks: list[PairBounds]) -> PairBounds:
    pairs = [chunk.pairs for chunk in chunks]
    rest = [chunk.rest_rows for chunk in chunks if chunk.rest_rows is not None]
    return PairBounds(
        Pairs(
            pairs[0].grid,
            np.concatenate([p.cells for p in pairs]),
            np.concatenate([p.action_lower for p in pairs]),
            np.concatenate([p.action_upper for p in pairs]),
            np.concatenate([p.first for p in pairs]),
            np.concatenate([p.last for p in pairs]),
        ),
        np.concatenate([chunk.lower_rows for chunk in chunks], axis=-1),
        np.concatenate([chunk.upper_rows for chunk in chunks], axis=-1),
        np.concatenate(rest, axis=-1) if rest else None,
        np.concatenate([chunk.image_lower for chunk in chunks], axis=-1),
        np.concatenate([chunk.image_upper for chunk in chunks], axis=-1),
    )
