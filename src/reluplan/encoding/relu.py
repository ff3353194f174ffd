"""One step of the network as MILP rows: stable ReLUs substituted, unstable ones with their own bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.network.relu_network import ReluNetwork
from reluplan.optimisation.model import Index, ModelBuilder

Array = NDArray[np.float64]

NARROW = 1e-6
"""A unit whose bounds reach beyond zero by less than this share of its range gets no binary: its triangle relaxation
is exact to this share."""


def needs_binary(low: Array, high: Array) -> NDArray[np.bool_]:
    """Which units with pre-activations in [low, high] need a binary."""
    wide: NDArray[np.bool_] = np.minimum(high, -low) > NARROW * (high - low)
    return wide


@dataclass(frozen=True, eq=False)
class StepColumns:
    """Columns of one step's units, -1 where a unit has none.

    outputs: P_u. binaries: b_u. Affine forms over the `base` columns (k,): the predictions F, matrix (n, k) and offset
    (n,), and every unit's output P, unit_matrix (relu_count, k) and unit_offset (relu_count,).
    """

    outputs: Index
    binaries: Index
    base: Index
    matrix: Array
    offset: Array
    unit_matrix: Array
    unit_offset: Array

    def preactivations(self, network: ReluNetwork) -> tuple[Array, Array]:
        """Every unit's In as an affine form over the base columns: (relu_count, k) and (relu_count,)."""
        matrix = np.vstack([np.eye(network.input_count, len(self.base)), self.unit_matrix])
        offset = np.concatenate([np.zeros(network.input_count), self.unit_offset])
        widths = [layer.weights.shape[1] for layer in network.hidden]
        pairs = list(zip(network.hidden, widths, strict=True))
        forms = [layer.weights @ matrix[:width] for layer, width in pairs]
        constants = [layer.weights @ offset[:width] + layer.bias for layer, width in pairs]
        return np.vstack([matrix[:0], *forms]), np.concatenate([offset[:0], *constants])


def encode_network(
    builder: ModelBuilder,
    network: ReluNetwork,
    inputs: Index,
    lower: Array,
    upper: Array,
    step: int,
) -> StepColumns:
    """Append the units of one step; lower and upper bound their pre-activations, shape (relu_count,).

    With valid bounds l <= In <= u of a unit:
        u <= 0: P = 0, the unit vanishes.   l >= 0: P = In, substituted where it is read.
        otherwise  P >= 0,  P >= In,  P <= u b,  P <= In − l (1 − b),  b binary.
    """
    affine = _Affine(inputs)
    outputs = np.full(network.relu_count, -1, dtype=np.int64)
    binaries = outputs.copy()
    for layer, units in zip(network.hidden, network.unit_slices, strict=True):
        matrix, offset = affine.image(layer.weights, layer.bias)
        low, high = lower[units], upper[units]
        unstable = np.flatnonzero((low < 0.0) & (high > 0.0))
        block = _ReluBlock(
            builder, affine.base, matrix[unstable], offset[unstable], low[unstable], high[unstable],
            [f"{units.start + i + 1}_{step + 1}" for i in unstable.tolist()],
        )  # fmt: skip
        outputs[units][unstable], binaries[units][unstable] = block.encode()
        affine.extend(matrix, offset, on=low >= 0.0, unstable=unstable, columns=outputs[units][unstable])
    matrix, offset = affine.image(network.output.weights, network.output.bias)
    return StepColumns(outputs, binaries, affine.base, matrix, offset, *affine.units())


@dataclass(frozen=True, eq=False)
class _ReluBlock:
    """The unstable units of one layer at one step: In = matrix · x[base] + offset, low < In < high."""

    builder: ModelBuilder
    base: Index
    matrix: Array
    offset: Array
    low: Array
    high: Array
    names: list[str]

    def encode(self) -> tuple[Index, Index]:
        """Append columns and rows; returns the columns of P and of b (-1 for units too narrow to need one)."""
        outputs = self.builder.add_columns(np.zeros(len(self.low)), self.high, name=lambda i: f"relu_{self.names[i]}")
        wide = needs_binary(self.low, self.high)
        named = [name for name, w in zip(self.names, wide, strict=True) if w]
        binaries = np.full(len(self.low), -1, dtype=np.int64)
        binaries[wide] = self.builder.add_columns(
            np.zeros(int(wide.sum())), 1.0, integer=True, name=lambda i: f"active_{named[i]}"
        )
        every = np.ones(len(self.low), dtype=bool)
        self._compare(outputs, every, np.ones(len(self.low)), self.offset, np.inf, "above_input")
        slope = self.high / (self.high - self.low)
        self._compare(outputs, ~wide, slope, -np.inf, slope * (self.offset - self.low), "below_chord")
        rows = self._compare(outputs, wide, np.ones(len(self.low)), -np.inf, self.offset - self.low, "on")
        self.builder.add_entries(rows, binaries[wide], -self.low[wide])
        rows = self.builder.add_rows(np.full(int(wide.sum()), -np.inf), 0.0, name=lambda i: f"off_{named[i]}")
        self.builder.add_entries(rows, outputs[wide], 1.0)
        self.builder.add_entries(rows, binaries[wide], -self.high[wide])
        return outputs, binaries

    def _compare(
        self, p: Index, where: NDArray[np.bool_], slope: Array, lower: Array | float, upper: Array | float, name: str
    ) -> Index:
        """lower <= P − slope · matrix · x <= upper for some of the units."""
        low, high = (np.broadcast_to(side, p.shape)[where] for side in (lower, upper))
        named = [n for n, w in zip(self.names, where, strict=True) if w]
        rows = self.builder.add_rows(low, high, name=lambda i: f"{name}_{named[i]}")
        self.builder.add_entries(rows, p[where], 1.0)
        self.builder.add_entries(rows[:, None], self.base, -(slope[:, None] * self.matrix)[where])
        return rows


class _Affine:
    """Every value so far (inputs, then units) as an affine form over the columns that exist."""

    def __init__(self, inputs: Index) -> None:
        self.base = inputs
        self._input_count = len(inputs)
        self._matrix = np.eye(len(inputs))
        self._offset = np.zeros(len(inputs))

    def image(self, weights: Array, bias: Array) -> tuple[Array, Array]:
        """weights · values + bias as (matrix over base, offset)."""
        return weights @ self._matrix, weights @ self._offset + bias

    def units(self) -> tuple[Array, Array]:
        """The units' outputs as (matrix over base, offset)."""
        return self._matrix[self._input_count :], self._offset[self._input_count :]

    def extend(self, matrix: Array, offset: Array, on: NDArray[np.bool_], unstable: Index, columns: Index) -> None:
        """Append a layer's outputs: the form itself where on, a new column where unstable, zero elsewhere."""
        new = np.zeros((len(offset), len(columns)))
        new[unstable, np.arange(len(columns))] = 1.0
        self._matrix = np.block(
            [[self._matrix, np.zeros((len(self._matrix), len(columns)))], [np.where(on[:, None], matrix, 0.0), new]]
        )
        self._offset = np.concatenate([self._offset, np.where(on, offset, 0.0)])
        self.base = np.concatenate([self.base, columns])
