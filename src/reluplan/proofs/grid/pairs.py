"""Pairs of a cell and a box of actions: all steps that begin in the cell with an action of the box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from reluplan.proofs.grid.cells import Grid

Array = NDArray[np.float64]
Index = NDArray[np.int64]


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

    def before(self, end: int) -> Pairs:
        """The pairs that are in use at some step before the end, and until then at most."""
        return replace(self, last=np.minimum(self.last, end - 1)).in_use()

    def reachable(self, state_lower: Array, state_upper: Array) -> Pairs:
        """The same pairs, between the first and the last step at which their cell meets the box of states (H, n)."""
        lower, upper = self.grid.boxes(self.cells)
        steps = StepsInUse.never(len(self))
        for t, (low, high) in enumerate(zip(state_lower, state_upper, strict=True)):
            steps.note(np.flatnonzero(((lower <= high) & (upper >= low)).all(axis=1)), t)
        return self.within(steps.first, steps.last)

    def in_use(self) -> Pairs:
        """Without those that are in use at no step."""
        return self.subset(self.first <= self.last)

    def halved(self, split_actions: NDArray[np.bool_]) -> Pairs:
        """Every cell cut in two along each state, every action box along the chosen actions."""
        action_steps = np.array(list(product(*((0, 1) if split else (0,) for split in split_actions))))
        state_steps = self.grid.corner_steps
        cells = (2 * self.cells[:, None, :] + state_steps).repeat(len(action_steps), axis=1)
        width = (self.action_upper - self.action_lower) * np.where(split_actions, 0.5, 1.0)
        lower = self.action_lower[:, None, :] + action_steps * width[:, None, :]
        upper = np.where(split_actions & (action_steps == 0), lower + width[:, None, :], self.action_upper[:, None, :])
        repeat = len(state_steps) * len(action_steps)
        count = len(self) * repeat
        children = Pairs(
            self.grid.halved(),
            cells.reshape(count, cells.shape[-1]),
            np.tile(lower, (1, len(state_steps), 1)).reshape(count, len(split_actions)),
            np.tile(upper, (1, len(state_steps), 1)).reshape(count, len(split_actions)),
            self.first.repeat(repeat),
            self.last.repeat(repeat),
        )
        return children.sorted()

    def sorted(self) -> Pairs:
        """In the order of their cells."""
        return self.subset(np.argsort(self.cells @ self.grid.strides, kind="stable"))


@dataclass(frozen=True, eq=False)
class StepsInUse:
    """The first and the last step at which each of some pairs was found in use, (P,) each; first > last if at none."""

    first: Index
    last: Index

    @classmethod
    def never(cls, count: int) -> StepsInUse:
        """Nothing found yet."""
        return cls(np.full(count, np.iinfo(np.int64).max), np.full(count, -1))

    def note(self, pairs: Index, t: int) -> None:
        """Some pairs are in use at step t."""
        self.first[pairs] = np.minimum(self.first[pairs], t)
        self.last[pairs] = np.maximum(self.last[pairs], t)


def concatenated(parts: Sequence[Pairs]) -> Pairs:
    """Pairs of the same grid, one part after the other."""
    columns = ("cells", "action_lower", "action_upper", "first", "last")
    return Pairs(parts[0].grid, *(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def all_pairs(grid: Grid, lower: Array, upper: Array, parts: int, horizon: int) -> Pairs:
    """Every cell at every step, with the action box [lower, upper] cut into equal parts along each action."""
    cells = grid.cells
    steps = np.array(list(product(range(parts), repeat=len(lower))))
    edges = np.linspace(lower, upper, parts + 1)
    low, high = (np.stack([edges[steps[:, j] + side, j] for j in range(len(lower))], axis=1) for side in (0, 1))
    count = len(cells) * len(steps)
    return Pairs(
        grid,
        cells.repeat(len(steps), axis=0),
        np.tile(low, (len(cells), 1)),
        np.tile(high, (len(cells), 1)),
        np.zeros(count, dtype=np.int64),
        np.full(count, horizon - 1),
    )
