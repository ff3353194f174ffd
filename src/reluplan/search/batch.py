"""Batched rollouts, and carrying gradients back through the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.errors import OutOfTimeError
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Problem
from reluplan.search.decisions import Decisions

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rollout:
    """Decisions, the states (B, H+1, n) that they lead to, and which units are on, shape (H, B, relu_count)."""

    decisions: Decisions
    states: Array
    active: NDArray[np.bool_]

    def step_vectors(self) -> Array:
        """w_t = (s_t, a_t, x_t, s_{t+1}, x_{t+1}) of every plan and step, shape (B, H, width)."""
        states, actions, auxiliaries = self.states, self.decisions.actions, self.decisions.auxiliaries
        parts = [states[:, :-1], actions, auxiliaries[:, :-1], states[:, 1:], auxiliaries[:, 1:]]
        return np.concatenate(parts, axis=-1)


def roll_out(problem: Problem, decisions: Decisions, last_moment: float = np.inf) -> Rollout:
    """s_{t+1} = T(s_t, a_t, x_t) for all plans of the batch together; OutOfTimeError after the last moment."""
    network, layout = problem.dynamics, problem.layout
    count, horizon = decisions.count, decisions.horizon
    states = np.empty((count, horizon + 1, layout.state_count))
    active = np.empty((horizon, count, network.relu_count), dtype=bool)
    values = np.empty((count, network.input_count + network.relu_count))
    rounds = bool(problem.discrete_states.any())
    given = np.concatenate([decisions.actions, decisions.auxiliaries[:, :-1]], axis=-1)
    from_state, from_given = slice(0, layout.state_count), slice(layout.state_count, network.input_count)
    forward = _forward(network)
    states[:, 0] = decisions.initial
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(horizon):
            if clock.now() > last_moment:
                raise OutOfTimeError("the time for simulating plans is over")
            clock.spend(count * network.operations)
            values[:, from_state], values[:, from_given] = states[:, t], given[:, t]
            predicted = forward(values, active[t])
            states[:, t + 1] = problem.round_states(predicted) if rounds else predicted
    return Rollout(decisions, states, active)


def _forward(network: ReluNetwork) -> Callable[[Array, NDArray[np.bool_]], Array]:
    """A function that fills in the unit outputs behind the inputs in its first argument (B, inputs + units), and which
    units are on in its second one (B, units), and returns the outputs; with all that can be prepared once."""
    layers = []
    for layer, units in zip(network.hidden, network.unit_slices, strict=True):
        start = network.input_count + units.start
        layers.append((layer.weights.T.copy(), layer.bias, start, slice(start, start + layer.unit_count), units))
    last, bias = network.output.weights.T.copy(), network.output.bias

    def forward(values: Array, active: NDArray[np.bool_]) -> Array:
        for weights, shift, start, place, units in layers:
            pre = values[:, :start] @ weights
            pre += shift
            np.greater(pre, 0.0, out=active[:, units])
            np.maximum(pre, 0.0, out=values[:, place])
        return np.asarray(values @ last + bias)

    return forward


def pull_back(network: ReluNetwork, slopes: Array, active: NDArray[np.bool_]) -> Array:
    """Jᵀ λ for slopes λ (..., outputs) with activations (..., units): the slopes of the inputs.

    With g = λ W_out over all values, each layer from the last to the first adds (g_units · on) W_l to what it reads.
    """
    gradient = slopes @ network.output.weights
    for layer, units in zip(reversed(network.hidden), reversed(network.unit_slices), strict=True):
        start = network.input_count + units.start
        own = gradient[..., start : start + layer.unit_count] * active[..., units]
        gradient[..., :start] += own @ layer.weights
    return gradient[..., : network.input_count]


def adjoint(problem: Problem, rollout: Rollout, states: Array, actions: Array, auxiliaries: Array) -> Decisions:
    """The total gradient of a function of the trajectory, from its direct slopes with respect to s_t, a_t, x_t.

    λ_{H+1} = ∂/∂s_{H+1};  λ_t = ∂/∂s_t + (∂T/∂s)ᵀ λ_{t+1};  d/da_t = ∂/∂a_t + (∂T/∂a)ᵀ λ_{t+1}; x_t likewise.
    Rounded states count as if they were not rounded (straight through).
    """
    layout = problem.layout
    actions, auxiliaries = actions.copy(), auxiliaries.copy()
    slopes = states[:, -1]
    for t in range(rollout.decisions.horizon - 1, -1, -1):
        clock.spend(len(slopes) * problem.dynamics.operations)
        back = pull_back(problem.dynamics, slopes, rollout.active[t])
        actions[:, t] += back[:, layout.actions]
        auxiliaries[:, t] += back[:, layout.auxiliaries]
        slopes = states[:, t] + back[:, layout.states]
    return Decisions(slopes, actions, auxiliaries)
