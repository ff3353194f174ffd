"""Many steps at once: what they lead to, what they are worth, and whether they satisfy the constraints.

Everything that samples, searches or rolls out plans in batches evaluates them here; one plan is a `rollout`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.errors import OutOfTimeError
from reluplan.network.batch_forward import BatchForward
from reluplan.problem.expression import Constraint
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of a problem, one in each row.

    w: (s, a, x, s', x'), shape (B, width). units: pre-activations of every unit, shape (B, relu_count).
    """

    problem: Problem
    w: Array
    units: Array

    def __len__(self) -> int:
        return len(self.w)

    @property
    def inputs(self) -> Array:
        """(s, a, x), shape (B, input_count)."""
        return self.w[:, : self.problem.layout.input_count]

    @property
    def next_states(self) -> Array:
        """s', shape (B, n)."""
        return self.w[:, self.problem.layout.next_states]

    def rewards(self) -> Array:
        """R(s, a, x, s', x'), shape (B,)."""
        return self.problem.reward.evaluate(self.w)

    def end_within(self, lower: Array, upper: Array, allowed: Array | float = 0.0) -> Mask:
        """Which steps have s' in a box, up to what is allowed on either side, shape (B,)."""
        after = self.next_states
        inside = (after >= lower - allowed) & (after <= upper + allowed)
        return np.asarray(inside.all(axis=1))

    def satisfy(self, rows: Sequence[Constraint] | None = None, allowed: Array | None = None) -> Mask:
        """Which steps keep some rows, by default those of C, each up to what is allowed, by default the problem's
        own tolerances for the rows of C; shape (B,)."""
        rows = self.problem.constraints if rows is None else rows
        allowed = self.problem.tolerances.constraints if allowed is None else allowed
        kept = np.ones(len(self), dtype=bool)
        for row, tolerance in zip(rows, allowed, strict=True):
            kept &= row.violation(self.w) <= tolerance
        return kept

    def take(self, which: Mask | NDArray[np.int64]) -> Steps:
        """Some of the steps."""
        return Steps(self.problem, self.w[which], self.units[which])


def evaluate_steps(problem: Problem, inputs: Array, next_auxiliaries: Array | None = None) -> Steps:
    """The steps from inputs (s, a, x) of shape (B, input_count); x' of shape (B, k), zeros if not given."""
    units, predictions = problem.dynamics.evaluate(inputs)
    if next_auxiliaries is None:
        next_auxiliaries = np.zeros((len(inputs), len(problem.auxiliaries)))
    return Steps(problem, np.hstack([inputs, problem.round_states(predictions), next_auxiliaries]), units)


def rollout_batch(
    problem: Problem, initial: Array, actions: Array, auxiliaries: Array, deadline: float = math.inf
) -> tuple[Array, Mask]:
    """s_{t+1} = T(s_t, a_t, x_t) for many plans together: states (B, H+1, n), and which units are on (H, B, units).

    initial: (B, n). actions: (B, H, m). auxiliaries: (B, H+1, k). OutOfTimeError after the deadline (of clock.now).
    """
    network = problem.dynamics
    layout = problem.layout
    count, horizon = actions.shape[:2]
    states = np.empty((count, horizon + 1, layout.state_count))
    active = np.empty((horizon, count, network.relu_count), dtype=bool)
    values = np.empty((count, network.input_count + network.relu_count))
    rounds = bool(problem.discrete_states.any())
    given = np.concatenate([actions, auxiliaries[:, :-1]], axis=-1)
    from_state = slice(0, layout.state_count)
    from_given = slice(layout.state_count, network.input_count)
    forward = BatchForward(network)
    states[:, 0] = initial
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(horizon):
            if clock.now() > deadline:
                raise OutOfTimeError("the time for rolling out plans is over")
            clock.spend(count * network.operations)
            values[:, from_state] = states[:, t]
            values[:, from_given] = given[:, t]
            predicted = forward(values, active[t])
            states[:, t + 1] = problem.round_states(predicted) if rounds else predicted
    return states, active
