"""CROWN bounds: back-substitution of linear ReLU relaxations, for many boxes at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.interval import ROUNDOFF, intersect, round_outward
from reluplan.network.relu_network import Layer, ReluNetwork

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CrownBounds:
    """Bounds over B boxes of inputs.

    units: pre-activations, (B, relu_count). For every x of box b and every output,
    lower_slope[b] x + lower_offset[b] <= f(x) <= upper_slope[b] x + upper_offset[b];
    slopes (B, outputs, inputs), offsets (B, outputs).
    """

    unit_lower: Array
    unit_upper: Array
    lower_slope: Array
    lower_offset: Array
    upper_slope: Array
    upper_offset: Array

    @property
    def unstable(self) -> NDArray[np.bool_]:
        """Which units may be on or off, shape (B, relu_count)."""
        unstable: NDArray[np.bool_] = (self.unit_lower < 0.0) & (self.unit_upper > 0.0)
        return unstable

    def output_box(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """The box of f over the boxes that these bounds were computed for, two arrays (B, outputs)."""
        low = -affine_maximum(-self.lower_slope, -self.lower_offset, lower, upper)
        return low, affine_maximum(self.upper_slope, self.upper_offset, lower, upper)


def crown_bounds(network: ReluNetwork, lower: Array, upper: Array) -> CrownBounds:
    """Bounds of every unit and affine bounds of every output over boxes [lower, upper] of shape (B, inputs).

    >>> absolute = ReluNetwork.sequential([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])
    >>> bounds = crown_bounds(absolute, np.array([[-1.0], [2.0]]), np.array([[1.0], [3.0]]))
    >>> bounds.upper_slope.round(6).tolist(), bounds.upper_offset.round(6).tolist()
    ([[[0.0]], [[1.0]]], [[1.0], [0.0]])
    """
    relaxation = unit_relaxation(network, lower, upper)
    count = network.output_count
    slope, offset = affine_upper_bounds(network, relaxation, np.vstack([np.eye(count), -np.eye(count)]))
    unit_lower, unit_upper = relaxation.unit_lower, relaxation.unit_upper
    return CrownBounds(
        unit_lower, unit_upper, -slope[:, count:], -offset[:, count:], slope[:, :count], offset[:, :count]
    )


@dataclass(frozen=True, eq=False)
class UnitRelaxation:
    """Linear bounds of each ReLU over B boxes: lower_slope · In <= max(0, In) <= upper_slope · In + upper_offset.

    The upper line is the chord u (In − l) / (u − l); the lower slope is 1 if u > −l and 0 otherwise, which keeps the
    area between the lines small. Stable units have both lines equal. reach bounds |input| and, for every unit, the sum
    of absolute values of all terms that back-substitution adds up for it, (B, inputs + relu_count).
    """

    unit_lower: Array
    unit_upper: Array
    lower_slope: Array
    upper_slope: Array
    upper_offset: Array
    reach: Array


def unit_relaxation(network: ReluNetwork, lower: Array, upper: Array, deadline: float = math.inf) -> UnitRelaxation:
    """Layer by layer: bounds of the pre-activations by back-substitution and by intervals, whichever is tighter; after
    the deadline (of clock.now) by intervals alone."""
    boxes = len(lower)
    relaxation = _empty_relaxation(lower, upper)
    value_lower, value_upper = lower, upper
    for layer in network.hidden:
        low, high = interval_of_boxes(layer, value_lower, value_upper)
        clock.spend(8.0 * boxes * layer.weights.size)
        if relaxation.unit_lower.shape[1] and clock.now() <= deadline:
            both = Layer(np.vstack([layer.weights, -layer.weights]), np.concatenate([layer.bias, -layer.bias]))
            slope, offset = _back_substitute(network, relaxation, both)
            highs = affine_maximum(slope, offset, lower, upper)
            crown = round_outward(-highs[:, layer.unit_count :], highs[:, : layer.unit_count])
            low, high = intersect((low, high), crown)
        relaxation = _extend(relaxation, layer, low, high)
        value_lower = np.hstack([value_lower, np.maximum(low, 0.0)])
        value_upper = np.hstack([value_upper, np.maximum(high, 0.0)])
    assert len(relaxation.unit_lower) == boxes
    return relaxation


@dataclass(frozen=True, eq=False)
class CrownBoxes:
    """Boxes of every pre-activation (relu_count,) and of every output (outputs,); infinite where nothing is known."""

    unit_lower: Array
    unit_upper: Array
    output_lower: Array
    output_upper: Array


def crown_boxes(network: ReluNetwork, lower: Array, upper: Array, deadline: float = math.inf) -> CrownBoxes:
    """Bounds over one box, by back-substitution until the deadline; none if the box has infinite sides."""
    units, outputs = np.full(network.relu_count, np.inf), np.full(network.output_count, np.inf)
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        return CrownBoxes(-units, units, -outputs, outputs)
    relaxation = unit_relaxation(network, lower[None], upper[None], deadline)
    unit_lower, unit_upper = relaxation.unit_lower[0], relaxation.unit_upper[0]
    if clock.now() > deadline:
        return CrownBoxes(unit_lower, unit_upper, -outputs, outputs)
    count = network.output_count
    slope, offset = affine_upper_bounds(network, relaxation, np.vstack([np.eye(count), -np.eye(count)]))
    highs = affine_maximum(slope, offset, lower[None], upper[None])[0]
    return CrownBoxes(unit_lower, unit_upper, *round_outward(-highs[count:], highs[:count]))


def affine_upper_bounds(network: ReluNetwork, relaxation: UnitRelaxation, directions: Array) -> tuple[Array, Array]:
    """slope (B, K, inputs) and offset (B, K) with d_k · f(x) <= slope_k x + offset_k over each box.

    directions: (K, outputs). Bounding a direction at once is tighter than adding up bounds of the single outputs.
    """
    output = network.output
    return _back_substitute(network, relaxation, Layer(directions @ output.weights, directions @ output.bias))


def affine_maximum(slope: Array, offset: Array, lower: Array, upper: Array) -> Array:
    """max of slope x + offset over each box: (B, K, inputs), (B, K), (B, inputs) twice, to (B, K)."""
    centre, radius = 0.5 * (lower + upper), 0.5 * (upper - lower)
    value = np.matmul(slope, centre[:, :, None]) + np.matmul(np.abs(slope), radius[:, :, None])
    return np.asarray(value[:, :, 0] + offset)


def _empty_relaxation(lower: Array, upper: Array) -> UnitRelaxation:
    none = np.zeros((len(lower), 0))
    return UnitRelaxation(none, none, none, none, none, np.maximum(np.abs(lower), np.abs(upper)))


def _extend(before: UnitRelaxation, layer: Layer, low: Array, high: Array) -> UnitRelaxation:
    """The relaxation with one more layer, whose pre-activations lie in [low, high]."""
    unstable = (low < 0.0) & (high > 0.0)
    on = (low >= 0.0).astype(float)
    chord = high / np.where(unstable, high - low, 1.0)
    upper_slope = np.where(unstable, chord, on)
    lower_slope = np.where(unstable, (high > -low).astype(float), on)
    upper_offset = np.where(unstable, -chord * low, 0.0)
    # Slopes are at most 1, and the chord's offset at most |low|, which the same sum bounds.
    reach = 2.0 * (before.reach @ np.abs(layer.weights).T + np.abs(layer.bias))
    pairs = [
        (before.unit_lower, low),
        (before.unit_upper, high),
        (before.lower_slope, lower_slope),
        (before.upper_slope, upper_slope),
        (before.upper_offset, upper_offset),
        (before.reach, reach),
    ]
    return UnitRelaxation(*(np.hstack(pair) for pair in pairs))


def interval_of_boxes(layer: Layer, lower: Array, upper: Array) -> tuple[Array, Array]:
    """`layer_interval` for B finite boxes at once: W c + b ± |W| r."""
    size = np.abs(layer.weights)
    centre, radius = 0.5 * (lower + upper), 0.5 * (upper - lower)
    middle, spread = centre @ layer.weights.T + layer.bias, radius @ size.T
    reach = np.maximum(np.abs(lower), np.abs(upper)) @ size.T + np.abs(layer.bias)
    rounding = ROUNDOFF * 2 * (layer.weights.shape[1] + 4) * reach
    return round_outward(middle - spread - rounding, middle + spread + rounding)


def _back_substitute(network: ReluNetwork, relaxation: UnitRelaxation, target: Layer) -> tuple[Array, Array]:
    """Affine upper bounds, in the inputs, of a layer that reads inputs and all units of the relaxation.

    From the last unit back to the first, a positive coefficient takes the upper line of its ReLU, a negative one the
    lower line; the pre-activation is then an affine function of what stands before. The offset is raised by

        ROUNDOFF · 8 (inputs + units + layers) · (|W| reach + |b|),

    a bound of all rounding errors: |W| reach bounds the sum of absolute values of all terms, each of which passes
    through fewer operations than that.
    """
    inputs, units = network.input_count, relaxation.unit_lower.shape[1]
    coefficients, offset = target.weights[None], np.broadcast_to(target.bias, (len(relaxation.reach), len(target.bias)))
    for layer, part in reversed(list(zip(network.hidden, network.unit_slices, strict=True))):
        if part.stop <= units:
            coefficients, offset = _substitute_layer(coefficients, offset, layer, part, relaxation)
    terms = 8 * (inputs + units + len(network.hidden) + 1)
    error = ROUNDOFF * terms * (relaxation.reach @ np.abs(target.weights).T + np.abs(target.bias))
    slope = np.broadcast_to(coefficients, (len(offset), *coefficients.shape[1:]))
    return slope, offset + error


def _substitute_layer(
    coefficients: Array, offset: Array, layer: Layer, part: slice, relaxation: UnitRelaxation
) -> tuple[Array, Array]:
    """Replace the units of one layer by their lines: (B or 1, rows, before + units) to (B, rows, before).

    With m, d the mean and half the difference of the two slopes, the chosen slope is Λ m + |Λ| d; while Λ is the same
    for all boxes, that times W is one matrix product for the whole batch.
    """
    before = coefficients.shape[2] - layer.unit_count
    units = coefficients[:, :, before:]
    mean = 0.5 * (relaxation.upper_slope[:, part] + relaxation.lower_slope[:, part])
    half = 0.5 * (relaxation.upper_slope[:, part] - relaxation.lower_slope[:, part])
    lift = relaxation.upper_offset[:, part]
    extended = np.hstack([layer.weights, layer.bias[:, None]])
    clock.spend(2.0 * len(mean) * units.shape[1] * extended.size)
    if len(units) == 1 < len(mean):
        rows = units[0]
        signed = (rows.T[:, :, None] * extended[:, None, :]).reshape(len(extended), -1)
        absolute = (np.abs(rows).T[:, :, None] * extended[:, None, :]).reshape(len(extended), -1)
        moved = (mean @ signed + half @ absolute).reshape(len(mean), len(rows), before + 1)
        raised = lift @ np.maximum(rows, 0.0).T
    else:
        chosen = units * mean[:, None, :] + np.abs(units) * half[:, None, :]
        moved = (chosen.reshape(-1, chosen.shape[2]) @ extended).reshape(*chosen.shape[:2], -1)
        raised = np.matmul(np.maximum(units, 0.0), lift[:, :, None])[:, :, 0]
    return coefficients[:, :, :before] + moved[:, :, :before], offset + moved[:, :, before] + raised
