"""A ReLU network for back-substitution: blocks of columns that are not zero, and lines in place of its ReLUs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.interval import ROUNDOFF
from reluplan.network.relu_network import Layer, ReluNetwork

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Lines:
    """Lines below and above each ReLU over its bounds: lower · In <= max(0, In) <= upper · In + offset."""

    lower: Array
    upper: Array
    offset: Array

    def at(self, step: int) -> Lines:
        """Of one step, where the first axis is that of the steps."""
        return Lines(self.lower[step], self.upper[step], self.offset[step])


def relu_lines(low: Array, high: Array, slopes: Array | None = None) -> Lines:
    """The lines of ReLUs whose pre-activations lie in [low, high]: above the chord u (In − l) / (u − l), below the
    slope α in [0, 1] of unstable ones; of stable ones both lines are the ReLU itself.

    slopes: α; without them those of `smallest_area`.
    """
    unstable = (low < 0.0) & (high > 0.0)
    on = (low >= 0.0).astype(np.float64)
    chord = high / np.where(unstable, high - low, 1.0)
    slopes = smallest_area(low, high) if slopes is None else slopes
    offset = np.where(unstable, -chord * np.where(unstable, low, 0.0), 0.0)
    return Lines(np.where(unstable, slopes, on), np.where(unstable, chord, on), offset)


def smallest_area(low: Array, high: Array) -> Array:
    """CROWN's lower slopes: 1 if u > −l and 0 otherwise, which keeps the area between the lines small."""
    return np.asarray((high > -low).astype(np.float64))


@dataclass(frozen=True, eq=False)
class BlockLayer:
    """W z + b, of W only those blocks of columns that are not zero: a sequential layer reads the one before alone.

    units: where the layer's own values stand among all values (inputs, then units).
    """

    units: slice
    bias: Array
    blocks: tuple[tuple[slice, Array], ...]

    def pull(self, coefficients: Array, rows: Array) -> None:
        """Add rows · W, shape (..., units), to the coefficients of all values, shape (..., values), in place."""
        for columns, weights in self.blocks:
            coefficients[..., columns] += rows @ weights

    def push(self, values: Array) -> Array:
        """W z + b, (..., values) to (..., units)."""
        total: Array = np.broadcast_to(self.bias, (*values.shape[:-1], len(self.bias)))
        for columns, weights in self.blocks:
            total = total + values[..., columns] @ weights.T
        return total

    def reach(self, size: Array) -> Array:
        """|W| |z| + |b| for |z| <= size: the sum of absolute values of all terms of W z + b."""
        total: Array = np.broadcast_to(np.abs(self.bias), (*size.shape[:-1], len(self.bias)))
        for columns, weights in self.blocks:
            total = total + size[..., columns] @ np.abs(weights).T
        return total


class BlockNetwork:
    """A ReLU network whose rows are pulled back to its inputs, and whose lines are followed forward.

    All arrays have leading axes of one's own choice: steps, rows. Values are numbered inputs first, then units.
    """

    def __init__(self, network: ReluNetwork) -> None:
        self.input_count = network.input_count
        self.relu_count = network.relu_count
        self.output_count = network.output_count
        ends = [0, network.input_count, *(network.input_count + part.stop for part in network.unit_slices)]
        parts = [slice(a, b) for a, b in pairwise(ends)]
        units = [*parts[1:], slice(ends[-1], ends[-1] + network.output_count)]
        layers = [
            _block_layer(layer, part, parts)
            for layer, part in zip((*network.hidden, network.output), units, strict=True)
        ]
        self.hidden, self.output = tuple(layers[:-1]), layers[-1]

    @property
    def value_count(self) -> int:
        """Inputs and units."""
        return self.input_count + self.relu_count

    @cached_property
    def operations(self) -> float:
        """Floating-point operations of pulling back one row, about."""
        layers = (*self.hidden, self.output)
        return 2.0 * sum(weights.size for layer in layers for _, weights in layer.blocks) + 8.0 * self.relu_count

    @cached_property
    def rounding(self) -> float:
        """A share of Σ |coefficient| · reach that bounds the rounding of one pull, see `pull`."""
        return ROUNDOFF * 4.0 * (self.input_count + self.relu_count + self.output_count + len(self.hidden) + 8)

    def pull(self, rows: Array, lines: Lines) -> tuple[Array, Array]:
        """`pull_layer` of the outputs."""
        return self.pull_layer(len(self.hidden), rows, lines)

    def pull_layer(self, index: int, rows: Array, lines: Lines) -> tuple[Array, Array]:
        """For the pre-activations z of a hidden layer, or the outputs after the last one: coefficients of all values,
        shape (..., values), and offset (...) with

            rows · z <= coefficients[inputs] · x + offset.

        From the last unit back to the first, a positive coefficient λ takes the upper line of its ReLU, a negative
        one the lower line; the pre-activation is then an affine function of what stands before. The coefficients of
        units are the λ that chose. Rounding: each product of a coefficient with W, and the line of its ReLU, is wrong
        by at most `rounding` · |λ| · (reach + |In|) in terms of the values that it multiplies, since each passes
        through fewer operations than there are values; the sum over all units and rows is the caller's to add.
        """
        target = (*self.hidden, self.output)[index]
        coefficients = np.zeros((*rows.shape[:-1], self.value_count))
        target.pull(coefficients, rows)
        offset: Array = rows @ target.bias
        first = self.input_count
        for layer in reversed(self.hidden[:index]):
            units = slice(layer.units.start - first, layer.units.stop - first)
            chosen = coefficients[..., layer.units]
            positive = np.maximum(chosen, 0.0)
            negative = chosen - positive
            moved = positive * lines.upper[..., units] + negative * lines.lower[..., units]
            offset = offset + (positive * lines.offset[..., units]).sum(axis=-1) + moved @ layer.bias
            layer.pull(coefficients, moved)
        clock.spend(self.operations * coefficients.size / max(1, self.value_count))
        return coefficients, offset

    def push(self, inputs: Array, lines: Lines, coefficients: Array) -> tuple[Array, Array]:
        """Pre-activations (..., units) and outputs (..., outputs) of inputs (..., inputs), with each ReLU replaced by
        the line that `pull` chose for its coefficient: the derivatives of what it returned."""
        clock.spend(self.operations * inputs.size / max(1, self.input_count))
        values = np.empty((*inputs.shape[:-1], self.value_count))
        values[..., : self.input_count] = inputs
        before = np.empty((*inputs.shape[:-1], self.relu_count))
        first = self.input_count
        for layer in self.hidden:
            units = slice(layer.units.start - first, layer.units.stop - first)
            pre = layer.push(values)
            before[..., units] = pre
            above = lines.upper[..., units] * pre + lines.offset[..., units]
            below = lines.lower[..., units] * pre
            values[..., layer.units] = np.where(coefficients[..., layer.units] > 0.0, above, below)
        return before, self.output.push(values)

    def reach(self, lower: Array, upper: Array, unit_lower: Array, unit_upper: Array) -> tuple[Array, Array]:
        """Σ |terms| + |In| of every unit and Σ |terms| of every output, over boxes of inputs and units."""
        size = np.concatenate([_size(lower, upper), np.maximum(unit_upper, 0.0)], axis=-1)
        units = [layer.reach(size) for layer in self.hidden]
        pre = np.concatenate(units, axis=-1) if units else np.zeros_like(unit_lower)
        return pre + _size(unit_lower, unit_upper), self.output.reach(size)


def _size(lower: Array, upper: Array) -> Array:
    return np.asarray(np.maximum(np.abs(lower), np.abs(upper)))


def _block_layer(layer: Layer, units: slice, parts: list[slice]) -> BlockLayer:
    read = [part for part in parts if part.stop <= layer.weights.shape[1] and layer.weights[:, part].any()]
    columns = [_trimmed(layer.weights, part) for part in read]
    return BlockLayer(
        units, layer.bias, tuple((part, np.ascontiguousarray(layer.weights[:, part])) for part in columns)
    )


def _trimmed(weights: Array, part: slice) -> slice:
    """The part without the columns of zeros at its ends."""
    used = part.start + np.flatnonzero(weights[:, part].any(axis=0))
    return slice(int(used[0]), int(used[-1]) + 1)
