"""Many plans at once: what they are worth, what they break, and in which direction they get better."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem
from reluplan.problem.tolerance import TOLERANCE

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """g(w) <= 0 at some steps; tolerance: what `check` lets pass."""

    function: PiecewiseLinear
    sign: float
    tolerance: float
    is_goal: bool = False


@dataclass(frozen=True)
class Judged:
    """Of P plans, all (P,): rewards, the sum of what they break, and whether they break nothing."""

    rewards: Array
    broken: Array
    allowed: NDArray[np.bool_]


class Rollouts:
    """Plans of shape (P, H, m) in the learned dynamics, P at a time, from one first state."""

    def __init__(self, problem: Problem) -> None:
        if problem.auxiliaries or (problem.initial_lower != problem.initial_upper).any():
            raise InputError("the baselines plan from one first state and know no auxiliaries")
        if problem.discrete_states.any():
            raise InputError("the baselines know no integer states")
        self.problem = problem
        self.lower, self.upper = problem.box(problem.actions)
        self.whole = np.array([action.is_discrete for action in problem.actions])
        self.rows = list(_rows(problem))

    def fitting(self, actions: Array) -> Array:
        """The nearest actions that are allowed by themselves."""
        inside = np.clip(actions, self.lower, self.upper)
        return np.where(self.whole, np.round(inside), inside)

    def states(self, actions: Array) -> Array:
        """(P, H+1, n)."""
        states = [np.tile(self.problem.initial_lower, (len(actions), 1))]
        for t in range(actions.shape[1]):
            states.append(self.problem.dynamics.forward(np.hstack([states[-1], actions[:, t]])))
        return np.stack(states, axis=1)

    def judge(self, actions: Array) -> Judged:
        """Roll out and judge."""
        with np.errstate(all="ignore"):  # what diverges is worth nothing
            return self.judge_states(self.states(actions), actions)

    def judge_states(self, states: Array, actions: Array) -> Judged:
        """Σ_t γ^(t−1) R_t + γ^H F, and Σ max(0, g / scale) over all rows and steps."""
        w, final = self.vectors(states, actions)
        rewards = self.problem.reward.evaluate(w) @ self.problem.discount_factors[:-1]
        if self.problem.final_reward is not None:
            rewards = rewards + self.problem.discount_factors[-1] * self.problem.final_reward.evaluate(final)
        broken, allowed = np.zeros(len(w)), np.isfinite(rewards)
        for row in self.rows:
            amount = row.sign * row.function.evaluate(final[:, None] if row.is_goal else w)
            broken += np.maximum(amount, 0.0).sum(axis=1) * TOLERANCE / row.tolerance
            allowed &= (amount <= row.tolerance).all(axis=1)
        return Judged(np.where(np.isfinite(rewards), rewards, -np.inf), np.nan_to_num(broken, nan=np.inf), allowed)

    def vectors(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """w of every step, (P, H, width), and of the final state, (P, width)."""
        w = np.concatenate([states[:, :-1], actions, states[:, 1:]], axis=2)
        final = np.zeros((len(w), w.shape[2]))
        final[:, self.problem.layout.states] = states[:, -1]
        return w, final


def _rows(problem: Problem) -> Iterator[Row]:
    """Bounds of next states, constraints (an equation as two rows), the goal."""
    width = problem.layout.width
    for i, (state, tolerance) in enumerate(zip(problem.states, problem.tolerances.states, strict=True)):
        value = PiecewiseLinear.variable(problem.layout.next_states.start + i, width)
        for sign, bound in ((1.0, state.upper), (-1.0, state.lower)):
            if np.isfinite(bound):
                yield Row(value - PiecewiseLinear.constant_of(bound, width), sign, float(tolerance))
    allowed = problem.tolerances
    for is_goal, rows, tolerances in (
        (False, problem.constraints, allowed.constraints), (True, problem.goal, allowed.goal)
    ):  # fmt: skip
        for row, tolerance in zip(rows, tolerances, strict=True):
            for sign in (1.0, -1.0) if row.equality else (1.0,):
                yield Row(row.function, sign, float(tolerance), is_goal)
