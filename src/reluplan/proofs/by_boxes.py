"""The proof by boxes: no step earns more than the largest reward in its box."""

from __future__ import annotations

import numpy as np

from reluplan.proofs.knowledge import Knowledge
from reluplan.simulate import step_vectors


class BoxProof:
    """OPT <= Σ_t max of R over the proven box of step t, by interval arithmetic: loose, and there at once."""

    stage = "boxes"

    def improve(self, known: Knowledge, deadline: float) -> None:
        """One sum, whatever the deadline."""
        bounds = known.bounds
        lower = step_vectors(bounds.state_lower, bounds.action_lower, bounds.auxiliary_lower)
        upper = step_vectors(bounds.state_upper, bounds.action_upper, bounds.auxiliary_upper)
        rewards = known.problem.reward.bounds(lower, upper)[1]
        known.offer(float(np.sum(rewards)), 1e-12 * float(np.abs(rewards).sum()), "single steps")
