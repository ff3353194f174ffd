"""Grids of boxes over the state space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

ABSENT = -1e300
"""The value of a node that belongs to no cell in use."""

PRESENT = -1e100
"""Values above this are real ones; interpolation between absent and real nodes stays far below."""

LARGEST_VALUE = 1e90
"""No value is larger in size than this: those of absent nodes lie far below."""

FLAT = 1e-9
"""Width, relative to its place, of the one cell along a state that cannot vary: a cell needs two different lines."""

SMALLEST_CELL = 2.0**-38
"""Width, relative to max(1, |place|): lines closer than this are one, and cells this small are not halved for long:
`can_halve` ends it where a middle would be no number of its own."""

FINEST_CELL = 2.0**-47
"""Relative to max(1, |place|): the smallest cells that are halved; the middle of one is clearly between its ends."""

ROUNDED_CELL = 1e-6
"""Of a cell's width: an interval this little longer than some cells is not given one more."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A tensor grid: increasing lines for each state; node (i_1, .., i_n) stands where lines i_1, .., i_n cross, and
    cell (i_1, .., i_n) is the box from that node to the next ones."""

    lines: tuple[Array, ...]

    @classmethod
    def even(cls, lower: Array, upper: Array, counts: Sequence[int], breakpoints: Sequence[Array]) -> Grid:
        """About counts[i] equal cells along state i, with a line at every breakpoint inside."""
        return cls(tuple(map(_even_lines, lower.tolist(), upper.tolist(), counts, breakpoints)))

    @property
    def dimension(self) -> int:
        return len(self.lines)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of nodes along each state."""
        return tuple(len(line) for line in self.lines)

    @property
    def ends(self) -> tuple[Array, Array]:
        """The first and the last line of each state, (n,) each."""
        return np.array([line[0] for line in self.lines]), np.array([line[-1] for line in self.lines])

    @cached_property
    def strides(self) -> Index:
        """Flat node number = indices @ strides."""
        return np.array([int(np.prod(self.shape[i + 1 :])) for i in range(self.dimension)], dtype=np.int64)

    @property
    def can_halve(self) -> bool:
        """Whether every cell has a middle of its own."""
        widths = [np.diff(line) / np.maximum(1.0, np.abs(line[1:])) for line in self.lines]
        return all(bool((width > FINEST_CELL).all()) for width in widths)

    @property
    def node_count(self) -> int:
        return int(np.prod(self.shape))

    @property
    def cells(self) -> Index:
        """Every cell, (C, n)."""
        return np.indices([count - 1 for count in self.shape]).reshape(self.dimension, -1).T.copy()

    @property
    def nodes(self) -> Array:
        """The position of every node, (node_count, n)."""
        return np.stack(np.meshgrid(*self.lines, indexing="ij"), axis=-1).reshape(-1, self.dimension)

    @cached_property
    def corner_steps(self) -> Index:
        """From a cell's first node to each of its 2^n corners, in indices, (2^n, n)."""
        return np.array(list(product((0, 1), repeat=self.dimension)), dtype=np.int64)

    def boxes(self, cells: Index) -> tuple[Array, Array]:
        """The boxes of some cells, two arrays (C, n)."""
        lower = np.stack([line[cells[:, i]] for i, line in enumerate(self.lines)], axis=1)
        upper = np.stack([line[cells[:, i] + 1] for i, line in enumerate(self.lines)], axis=1)
        return lower, upper

    def corner_nodes(self, cells: Index) -> Index:
        """Flat numbers of the corners of cells, (C, 2^n)."""
        return np.asarray((cells @ self.strides)[:, None] + self.corner_steps @ self.strides)

    def cover(self, lower: Array, upper: Array) -> tuple[Index, Index]:
        """First cell and number of cells, (B, n) each, that cover boxes inside the grid."""
        first = np.empty(lower.shape, dtype=np.int64)
        count = np.empty(lower.shape, dtype=np.int64)
        for i, line in enumerate(self.lines):
            first[:, i] = np.clip(np.searchsorted(line, lower[:, i], "right") - 1, 0, len(line) - 2)
            last = np.clip(np.searchsorted(line, upper[:, i], "left"), first[:, i] + 1, len(line) - 1)
            count[:, i] = last - first[:, i]
        return first, count

    def covered(self, first: Index, count: Index) -> NDArray[np.bool_]:
        """Which cells some boxes of cells meet, each given as by `cover`; at the flat number of a cell's first node.

        The boxes are counted at their corners with alternating signs; running sums along every state spread that.
        """
        total = np.zeros(self.node_count, dtype=np.int64)
        for step in self.corner_steps:
            found = np.bincount((first + step * count) @ self.strides, minlength=self.node_count)
            total += found if step.sum() % 2 == 0 else -found
        boxes = total.reshape(self.shape)
        for i in range(self.dimension):
            boxes = boxes.cumsum(axis=i)
        return np.asarray(boxes.ravel() > 0)

    def halved(self) -> Grid:
        """The grid with a line in the middle of every two; cell i becomes cells 2i and 2i + 1 along each state."""
        return Grid(tuple(np.sort(np.concatenate([line, 0.5 * (line[1:] + line[:-1])])) for line in self.lines))


def corner_values(slope: Array, offset: Array, lower: Array, upper: Array) -> Array:
    """slope · s + offset at the corners of boxes, (2^n, B), the last state varying fastest as in `corner_steps`."""
    values = offset[None]
    for i in range(len(slope)):
        ends = np.stack([slope[i] * lower[i], slope[i] * upper[i]])
        values = (values[:, None] + ends).reshape(2 * len(values), len(offset))
    return values


def _away_from(breakpoints: Array, end: float, step: float) -> float:
    """The end of a range, moved outward by a part of a cell until no breakpoint is hardly apart from it."""
    moved = end
    for number in range(1, len(breakpoints) + 2):
        apart = np.abs(breakpoints - moved)
        close = (apart < SMALLEST_CELL * max(1.0, abs(moved))) & (apart > 0.0)
        if not close.any():
            break
        moved = end + step * number / (len(breakpoints) + 2)
    return moved


def _even_lines(lower: float, upper: float, count: int, breakpoints: Array) -> Array:
    if not lower < upper:
        upper = lower + max(FLAT, FLAT * abs(lower))
    width = (upper - lower) / count
    lower, upper = _away_from(breakpoints, lower, -width), _away_from(breakpoints, upper, width)
    inside = breakpoints[(breakpoints > lower) & (breakpoints < upper)]
    knots = np.concatenate([[lower], inside, [upper]])
    parts = []
    for a, b in pairwise(knots.tolist()):
        cells = max(1, int(np.ceil((b - a) / width - ROUNDED_CELL)))
        parts.append(np.linspace(a, b, cells + 1)[:-1])
    return np.append(np.concatenate(parts), upper)
