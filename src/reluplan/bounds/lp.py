"""LP bounds of one step: the network's relaxation over a box and the constraints, one persistent model per box."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.crown import crown_boxes
from reluplan.bounds.interval import intersect, layer_interval, round_outward
from reluplan.bounds.lp_tightener import LpTightener
from reluplan.errors import InfeasibleError
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.optimisation.model import ModelBuilder
from reluplan.optimisation.persistent_lp import PersistentLp
from reluplan.optimisation.piecewise_rows import PiecewiseEncoder
from reluplan.problem.expression import Constraint

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StepBounds:
    """Bounds of one step over a box of inputs (s, a, x).

    inputs: the box after the constraints tightened it. units: pre-activations (relu_count). outputs: F(s, a, x)
    before any rounding of discrete states.
    """

    input_lower: Array
    input_upper: Array
    unit_lower: Array
    unit_upper: Array
    output_lower: Array
    output_upper: Array


def bound_step(
    network: ReluNetwork,
    lower: Array,
    upper: Array,
    constraints: list[Constraint],
    width: int,
    discrete: NDArray[np.bool_],
    deadline: float = math.inf,
    last_moment: float = math.inf,
) -> StepBounds:
    """Bounds of every unit and output for inputs in [lower, upper] that satisfy the constraints.

    Layer by layer: interval bounds first, CROWN until the last moment, then, until the deadline (both of clock.now),
    the LP relaxation for the units that these left unstable and for the outputs.
    The relaxation of an unstable unit with bounds l < 0 < u is the triangle P >= 0, P >= In, P <= u (In − l)/(u − l).
    Constraints read w = (s, a, x, ...) of the given width; only rows over (s, a, x) are passed.
    Raises InfeasibleError if no input satisfies the constraints.
    """
    lp = constraint_lp(lower, upper, constraints, width)
    if constraints:
        lower, upper = tighten_box(lp, lower, upper, constraints, discrete, deadline)
    relaxation = _Relaxation(lp, lower, upper, deadline)
    crown = crown_boxes(network, lower, upper, last_moment)
    unit_bounds = []
    for layer, units in zip(network.hidden, network.unit_slices, strict=True):
        low, high = relaxation.bound(layer, crown.unit_lower[units], crown.unit_upper[units], only_unstable=True)
        relaxation.add_relus(layer, low, high)
        unit_bounds.append((low, high))
    output = relaxation.bound(network.output, crown.output_lower, crown.output_upper, only_unstable=False)
    none = np.zeros(0)
    return StepBounds(
        lower,
        upper,
        np.concatenate([none, *(low for low, _ in unit_bounds)]),
        np.concatenate([none, *(high for _, high in unit_bounds)]),
        *output,
    )


def tighten_box(
    lp: PersistentLp,
    lower: Array,
    upper: Array,
    constraints: list[Constraint],
    discrete: NDArray[np.bool_],
    deadline: float = math.inf,
) -> tuple[Array, Array]:
    """The smallest box that the LP proves by the deadline around the points of a box that satisfy the constraints.

    Sides that are infinite are asked about even after it: nothing can be said of the network without.
    """
    lower, upper = lower.copy(), upper.copy()
    read = np.any([constraint.function.support() for constraint in constraints], axis=0)
    tightener = LpTightener(lp, deadline)
    for j in np.flatnonzero(read[: len(lower)]).tolist():
        until = deadline if np.isfinite([lower[j], upper[j]]).all() else math.inf
        if lower[j] < upper[j]:
            lower[j], upper[j] = tightener.column(j, float(lower[j]), float(upper[j]), until)
    return round_discrete(lower, upper, discrete)


def round_discrete(lower: Array, upper: Array, discrete: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Move the bounds of discrete variables inward to integers."""
    lower = np.where(discrete, np.ceil(lower - 1e-6), lower)
    upper = np.where(discrete, np.floor(upper + 1e-6), upper)
    if (discrete & (lower > upper)).any():
        raise InfeasibleError("no integer value is left for a discrete variable")
    return lower, upper


def constraint_lp(lower: Array, upper: Array, constraints: list[Constraint], width: int) -> PersistentLp:
    """The relaxation of the constraints alone; its first columns are the inputs."""
    builder = ModelBuilder()
    columns = np.full((1, width), -1, dtype=np.int64)
    columns[0, : len(lower)] = builder.add_columns(lower, upper)
    low, high = np.zeros((1, width)), np.zeros((1, width))
    low[0, : len(lower)], high[0, : len(lower)] = lower, upper
    encoder = PiecewiseEncoder(builder, columns, low, high)
    for constraint in constraints:
        encoder.require(constraint, "constraint")
    return PersistentLp(builder.build())


class _Relaxation:
    """Grows an LP by one layer of relaxed ReLUs at a time.

    `positions` says for each value so far (inputs, then units) which LP column carries it, -1 if it is constantly 0.
    `complete`: whether the LP has every layer so far; after the deadline none is added, and no LP may be asked.
    """

    def __init__(self, lp: PersistentLp, lower: Array, upper: Array, deadline: float) -> None:
        self._lp, self._deadline, self._complete = lp, deadline, True
        self._lower, self._upper = lower, upper
        self._positions = np.arange(len(lower))

    def bound(self, layer: Layer, known_lower: Array, known_upper: Array, only_unstable: bool) -> tuple[Array, Array]:
        """Bounds of a layer's pre-activations: those known, by interval, and then, until the deadline, by LP."""
        low, high = layer_interval(layer, self._lower, self._upper)
        low, high = intersect((low, high), (known_lower, known_upper))
        clock.spend(8.0 * layer.weights.size)
        if self._lp.row_count == 0 or not self._complete:
            return low, high  # over a box alone the interval is exact
        for unit in _most_relaxed_first(low, high) if only_unstable else range(layer.unit_count):
            if clock.now() > self._deadline:
                break
            low[unit], high[unit] = self._bound_unit(layer, unit, low[unit], high[unit], only_unstable)
        return low, high

    def _bound_unit(self, layer: Layer, unit: int, low: float, high: float, only_sign: bool) -> tuple[float, float]:
        columns, weights = self._objective(layer.weights[unit])
        bias = layer.bias[unit]
        high = min(high, _up(self._lp.maximum(columns, weights, self._deadline) + bias))
        if only_sign and high <= 0.0:
            return low, high
        return max(low, -_up(self._lp.maximum(columns, -weights, self._deadline) - bias)), high

    def _objective(self, weights: Array) -> tuple[NDArray[np.int64], Array]:
        used = (weights != 0.0) & (self._positions >= 0)
        return self._positions[used], weights[used]

    def add_relus(self, layer: Layer, low: Array, high: Array) -> None:
        """Append the layer's outputs: nothing if off, an equality if on, the triangle otherwise."""
        self._complete &= clock.now() <= self._deadline
        alive = np.flatnonzero(high > 0.0)
        columns = np.full(layer.unit_count, -1)
        if self._complete:
            columns[alive] = self._lp.add_columns(np.maximum(low[alive], 0.0), high[alive])
            self._add_rows(layer, alive, columns[alive], low[alive], high[alive])
        self._positions = np.concatenate([self._positions, columns])
        self._lower = np.concatenate([self._lower, np.maximum(low, 0.0)])
        self._upper = np.concatenate([self._upper, np.maximum(high, 0.0)])

    def _add_rows(
        self, layer: Layer, units: NDArray[np.int64], columns: NDArray[np.int64], low: Array, high: Array
    ) -> None:
        """P − W z = b where on, P − W z >= b and the chord P − k W z <= k (b − l), k = u/(u − l), elsewhere."""
        used = self._positions >= 0
        weights, bias = layer.weights[units], layer.bias[units]
        rows = np.zeros((len(units), self._lp.column_count))
        rows[:, self._positions[used]] = -weights[:, used]
        outputs = np.arange(len(units)), columns
        rows[outputs] = 1.0
        self._lp.add_rows(rows, bias, np.where(low >= 0.0, bias, np.inf))
        with np.errstate(invalid="ignore"):
            chord = (low < 0.0) & np.isfinite(high - low)
        slope = high[chord] / (high[chord] - low[chord])
        rows[outputs] = 0.0
        upper = slope[:, None] * rows[chord]
        upper[np.arange(len(slope)), columns[chord]] = 1.0
        self._lp.add_rows(upper, np.full(len(slope), -np.inf), slope * (bias - low)[chord])


def _most_relaxed_first(low: Array, high: Array) -> list[int]:
    """The unstable units, those with the largest gap −l u / (u − l) between their lines first."""
    unstable = np.flatnonzero((low < 0.0) & (high > 0.0))
    with np.errstate(invalid="ignore"):
        gap = np.nan_to_num(-low * high / (high - low), nan=np.inf)[unstable]
    order: list[int] = unstable[np.argsort(-gap, kind="stable")].tolist()
    return order


def _up(value: float) -> float:
    return float(round_outward(np.array(0.0), np.array(value))[1])
