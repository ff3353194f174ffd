"""The proof by boxes: no step earns more than the largest reward in its box."""

from __future__ import annotations

import numpy as np

from reluplan.bounds.reach import HorizonBounds
from reluplan.problem import Problem
from reluplan.proofs.knowledge import Knowledge
from reluplan.simulate import step_vectors


class BoxProof:
    """OPT <= Σ_t max of R over the proven box of step t, by interval arithmetic: loose, and there at once."""

    stage = "boxes"

    def improve(self, known: Knowledge, deadline: float) -> None:
        """One sum, whatever the deadline."""
        known.offer(*box_bound(known.problem, known.bounds), "single steps")


def box_bound(problem: Problem, bounds: HorizonBounds) -> tuple[float, float]:
    """The sum, and a margin for its rounding."""
    lower = step_vectors(bounds.state_lower, bounds.action_lower, bounds.auxiliary_lower)
    upper = step_vectors(bounds.state_upper, bounds.action_upper, bounds.auxiliary_upper)
    rewards = problem.reward.bounds(lower, upper)[1]
    return float(np.sum(rewards)), 1e-12 * float(np.abs(rewards).sum())
