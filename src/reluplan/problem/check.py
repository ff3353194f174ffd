"""Checking a plan that was rolled out: every constraint at every step, and the largest violation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.expression import Constraint
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, state_vectors, step_vectors
from reluplan.problem.ties import tie_violations
from reluplan.problem.tolerance import ROUNDING, TOLERANCE

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Violation:
    """A constraint and the step (1..H+1) at which a trajectory violates it most; up to the tolerance it is kept."""

    constraint: str
    step: int
    amount: float
    tolerance: float = TOLERANCE

    @property
    def is_broken(self) -> bool:
        return self.amount > self.tolerance


@dataclass(frozen=True)
class CheckReport:
    """What a trajectory is worth, and by how much it breaks each constraint that it breaks."""

    reward: float
    max_violation: float
    violations: tuple[Violation, ...]
    constraint_count: int

    @property
    def ok(self) -> bool:
        return math.isfinite(self.reward) and not any(violation.is_broken for violation in self.violations)

    @property
    def used_tolerance(self) -> float:
        """The largest share of its tolerance that a violation uses; 0 for a plan that keeps every constraint."""
        return max((v.amount / v.tolerance if v.tolerance else math.inf for v in self.violations), default=0.0)

    @property
    def broken(self) -> tuple[Violation, ...]:
        """The constraints that are violated by more than their tolerance."""
        return tuple(violation for violation in self.violations if violation.is_broken)


@dataclass(frozen=True)
class SoftViolation:
    """How far a plan breaks a soft row: in all and at worst, at that step (1..H), at how many steps, and at what cost.

    cost: before discounting.
    """

    row: str
    weight: float
    total: float
    worst: float
    step: int
    steps: int
    cost: float

    def __str__(self) -> str:
        return f"{self.row}: broken at {self.steps} steps, at worst by {self.worst:.4g} at step {self.step}"


def soft_violations(problem: Problem, trajectory: Trajectory) -> tuple[SoftViolation, ...]:
    """The soft rows that a plan breaks by more than rounding, the most costly first."""
    w = step_vectors(trajectory.states, trajectory.actions, trajectory.auxiliaries)
    found = []
    for soft in problem.soft:
        excess = soft.excess(w)
        at = int(np.argmax(excess))
        if excess[at] > TOLERANCE:
            total = float(excess.sum())
            steps = int((excess > TOLERANCE).sum())
            text, weight = soft.constraint.text, soft.weight
            found.append(SoftViolation(text, weight, total, float(excess[at]), at + 1, steps, weight * total))
    return tuple(sorted(found, key=lambda violation: -violation.cost))


def check(problem: Problem, trajectory: Trajectory, is_predicted: bool = True) -> CheckReport:
    """Recompute every constraint of the problem along the trajectory; worst violations first.

    is_predicted: the states are the network's, which must not hang on rounding ties; not those of the true system.
    """
    found = list(_violations(problem, trajectory, is_predicted))
    broken = sorted((v for v in found if v.amount > 0.0), key=lambda v: -v.amount)
    worst = broken[0].amount if broken else 0.0
    return CheckReport(trajectory.total_reward, worst, tuple(broken), len(found))


def _violations(problem: Problem, trajectory: Trajectory, is_predicted: bool) -> Iterator[Violation]:
    """The worst step of every constraint, violated or not."""
    states = trajectory.states
    actions = trajectory.actions
    auxiliaries = trajectory.auxiliaries
    allowed = problem.tolerances
    initial = np.maximum(problem.initial_lower - states[0], states[0] - problem.initial_upper)
    for variable, amount, tolerance in zip(problem.states, initial, allowed.states, strict=True):
        yield _worst(f"initial value of {variable.name}", np.array([amount]), 1, tolerance)
    yield from _domain(problem.states, states, allowed.states)
    yield from _domain(problem.actions, actions, allowed.actions)
    yield from _domain(problem.auxiliaries, auxiliaries, allowed.auxiliaries)
    for series, values, known in zip(
        problem.series, auxiliaries[:, problem.series_columns].T, problem.series_table.T, strict=True
    ):
        yield _worst(f"{series.name} is what it is known to be", np.abs(values - known), 1, 0.0)
    for state, amounts in tie_violations(problem, states, actions, auxiliaries) if is_predicted else ():
        # Bounds leave out what is closer, so there is no tolerance but for the subtraction of 1/2.
        yield _worst(f"{problem.states[state].name} is not decided by a rounding tie", amounts, 2, ROUNDING)
    steps = step_vectors(states, actions, auxiliaries)
    yield from _rows(problem.constraints, steps, 1, allowed.constraints)
    yield from _rows(problem.initial_constraints, steps[:1], 1, allowed.initial_constraints)
    last = state_vectors(problem, states[-1:], auxiliaries[-1:])
    yield from _rows(problem.goal, last, trajectory.horizon + 1, allowed.goal)


def _domain(variables: Sequence[Variable], values: Array, allowed: Array) -> Iterator[Violation]:
    """Bounds and integrality of variables; values of shape (steps, variables)."""
    for variable, series, tolerance in zip(variables, values.T, allowed, strict=True):
        outside = np.maximum(variable.lower - series, series - variable.upper)
        yield _worst(f"{variable.lower:g} <= {variable.name} <= {variable.upper:g}", outside, 1, tolerance)
        if variable.is_discrete:
            yield _worst(f"{variable.name} is {variable.kind}", np.abs(series - np.round(series)), 1, 0.0)


def _rows(constraints: Sequence[Constraint], w: Array, first_step: int, allowed: Array) -> Iterator[Violation]:
    for constraint, tolerance in zip(constraints, allowed, strict=True):
        yield _worst(constraint.text, constraint.violation(w), first_step, tolerance)


def _worst(text: str, amounts: Array, first_step: int, tolerance: float) -> Violation:
    amounts = np.where(np.isnan(amounts), np.inf, amounts)  # a state that is not a number violates everything
    at = int(np.argmax(amounts))
    return Violation(text, first_step + at, float(amounts[at]), float(tolerance))
