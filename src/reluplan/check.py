"""Checking a simulated plan: every constraint at every step, and the largest violation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.expression import Constraint
from reluplan.problem import Problem, Variable
from reluplan.simulate import Trajectory, state_vector, step_vectors

Array = NDArray[np.float64]

TOLERANCE = 1e-6
"""A plan may violate a constraint by this much (absolute) and still be called a plan."""


@dataclass(frozen=True)
class Violation:
    """A constraint and the step (1..H+1) at which a trajectory violates it most."""

    constraint: str
    step: int
    amount: float


@dataclass(frozen=True)
class CheckReport:
    """What a trajectory is worth, and by how much it breaks each constraint that it breaks."""

    reward: float
    max_violation: float
    violations: tuple[Violation, ...]
    constraint_count: int

    @property
    def ok(self) -> bool:
        return self.max_violation <= TOLERANCE and math.isfinite(self.reward)


def check(problem: Problem, trajectory: Trajectory) -> CheckReport:
    """Recompute every constraint of the problem along the trajectory; worst violations first."""
    found = list(_violations(problem, trajectory))
    broken = sorted((v for v in found if v.amount > 0.0), key=lambda v: -v.amount)
    worst = broken[0].amount if broken else 0.0
    return CheckReport(trajectory.total_reward, worst, tuple(broken), len(found))


def _violations(problem: Problem, trajectory: Trajectory) -> Iterator[Violation]:
    """The worst step of every constraint, violated or not."""
    states, actions, auxiliaries = trajectory.states, trajectory.actions, trajectory.auxiliaries
    initial = np.maximum(problem.initial_lower - states[0], states[0] - problem.initial_upper)
    for variable, amount in zip(problem.states, initial, strict=True):
        yield _worst(f"initial value of {variable.name}", np.array([amount]), 1)
    yield from _domain(problem.states, states)
    yield from _domain(problem.actions, actions)
    yield from _domain(problem.auxiliaries, auxiliaries)
    steps = step_vectors(states, actions, auxiliaries)
    yield from _rows(problem.constraints, steps, 1)
    yield from _rows(problem.initial_constraints, steps[:1], 1)
    yield from _rows(problem.goal, state_vector(problem, states[-1], auxiliaries[-1]), trajectory.horizon + 1)


def _domain(variables: Sequence[Variable], values: Array) -> Iterator[Violation]:
    """Bounds and integrality of variables; values of shape (steps, variables)."""
    for variable, series in zip(variables, values.T, strict=True):
        outside = np.maximum(variable.lower - series, series - variable.upper)
        yield _worst(f"{variable.lower:g} <= {variable.name} <= {variable.upper:g}", outside, 1)
        if variable.is_discrete:
            yield _worst(f"{variable.name} is {variable.kind}", np.abs(series - np.round(series)), 1)


def _rows(constraints: Sequence[Constraint], w: Array, first_step: int) -> Iterator[Violation]:
    for constraint in constraints:
        value = constraint.function.evaluate(w)
        yield _worst(constraint.text, np.abs(value) if constraint.equality else value, first_step)


def _worst(text: str, amounts: Array, first_step: int) -> Violation:
    amounts = np.where(np.isnan(amounts), np.inf, amounts)  # a state that is not a number violates everything
    at = int(np.argmax(amounts))
    return Violation(text, first_step + at, float(amounts[at]))
