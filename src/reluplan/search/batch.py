"""Batched rollouts, and carrying gradients back through the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Problem
from reluplan.problem.steps import rollout_batch
from reluplan.search.decisions import Decisions

Array = NDArray[np.float64]


PullBack = Callable[[Array, NDArray[np.bool_]], Array]
"""Jᵀ λ from slopes λ (B, outputs) and activations (B, units)."""


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
    """What the plans of the batch lead to, all together; OutOfTimeError after the last moment."""
    states, active = rollout_batch(
        problem, decisions.initial, decisions.actions, decisions.auxiliaries, deadline=last_moment
    )
    return Rollout(decisions, states, active)


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


def adjoint(
    problem: Problem,
    rollout: Rollout,
    states: Array,
    actions: Array,
    auxiliaries: Array,
    back: PullBack | None = None,
) -> Decisions:
    """The total gradient of a function of the trajectory, from its direct slopes with respect to s_t, a_t, x_t.

    λ_{H+1} = ∂/∂s_{H+1};  λ_t = ∂/∂s_t + (∂T/∂s)ᵀ λ_{t+1};  d/da_t = ∂/∂a_t + (∂T/∂a)ᵀ λ_{t+1}; x_t likewise.
    Rounded states count as if they were not rounded (straight through).
    """
    layout = problem.layout
    back = back or partial(pull_back, problem.dynamics)
    actions, auxiliaries = actions.copy(), auxiliaries.copy()
    slopes = states[:, -1]
    for t in range(rollout.decisions.horizon - 1, -1, -1):
        clock.spend(len(slopes) * problem.dynamics.operations)
        inputs = back(slopes, rollout.active[t])
        actions[:, t] += inputs[:, layout.actions]
        auxiliaries[:, t] += inputs[:, layout.auxiliaries]
        slopes = states[:, t] + inputs[:, layout.states]
    return Decisions(slopes, actions, auxiliaries)
