"""The proof by intervals: no step earns more than the largest reward in its box."""

from __future__ import annotations

import numpy as np

from reluplan.bounds.boxes import HorizonBounds
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import state_vectors, step_vectors
from reluplan.proofs.proof_state import ProofState


class IntervalProof:
    """OPT <= Σ_t γ^(t−1) max of R over the proven box of step t + γ^H max of F over the last one, by interval
    arithmetic: loose, and there at once."""

    stage = "interval"
    summary = "every step earns at most the largest reward in its box"
    needs_plan = False
    uses_workers = False

    def improve(self, state: ProofState, deadline: float) -> None:
        """One sum, whatever the deadline."""
        state.offer(*interval_bound(state.problem, state.boxes), "interval arithmetic")


def interval_bound(problem: Problem, bounds: HorizonBounds) -> tuple[float, float]:
    """The sum, and a margin for its rounding."""
    lower = step_vectors(bounds.state_lower, bounds.action_lower, bounds.auxiliary_lower)
    upper = step_vectors(bounds.state_upper, bounds.action_upper, bounds.auxiliary_upper)
    rewards = problem.reward.bounds(lower, upper)[1]
    final = np.zeros(1)
    if problem.final_reward is not None:
        lowest = state_vectors(problem, bounds.state_lower[-1:], bounds.auxiliary_lower[-1:])
        highest = state_vectors(problem, bounds.state_upper[-1:], bounds.auxiliary_upper[-1:])
        final = problem.final_reward.bounds(lowest, highest)[1]
    terms = problem.discount_factors * np.concatenate([rewards, final])
    return float(np.sum(terms)), 1e-12 * float(np.abs(terms).sum())
