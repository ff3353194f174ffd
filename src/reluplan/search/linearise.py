"""The dynamics as affine maps: exact while no unit switches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Linearisation:
    """For each step t, in a neighbourhood of the trajectory with the given activation pattern:

        p(v) = jacobian[t] · v + offset[t]      predictions of s', jacobian (H, n, inputs), offset (H, n)
        In(v) = slopes[t] · v + intercepts[t]   pre-activations, slopes (H, units, inputs), intercepts (H, units)

    where v = (s, a, x). `inputs` (H, inputs) and `units` (H, units) are v and In along the trajectory.
    """

    inputs: Array
    units: Array
    active: NDArray[np.bool_]
    jacobian: Array
    offset: Array
    slopes: Array
    intercepts: Array


def linearise(problem: Problem, trajectory: Trajectory, active: NDArray[np.bool_] | None = None) -> Linearisation:
    """The affine maps of the trajectory's own pattern, or of another one (H, units)."""
    network = problem.dynamics
    inputs = np.hstack([trajectory.states[:-1], trajectory.actions, trajectory.auxiliaries[:-1]])
    units = network.preactivations(inputs)
    if active is None:
        active = units > 0.0
    clock.spend(len(inputs) * network.input_count * network.operations)
    values, constants = _affine_values(network, active)
    slopes, intercepts = values[:, network.input_count :], constants[:, network.input_count :]
    masked = np.concatenate([values[:, : network.input_count], slopes * active[..., None]], axis=1)
    shifts = np.concatenate([constants[:, : network.input_count], intercepts * active], axis=1)
    jacobian = np.matmul(network.output.weights, masked)
    offset = shifts @ network.output.weights.T + network.output.bias
    return Linearisation(inputs, units, active, jacobian, offset, slopes, intercepts)


def _affine_values(network: ReluNetwork, active: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Inputs and pre-activations as affine functions of the inputs: (H, inputs + units, inputs), (H, inputs + units).

    P_u = on_u · In_u, layer by layer.
    """
    steps = len(active)
    count = network.input_count
    rows = np.zeros((steps, count + network.relu_count, count))
    shifts = np.zeros((steps, count + network.relu_count))
    rows[:, :count] = np.eye(count)
    on = np.concatenate([np.ones((steps, count), dtype=bool), active], axis=1)
    for layer, units in zip(network.hidden, network.unit_slices, strict=True):
        start = count + units.start
        end = start + layer.unit_count
        rows[:, start:end] = np.matmul(layer.weights, rows[:, :start] * on[:, :start, None])
        shifts[:, start:end] = (shifts[:, :start] * on[:, :start]) @ layer.weights.T + layer.bias
    return rows, shifts
