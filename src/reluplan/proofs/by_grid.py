"""The proof by a grid: values of cells of the state space, for few states."""

from __future__ import annotations

from reluplan.proofs.grid import grid_applies, grid_bound
from reluplan.proofs.knowledge import Knowledge

MOST_STATES = 2
"""With three states the cells are too coarse: on HVAC-3 a grid of 34 x 32 x 32 proved nothing in 50 seconds."""


class GridProof:
    """A value function on a grid that dominates every step; see `grid`."""

    stage = "grid"

    def improve(self, known: Knowledge, deadline: float) -> None:
        """Finer and finer grids, where the problem has few enough states."""
        if len(known.problem.states) > MOST_STATES or not grid_applies(known.problem):
            return
        reward = known.plan.total_reward
        grid_bound(
            known.problem,
            known.bounds,
            reward,
            deadline,
            lambda b, m: known.offer(b, m, "grid"),
            known.run.tell,
            known.pool.worker_count,
        )
