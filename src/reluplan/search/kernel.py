"""Batched rollouts and gradients in float32: what the search samples by; what counts is rolled out in float64 again.

Half the memory of float64 is twice the speed, and batches in pieces that stay in the cache are faster still. Weights
that are zero for a whole layer are left out, as in a sequential network, where a layer reads only the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.errors import OutOfTimeError
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.problem import Problem
from reluplan.search.batch import Rollout
from reluplan.search.decisions import Decisions

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Mask = NDArray[np.bool_]

CACHE = 2**20
"""Bytes of one layer's outputs that a piece of a batch may have."""


@dataclass(frozen=True, eq=False)
class _Block:
    """W_lk: what a layer reads of the outputs of source k (0: the inputs), as (width of k, units) and transposed."""

    source: int
    weights: Single
    transposed: Single


@dataclass(frozen=True, eq=False)
class _Layer:
    """Σ_k z_k W_lk + b_l over the sources k that the layer reads at all."""

    blocks: tuple[_Block, ...]
    bias: Single

    def forward(self, values: list[Single]) -> Single:
        total = np.broadcast_to(self.bias, (len(values[0]), len(self.bias)))
        if not self.blocks:
            return total.copy()
        first, *others = self.blocks
        out = values[first.source] @ first.weights
        for block in others:
            out += values[block.source] @ block.weights
        out += self.bias
        return out


class Kernel:
    """The dynamics of a problem in float32."""

    def __init__(self, problem: Problem) -> None:
        network = problem.dynamics
        self._problem = problem
        self._hidden = [_layer(network, layer) for layer in network.hidden]
        self._output = _layer(network, network.output)
        widest = max(network.input_count, *(layer.unit_count for layer in (*network.hidden, network.output)))
        self.piece = max(16, CACHE // (4 * widest))
        """How many plans are rolled out together."""

    def roll_out(self, decisions: Decisions, deadline: float = np.inf, masks: bool = False) -> Rollout:
        """What the plans lead to; with which units are on if `masks`, as gradients need it. OutOfTimeError after the
        deadline (of clock.now)."""
        parts = [
            self._piece(_part(decisions, first, first + self.piece), deadline, masks)
            for first in range(0, decisions.count, self.piece)
        ]
        states = np.concatenate([states for states, _ in parts])
        active = np.concatenate([active for _, active in parts], axis=1)
        return Rollout(decisions, states, active)

    def _piece(self, decisions: Decisions, deadline: float, masks: bool) -> tuple[Array, Mask]:
        problem = self._problem
        network = problem.dynamics
        given = np.concatenate([decisions.actions, decisions.auxiliaries[:, :-1]], axis=-1).astype(np.float32)
        states = np.empty((decisions.count, decisions.horizon + 1, problem.layout.state_count))
        active = np.zeros((decisions.horizon, decisions.count, network.relu_count if masks else 0), dtype=bool)
        rounds = bool(problem.discrete_states.any())
        states[:, 0] = decisions.initial
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(decisions.horizon):
                if clock.now() > deadline:
                    raise OutOfTimeError("the time for rolling out plans is over")
                clock.spend(decisions.count * network.operations)
                inputs = np.concatenate([states[:, t].astype(np.float32), given[:, t]], axis=-1)
                predicted = self._step(inputs, active[t] if masks else None)
                states[:, t + 1] = problem.round_states(predicted.astype(np.float64)) if rounds else predicted
        return states, active

    def _step(self, inputs: Single, active: Mask | None) -> Single:
        values = [inputs]
        for layer, units in zip(self._hidden, self._problem.dynamics.unit_slices, strict=True):
            out = layer.forward(values)
            if active is not None:
                np.greater(out, 0.0, out=active[:, units])
            np.maximum(out, 0.0, out=out)
            values.append(out)
        return self._output.forward(values)

    def pull_back(self, slopes: Array, active: Mask) -> Array:
        """Jᵀ λ for slopes λ (B, outputs) with activations (B, units), as `batch.pull_back`."""
        sums: list[Single | None] = [None] * (len(self._hidden) + 1)
        _spread(self._output, slopes.astype(np.float32), sums)
        for index in range(len(self._hidden) - 1, -1, -1):
            own = sums[index + 1]
            if own is not None:
                own *= active[:, self._problem.dynamics.unit_slices[index]]
                _spread(self._hidden[index], own, sums)
        if sums[0] is None:
            return np.zeros((len(slopes), self._problem.dynamics.input_count))
        return sums[0].astype(np.float64)


def _spread(layer: _Layer, slopes: Single, sums: list[Single | None]) -> None:
    """Add λ W_lk to what is known of each source."""
    for block in layer.blocks:
        part = slopes @ block.transposed
        known = sums[block.source]
        sums[block.source] = part if known is None else known + part


def _layer(network: ReluNetwork, layer: Layer) -> _Layer:
    """The layer in blocks, one for each source that it reads."""
    ends = np.cumsum([network.input_count, *(hidden.unit_count for hidden in network.hidden)]).tolist()
    starts = [0, *ends[:-1]]
    blocks = []
    for source, (start, end) in enumerate(zip(starts, ends, strict=True)):
        weights = layer.weights[:, start:end]
        if weights.any():
            single = weights.astype(np.float32)
            blocks.append(_Block(source, np.ascontiguousarray(single.T), np.ascontiguousarray(single)))
    return _Layer(tuple(blocks), layer.bias.astype(np.float32))


def _part(decisions: Decisions, first: int, last: int) -> Decisions:
    return Decisions(decisions.initial[first:last], decisions.actions[first:last], decisions.auxiliaries[first:last])
