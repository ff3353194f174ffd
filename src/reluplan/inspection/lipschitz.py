"""How strongly a network's outputs react to its inputs: a proven bound from above, a sampled one from below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.interval import ROUNDOFF
from reluplan.inspection.settings import InspectionSettings
from reluplan.inspection.undecided import BoxBounds
from reluplan.network.relu_network import Layer, ReluNetwork

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Lipschitz:
    """Bounds of L = max over x in the box of max_i Σ_j |∂f_i/∂x_j|, the smallest L with |f(x) − f(y)| <= L |x − y| in
    the maximum norm. proven: from above; sampled: from below, at this many points (None without a box to sample)."""

    proven: float
    sampled: float | None
    samples: int


def jacobian_bounds(network: ReluNetwork, on: Mask, off: Mask) -> tuple[Array, Array]:
    """Entry by entry, bounds of the Jacobian ∂f/∂x wherever the units `on` are on and those `off` are off.

    With J = I for the inputs and J_u the row of a unit's output,

        W J in [W⁺ J_low + W⁻ J_high, W⁺ J_high + W⁻ J_low],      J_u = (W J)_u if on, 0 if off, else between 0 and it,

    layer by layer, each step widened by its rounding error. Two arrays (outputs, inputs).
    """
    low = high = np.eye(network.input_count)
    for layer, units in zip(network.hidden, network.unit_slices, strict=True):
        rows_low, rows_high = _interval_product(layer, low, high)
        is_on = on[units, None]
        rows_low = np.where(is_on, rows_low, np.minimum(rows_low, 0.0))
        rows_high = np.where(is_on, rows_high, np.maximum(rows_high, 0.0))
        low = np.vstack([low, np.where(off[units, None], 0.0, rows_low)])
        high = np.vstack([high, np.where(off[units, None], 0.0, rows_high)])
    return _interval_product(network.output, low, high)


def _interval_product(layer: Layer, low: Array, high: Array) -> tuple[Array, Array]:
    positive = np.maximum(layer.weights, 0.0)
    negative = np.minimum(layer.weights, 0.0)
    size = (positive - negative) @ np.maximum(np.abs(low), np.abs(high))
    clock.spend(10.0 * layer.weights.size * low.shape[1])
    rounding = 2.0 * ROUNDOFF * (layer.weights.shape[1] + 2) * size
    return positive @ low + negative @ high - rounding, positive @ high + negative @ low + rounding


def row_sum_bounds(network: ReluNetwork, off: Mask, input_widths: Array) -> Array:
    """Bounds of Σ_j |∂f_i/∂x_j| width_j by r_u = Σ_k |w_uk| r_k, with r_j = width_j for inputs and 0 for units that are
    off; (outputs,).

    The product of all layers' absolute weights: looser than `jacobian_bounds`, but no matrix is held.
    """
    sums = input_widths
    for layer, units in zip(network.hidden, network.unit_slices, strict=True):
        sums = np.concatenate([sums, np.where(off[units], 0.0, _row_sums(layer, sums))])
    return _row_sums(network.output, sums)


def _row_sums(layer: Layer, sums: Array) -> Array:
    return np.asarray(np.abs(layer.weights) @ sums * (1.0 + 2.0 * ROUNDOFF * (layer.weights.shape[1] + 2)))


def layer_norm_bound(network: ReluNetwork, input_widths: Array, output_widths: Array, norm: BlockNorm) -> float:
    """A bound of L by Euclidean norms: N_l = Σ_k ‖W_lk‖ N_k over the blocks of columns that a layer reads, N = 1 for
    the inputs (with their widths in the block), and L <= √inputs · N of the output.

    Tighter than products of absolute values for wide and deep networks.
    """
    count = network.input_count
    starts = [0, *(count + units.start for units in network.unit_slices)]
    stops = [count, *(count + units.stop for units in network.unit_slices)]
    norms = [1.0]
    for place, layer in enumerate((*network.hidden, network.output)):
        is_output = place == len(network.hidden)
        total = norm.of(layer.weights[:, :count] * input_widths / (output_widths[:, None] if is_output else 1.0))
        for block in range(1, place + 1):
            weights = layer.weights[:, starts[block] : stops[block]]
            found = norm.of(weights / output_widths[:, None]) if is_output else norm.known(place, block, weights)
            total += found * norms[block]
        norms.append(total)
    return float(np.sqrt(count) * norms[-1] * (1.0 + 1e-9))


class BlockNorm:
    """Bounds of ‖W‖, rounding included: the root of the largest eigenvalue of WᵀW, or, for
    blocks of more than `largest` entries, the root of (largest row sum · largest column sum). Those of blocks between
    hidden layers are remembered."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._known: dict[tuple[int, int], float] = {}

    def of(self, block: Array) -> float:
        if not block.any():
            return 0.0
        if block.size <= self._largest:
            gram = block.T @ block if block.shape[0] >= block.shape[1] else block @ block.T
            clock.spend(10.0 * block.size * len(gram))
            return float(np.sqrt(np.linalg.eigvalsh(gram)[-1])) * (1.0 + 1e-9)
        return float(np.sqrt(np.linalg.norm(block, 1) * np.linalg.norm(block, np.inf))) * (1.0 + 1e-9)

    def known(self, place: int, block: int, weights: Array) -> float:
        """Of a block between hidden layers, computed once."""
        if (place, block) not in self._known:
            self._known[place, block] = self.of(weights)
        return self._known[place, block]


def jacobian(network: ReluNetwork, x: Array) -> Array:
    """∂f/∂x of the linear piece at x, shape (outputs, inputs)."""
    active = network.preactivations(x) > 0.0
    rows = np.eye(network.input_count)
    for layer, units in zip(network.hidden, network.unit_slices, strict=True):
        rows = np.vstack([rows, np.where(active[units, None], layer.weights @ rows, 0.0)])
        clock.spend(2.0 * layer.weights.size * network.input_count)
    return np.asarray(network.output.weights @ rows)


def lipschitz_bounds(
    network: ReluNetwork,
    box: BoxBounds,
    widths: Sequence[tuple[Array, Array]],
    deadline: float,
    settings: InspectionSettings,
) -> list[Lipschitz]:
    """L of f over a box, for inputs and outputs measured in each of these widths: |∂f_i/∂x_j| · width_j / width_i.

    Proven by `jacobian_bounds`, or by `row_sum_bounds` where that would hold too large a matrix, and by
    `layer_norm_bound`, whichever is smaller. Sampled until the deadline (of clock.now), at one point at least, if the
    box is finite.
    """
    values = network.input_count + network.relu_count
    is_small = values * network.input_count <= settings.jacobian_numbers
    low, high = jacobian_bounds(network, box.on, box.off) if is_small else (None, None)
    norm = BlockNorm(settings.spectral_numbers)
    proven = []
    for inputs, outputs in widths:
        if low is None or high is None:
            sums = row_sum_bounds(network, box.off, inputs)
        else:
            sums = np.maximum(np.abs(low), np.abs(high)) @ inputs
        bound = float((sums / outputs).max(initial=0.0)) * (1.0 + 2.0 * ROUNDOFF * (network.input_count + 4))
        proven.append(min(bound, layer_norm_bound(network, inputs, outputs, norm)))
    sampled, count = _sampled(network, box.points, widths, deadline, settings.derivatives)
    return [Lipschitz(p, s, count) for p, s in zip(proven, sampled, strict=True)]


def _sampled(
    network: ReluNetwork, points: Array | None, widths: Sequence[tuple[Array, Array]], deadline: float, most: int
) -> tuple[list[float] | list[None], int]:
    """The largest Σ_j |∂f_i/∂x_j| width_j / width_i at some points, for each of the widths, and how many points."""
    if points is None:
        return [None] * len(widths), 0
    largest = [0.0] * len(widths)
    count = 0
    for point in points[:most]:
        size = np.abs(jacobian(network, point))
        found = [float((size @ inputs / outputs).max(initial=0.0)) for inputs, outputs in widths]
        largest = [max(pair) for pair in zip(largest, found, strict=True)]
        count += 1
        if clock.now() > deadline:
            break
    return largest, count
