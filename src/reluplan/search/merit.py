"""What the search maximises: what a plan is worth, less a penalty for broken constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.discounting import present_value
from reluplan.problem.expression import Constraint
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import final_rewards, state_vectors
from reluplan.search.batch import PullBack, Rollout, adjoint
from reluplan.search.decisions import Decisions
from reluplan.search.settings import DEFAULTS, PenaltySettings
from reluplan.search.slopes import largest_slope, value_and_slope

Array = NDArray[np.float64]

HOPELESS = 1e30
"""The merit of a step that leads to no number at all is minus this."""


@dataclass(frozen=True, eq=False)
class Score:
    """Reward, total violation, and largest violation in units of its tolerance of each plan of a batch, all (B,)."""

    reward: Array
    violation: Array
    worst: Array

    @classmethod
    def join(cls, parts: Sequence[Score]) -> Score:
        """One batch after the other."""
        rewards, violations, worst = zip(*((part.reward, part.violation, part.worst) for part in parts), strict=True)
        return cls(np.concatenate(rewards), np.concatenate(violations), np.concatenate(worst))

    def take(self, which: NDArray[np.int64]) -> Score:
        """Those of some plans."""
        return Score(self.reward[which], self.violation[which], self.worst[which])

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Which plans keep every constraint within the tolerance of the check."""
        fine: NDArray[np.bool_] = (self.worst <= 1.0) & np.isfinite(self.reward)
        return fine

    def merit(self, penalty: float) -> Array:
        """reward − penalty · violation; what is not a number is worth −inf."""
        merit = self.reward - penalty * self.violation
        return np.where(np.isfinite(merit), merit, -np.inf)


@dataclass(frozen=True, eq=False)
class Merit:
    """reward − penalty · Σ violations, an exact penalty once the penalty exceeds the multipliers of the constraints.

    Violations count for state bounds, C, G and the rows of I; the boxes of decisions are kept by projection.
    """

    problem: Problem
    penalty: float

    @classmethod
    def of(cls, problem: Problem, settings: PenaltySettings = DEFAULTS.penalty) -> Merit:
        """With a multiple of the steepest slope of the reward as the first penalty."""
        functions = [problem.reward] if problem.final_reward is None else [problem.reward, problem.final_reward]
        slopes = [largest_slope(function, *problem.step_box) for function in functions]
        return cls(problem, settings.first * max(1.0, *slopes))

    def score(self, rollout: Rollout) -> Score:
        """The value of each plan."""
        with np.errstate(over="ignore", invalid="ignore"):
            w = rollout.step_vectors()
            reward = self._worth(self.problem.reward.evaluate(w), rollout)
            parts = [(part, self.problem.tolerances.states) for part in _outside(self.problem, rollout.states)]
            parts += self._row_values(rollout, w)
            count = rollout.decisions.count
            amounts = [np.maximum(part, 0.0).reshape(count, -1) for part, _ in parts]
            shares = [np.maximum(part / tolerance, 0.0).reshape(count, -1) for part, tolerance in parts]
        total = sum((part.sum(axis=1) for part in amounts), np.zeros(count))
        worst = np.max([part.max(axis=1, initial=0.0) for part in shares], axis=0)
        return Score(reward, total, worst)

    def step_merit(self, rollout: Rollout) -> Array:
        """R − penalty · violation of C and of the bounds of s' at the first step of each plan, shape (B,)."""
        w = rollout.step_vectors()[:, 0]
        outside = _outside(self.problem, rollout.states[:, 1])
        total = sum((np.maximum(part, 0.0).sum(axis=1) for part in outside), np.zeros(len(w)))
        total += _total_violation(self.problem.constraints, w)
        merit = self.problem.reward.evaluate(w) - self.penalty * total
        return np.where(np.isfinite(merit), merit, -HOPELESS)

    def final_merit(self, rollout: Rollout) -> Array:
        """F − penalty · violation of G at the last state of each plan, shape (B,)."""
        last = _state_vectors(self.problem, rollout, -1)
        merit = _final_rewards(self.problem, rollout) - self.penalty * _total_violation(self.problem.goal, last)
        return np.where(np.isfinite(merit), merit, -HOPELESS)

    def _worth(self, rewards: Array, rollout: Rollout) -> Array:
        """Σ γ^t R + γ^H F of each plan from its rewards (B, H)."""
        return present_value(rewards, _final_rewards(self.problem, rollout), self.problem.discount)

    def _row_values(self, rollout: Rollout, w: Array) -> list[tuple[Array, Array]]:
        """The value of every row, and its tolerance."""
        return [
            (np.abs(value) if constraint.equality else value, tolerance)
            for constraints, vectors, allowed in self._rows(rollout, w)
            for constraint, tolerance in zip(constraints, allowed, strict=True)
            for value in [constraint.function.evaluate(vectors)]
        ]

    def _rows(self, rollout: Rollout, w: Array) -> list[tuple[Sequence[Constraint], Array, Array]]:
        """C over every step, the rows of I over the first state, G over the last, each with their tolerances."""
        problem = self.problem
        allowed = problem.tolerances
        first, last = (_state_vectors(problem, rollout, t) for t in (0, -1))
        return [
            (problem.constraints, w, allowed.constraints),
            (problem.initial_constraints, first, allowed.initial_constraints),
            (problem.goal, last, allowed.goal),
        ]

    def gradient(self, rollout: Rollout, back: PullBack | None = None) -> tuple[Score, Decisions]:
        """The scores, and the gradient of the merit of each plan with respect to its decisions.

        back: how slopes go back through a step, by default in float64.
        """
        problem = self.problem
        layout = problem.layout
        count = rollout.decisions.count
        w = rollout.step_vectors()
        rewards, slopes = value_and_slope(problem.reward, w)
        edges = [np.zeros((count, layout.width)), np.zeros((count, layout.width))]
        total, worst = np.zeros(count), np.zeros(count)
        factors = problem.discount_factors
        sums = [factors[:-1, None] * slopes, *edges]
        if problem.final_reward is not None:
            sums[2] += factors[-1] * value_and_slope(problem.final_reward, _state_vectors(problem, rollout, -1))[1]
        for (constraints, vectors, allowed), target in zip(self._rows(rollout, w), sums, strict=True):
            for constraint, tolerance in zip(constraints, allowed, strict=True):
                amount, slope = _violation(constraint, vectors)
                target -= self.penalty * slope
                total += amount.reshape(count, -1).sum(axis=1)
                worst = np.maximum(worst, amount.reshape(count, -1).max(axis=1) / tolerance)
        below, above = _outside(problem, rollout.states)
        for part in (below, above):
            total += np.maximum(part, 0.0).sum(axis=(1, 2))
            worst = np.maximum(worst, (part / problem.tolerances.states).max(axis=(1, 2), initial=0.0))
        states, auxiliaries = np.zeros_like(rollout.states), np.zeros_like(rollout.decisions.auxiliaries)
        states[:] = self.penalty * ((below > 0.0).astype(float) - (above > 0.0))
        states[:, :-1] += sums[0][..., layout.states]
        states[:, 1:] += sums[0][..., layout.next_states]
        auxiliaries[:, :-1] += sums[0][..., layout.auxiliaries]
        auxiliaries[:, 1:] += sums[0][..., layout.next_auxiliaries]
        for t, edge in ((0, sums[1]), (-1, sums[2])):
            states[:, t] += edge[:, layout.states]
            auxiliaries[:, t] += edge[:, layout.auxiliaries]
        gradient = adjoint(problem, rollout, states, sums[0][..., layout.actions], auxiliaries, back)
        return Score(self._worth(rewards, rollout), total, worst), gradient


def _total_violation(constraints: Sequence[Constraint], w: Array) -> Array:
    values = [(constraint, constraint.function.evaluate(w)) for constraint in constraints]
    amounts = [np.abs(value) if constraint.equality else np.maximum(value, 0.0) for constraint, value in values]
    return sum(amounts, np.zeros(len(w)))


def _violation(constraint: Constraint, w: Array) -> tuple[Array, Array]:
    """max(0, g) or |g|, and its slope."""
    value, slope = value_and_slope(constraint.function, w)
    sign = np.sign(value) if constraint.equality else (value > 0.0).astype(float)
    return sign * value, sign[..., None] * slope


def _outside(problem: Problem, states: Array) -> tuple[Array, Array]:
    """How far states lie below and above their bounds; negative inside."""
    lower, upper = problem.box(problem.states)
    return lower - states, states - upper


def _state_vectors(problem: Problem, rollout: Rollout, t: int) -> Array:
    """One state of each plan and its auxiliaries where initial and goal rows read them, shape (B, width)."""
    return state_vectors(problem, rollout.states[:, t], rollout.decisions.auxiliaries[:, t])


def _final_rewards(problem: Problem, rollout: Rollout) -> Array:
    """F of the last state of each plan, shape (B,)."""
    return final_rewards(problem, rollout.states[:, -1], rollout.decisions.auxiliaries[:, -1])
