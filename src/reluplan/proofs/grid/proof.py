"""The proof by a grid: values of cells of the state space, for few states."""

from __future__ import annotations

from reluplan.bounds.reachability import HorizonBounds, reachable_bounds
from reluplan.encoding.window import Span, narrow
from reluplan.errors import InfeasibleError
from reluplan.proofs.grid.value_function import grid_applies, grid_bound
from reluplan.proofs.proof_state import Knowledge

MOST_STATES = 2
"""With three states the cells are too coarse: on HVAC-3 a grid of 34 x 32 x 32 proved nothing in 50 seconds."""


REBOUND_SHARE = 0.2
"""Of the time that is left after the grid, for LP bounds of the neurons in narrower boxes."""


class GridProof:
    """A value function on a grid that dominates every step; see `grid`."""

    stage = "grid"

    def improve(self, known: Knowledge, deadline: float) -> None:
        """Finer and finer grids, where the problem has few enough states."""
        if len(known.problem.states) > MOST_STATES or not grid_applies(known.problem):
            return
        reward = known.plan.total_reward
        narrowed = grid_bound(
            known.problem,
            known.bounds,
            reward,
            deadline,
            lambda b, m: known.offer(b, m, "grid"),
            known.run.tell,
            known.pool.worker_count,
        )
        if not known.run.is_proven:
            self._narrow(known, narrowed)

    def _narrow(self, known: Knowledge, narrowed: HorizonBounds) -> None:
        """Take over the boxes of better plans, and bound their neurons anew."""
        before, clock = int(known.bounds.unstable.sum()), known.run.clock
        try:
            found = reachable_bounds(known.problem, clock.deadline(REBOUND_SHARE), clock.deadline(), narrowed)
            known.bounds = narrow(narrowed, [Span(0, found.horizon)], [found])
        except InfeasibleError:
            known.offer(known.plan.total_reward, 0.0, "grid: no better plan is left")
            return
        known.run.tell(f"unstable ReLUs of better plans: {before} -> {int(known.bounds.unstable.sum())}")
