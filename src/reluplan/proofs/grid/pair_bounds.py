"""Affine bounds of the step over every pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.crown import crown_bounds
from reluplan.network.relu_network import ReluNetwork
from reluplan.proofs.grid.model import GridModel
from reluplan.proofs.grid.pairs import Pairs, concatenated
from reluplan.proofs.grid.settings import GridSettings
from reluplan.proofs.grid.timed_pool import TimedPool

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PairBounds:
    """The step over every pair: for s in the cell and a in the action box,

        lower_rows (s, a, 1) <= s' <= upper_rows (s, a, 1)   and   r <= reward_rows (s, a, 1);

    rows (n, n + m + 1, P), reward_rows (n + m + 1, P) or None, image: the box of s' inside the grid, (n, P).
    """

    pairs: Pairs
    lower_rows: Array
    upper_rows: Array
    reward_rows: Array | None
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

    def combined_rows(self, pairs: Index, slope: Array) -> Array:
        """Affine upper bounds of slope · s' + r in (s, a, 1), slopes (n, B) to rows (n + m + 1, B).

        Where the slope is positive s' is replaced by its upper bound, where it is negative by its lower one.
        """
        positive, negative = np.maximum(slope, 0.0), np.minimum(slope, 0.0)
        row = positive[0] * self.upper_rows[0][:, pairs] + negative[0] * self.lower_rows[0][:, pairs]
        for i in range(1, len(slope)):
            row += positive[i] * self.upper_rows[i][:, pairs] + negative[i] * self.lower_rows[i][:, pairs]
        return np.asarray(row if self.reward_rows is None else row + self.reward_rows[:, pairs])

    def maximise_actions(self, pairs: Index, row: Array) -> tuple[Array, Array]:
        """max over the action boxes of affine functions of (s, a): slopes in s (n, B) and offsets (B,).

        The maximum is at the vertex that the signs of the row say.
        """
        n = self.pairs.grid.dimension
        low, high = self.action_boxes
        best = row[-1].copy()
        for j, on_action in enumerate(row[n:-1]):
            best += np.maximum(on_action * low[j, pairs], on_action * high[j, pairs])
        return row[:n], best


def bound_pairs(model: GridModel, pairs: Pairs, pool: TimedPool, settings: GridSettings) -> PairBounds:
    """CROWN bounds over every pair; pairs that leave the grid or violate a constraint are dropped."""
    size = _chunk_size(model.network, settings)

    def bound(start: int) -> PairBounds:
        chunk = pairs.subset(np.arange(start, min(start + size, len(pairs))))
        return _bound_chunk(model, _integral(chunk, model.discrete_actions))

    return _joined(list(pool.map(bound, range(0, max(1, len(pairs)), size))))


def _chunk_size(network: ReluNetwork, settings: GridSettings) -> int:
    """Pairs at once: fewer for large networks, whose back-substitution has rows · columns numbers for each of them."""
    numbers = 1.0
    operations = 1.0
    before = 0.0
    for layer in (*network.hidden, network.output):
        numbers = max(numbers, 2.0 * layer.weights.size)
        operations += 4.0 * layer.unit_count * before + 8.0 * layer.weights.size
        before += layer.weights.size
    most = min(settings.chunk_pairs, settings.chunk_numbers / numbers, settings.chunk_operations / operations)
    return max(1, int(most))


def _integral(pairs: Pairs, discrete: NDArray[np.bool_]) -> Pairs:
    """Boxes of discrete actions shrink to the integers inside; boxes without one go."""
    lower = np.where(discrete, np.ceil(pairs.action_lower), pairs.action_lower)
    upper = np.where(discrete, np.floor(pairs.action_upper), pairs.action_upper)
    return replace(pairs, action_lower=lower, action_upper=upper).subset(np.asarray((lower <= upper).all(axis=1)))


def _bound_chunk(model: GridModel, pairs: Pairs) -> PairBounds:
    n = pairs.grid.dimension
    cell_lower, cell_upper = pairs.grid.boxes(pairs.cells)
    lower = np.hstack([cell_lower, pairs.action_lower])
    upper = np.hstack([cell_upper, pairs.action_upper])
    bounds = crown_bounds(model.network, lower, upper)
    low, high = bounds.output_box(lower, upper)
    lower_rows = np.concatenate([bounds.lower_slope, bounds.lower_offset[:, :, None]], axis=2)
    upper_rows = np.concatenate([bounds.upper_slope, bounds.upper_offset[:, :, None]], axis=2)
    first, last = pairs.grid.ends
    image_lower = np.maximum(low[:, :n], first)
    image_upper = np.minimum(high[:, :n], last)
    rows = slice(n + model.has_rest, None)
    kept = (image_lower <= image_upper).all(axis=1)
    kept &= _may_satisfy(low[:, rows], high[:, rows], model)
    return PairBounds(
        pairs.subset(kept),
        lower_rows[kept, :n].transpose(1, 2, 0),
        upper_rows[kept, :n].transpose(1, 2, 0),
        upper_rows[kept, n].T if model.has_rest else None,
        image_lower[kept].T,
        image_upper[kept].T,
    )


def _may_satisfy(low: Array, high: Array, model: GridModel) -> NDArray[np.bool_]:
    """Which boxes may satisfy all constraints, whose functions lie between low and high (P, c).

    A box is dropped only if it violates one by more than any accepted plan may.
    """
    satisfied = (low <= model.tolerances) & ((high >= -model.tolerances) | ~model.equalities)
    return np.asarray(satisfied.all(axis=1))


def _joined(chunks: list[PairBounds]) -> PairBounds:
    rewards = [chunk.reward_rows for chunk in chunks if chunk.reward_rows is not None]
    return PairBounds(
        concatenated([chunk.pairs for chunk in chunks]),
        np.concatenate([chunk.lower_rows for chunk in chunks], axis=-1),
        np.concatenate([chunk.upper_rows for chunk in chunks], axis=-1),
        np.concatenate(rewards, axis=-1) if rewards else None,
        np.concatenate([chunk.image_lower for chunk in chunks], axis=-1),
        np.concatenate([chunk.image_upper for chunk in chunks], axis=-1),
    )
