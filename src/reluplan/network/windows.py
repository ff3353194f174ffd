"""Convolution and pooling of symbolic tensors (batch, channels, *space).

What an entry of the result reads along one axis is a table (entries of the result, taps of the kernel) of positions on
that axis, -1 where a tap stands outside the tensor. The tables of all axes together are the windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.network.affine import Affine, concatenated, require_size
from reluplan.network.builder import NetworkBuilder

Table = NDArray[np.intp]


@dataclass(frozen=True)
class Steps:
    """How the windows of one axis lie: size of the axis, taps, stride, dilation, and padding before and after."""

    size: int
    taps: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        if min(self.taps, self.stride, self.dilation) < 1:
            raise ValueError("kernel, strides and dilations must be at least 1")

    @property
    def span(self) -> int:
        """Positions from the first tap to the last."""
        return self.dilation * (self.taps - 1) + 1

    def result_size(self, ceil: bool = False) -> int:
        """How many windows fit; with ceil also a last one that sticks out, if it starts inside the tensor or before."""
        room = self.size + self.before + self.after - self.span
        count = -(-room // self.stride) + 1 if ceil else room // self.stride + 1
        if ceil and (count - 1) * self.stride >= self.size + self.before:
            count -= 1
        if room < 0 or count < 1:
            raise ValueError("the kernel is larger than the padded tensor")
        return count

    def positions(self, ceil: bool = False) -> Table:
        """Where each tap of each window stands, also outside: window * stride - before + tap * dilation."""
        count = self.result_size(ceil)
        require_size(count * self.taps)
        starts = np.arange(count)[:, np.newaxis] * self.stride - self.before
        return starts + np.arange(self.taps) * self.dilation

    def table(self, ceil: bool = False) -> Table:
        positions = self.positions(ceil)
        return np.where((positions >= 0) & (positions < self.size), positions, -1)

    def transposed_table(self, count: int) -> Table:
        """For a transposed convolution with `count` results: i reads p if p * stride + tap * dilation - before = i."""
        require_size(count * self.taps)
        reached = np.arange(count)[:, np.newaxis] + self.before - np.arange(self.taps) * self.dilation
        source = reached // self.stride
        return np.where((reached % self.stride == 0) & (source >= 0) & (source < self.size), source, -1)


def convolved(tensor: Affine, weights: NDArray[np.float64], tables: Sequence[Table], groups: int = 1) -> Affine:
    """sum over channels c of the group and taps k of weights[m, c, k] tensor[n, c, window(o, k)], shape (n, m, *o).

    weights: (m, channels / groups, *taps). It is a matrix product with the windows as columns.
    """
    batch, channels = tensor.shape[:2]
    kernels = weights.reshape(groups, weights.shape[0] // groups, -1)
    if channels != weights.shape[1] * groups or weights.shape[0] % groups:
        raise ValueError(f"weights of shape {weights.shape} in {groups} groups do not fit {channels} channels")
    space = [len(table) for table in tables]
    windows = _windows(tensor, tables).reshaped((batch, groups, channels // groups, math.prod(space), -1))
    by_tap = windows.transposed((1, 2, 4, 0, 3)).reshaped((groups, kernels.shape[2], batch * math.prod(space)))
    parts = [
        Affine.constant(kernel) @ by_tap.rearranged(lambda entries, g=group: entries[g])  # type: ignore[misc]
        for group, kernel in enumerate(kernels)
    ]
    result = concatenated(parts, 0).reshaped((weights.shape[0], batch, *space))
    return result.transposed((1, 0, *range(2, 2 + len(space))))


def _windows(tensor: Affine, tables: Sequence[Table]) -> Affine:
    """What each window reads: (batch, channels, *results, *taps), zero outside of the tensor."""
    space = tensor.shape[2:]
    count = len(tables)
    shapes = [table.shape for table in tables]
    require_size(tensor.shape[0] * tensor.shape[1] * math.prod(math.prod(shape) for shape in shapes))
    spots = np.zeros((), dtype=np.intp)
    inside = np.ones((), dtype=np.bool_)
    for axis, (table, size) in enumerate(zip(tables, space, strict=True)):
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = table.shape
        spots = spots * size + table.reshape(shape)
        inside = inside & (table >= 0).reshape(shape)
    planes = np.arange(tensor.shape[0] * tensor.shape[1]) * math.prod(space)
    positions = planes.reshape(*tensor.shape[:2], *([1] * (2 * count))) + spots
    with_zero = concatenated([tensor.reshaped((-1,)), Affine.constant(np.zeros(1))], 0)
    return with_zero.taken(np.where(inside, positions, tensor.size))


def max_pooled(builder: NetworkBuilder, tensor: Affine, tables: Sequence[Table]) -> Affine:
    """The largest entry of each window, axis by axis: windows that overlap along one axis share its comparisons."""
    for axis, table in enumerate(tables, start=2):
        inside = table.max(axis=1)
        if (inside < 0).any():
            raise ValueError("a window lies wholly in the padding")
        reads = np.where(table < 0, inside[:, np.newaxis], table)  # a tap outside repeats one inside: no unit
        entries = tensor.size // tensor.shape[axis] * table.size
        windows = tensor.rearranged(lambda values, a=axis, r=reads: np.take(values, r, a), entries)  # type: ignore[misc]
        tensor = builder.maximum_along(windows, axis + 1)
    return tensor


def average_pooled(tensor: Affine, steps: Sequence[Steps], counts_padding: bool, ceil: bool) -> Affine:
    """The mean of each window, over the entries inside the tensor, or also over its padding, which is zero."""
    for axis, step in enumerate(steps, start=2):
        positions = step.positions(ceil)
        inside = (positions >= 0) & (positions < step.size)
        counted = (positions < step.size + step.after) if counts_padding else inside
        if not inside.any(axis=1).all():
            raise ValueError("a window lies wholly in the padding")
        require_size(step.size * len(positions))
        matrix = np.zeros((step.size, len(positions)))
        windows, taps = np.nonzero(inside)
        np.add.at(matrix, (positions[windows, taps], windows), 1.0 / counted.sum(axis=1)[windows])
        order = [*(a for a in range(len(tensor.shape)) if a != axis), axis]
        mixed = tensor.transposed(order) @ Affine.constant(matrix)
        tensor = mixed.transposed([int(place) for place in np.argsort(order)])
    return tensor
