"""The proof by a grid: values of cells of the state space, for few states."""

from __future__ import annotations

from reluplan.bounds.boxes import BetterPlanBounds
from reluplan.bounds.reachability import reachable_within
from reluplan.bounds.span import Span
from reluplan.errors import InfeasibleError
from reluplan.proofs.grid.value_function import grid_applies, grid_bound
from reluplan.proofs.proof_state import ProofState

MOST_STATES = 2
"""With three states the cells are too coarse: on HVAC-3 a grid of 34 x 32 x 32 proved nothing in 50 seconds."""


REBOUND_SHARE = 0.2
"""Of the time that is left after the grid, for LP bounds of the units in smaller boxes."""


class GridProof:
    """A value function on a grid that dominates every step; see `value_function`."""

    stage = "grid"
    needs_plan = True

    def improve(self, state: ProofState, deadline: float) -> None:
        """Finer and finer grids, where the problem has few enough states."""
        if len(state.problem.states) > MOST_STATES or not grid_applies(state.problem):
            return
        tightened = grid_bound(
            state.problem,
            state.boxes,
            state.plan.total_reward,
            deadline,
            lambda bound, margin: state.offer(bound, margin, "grid"),
            state.tell,
            state.pool.worker_count,
        )
        if not state.incumbent.is_proven:
            _take_over(state, tightened)


def _take_over(state: ProofState, tightened: BetterPlanBounds) -> None:
    """Take over the boxes of better plans, and bound their units anew."""
    lp_deadline, last_moment = state.clock.deadline(REBOUND_SHARE), state.clock.deadline()
    try:
        found = reachable_within(state.problem, tightened, lp_deadline, last_moment)
        whole = Span(0, found.horizon)
        state.tighten([whole, whole], [tightened, found])
    except InfeasibleError:
        state.offer_no_better_plan("grid")
