"""The proof by a value function on a grid, for problems with few states."""

from __future__ import annotations

from reluplan.bounds.boxes import BetterPlanBounds
from reluplan.bounds.reachability import reachable_within
from reluplan.bounds.span import Span
from reluplan.errors import InfeasibleError
from reluplan.proofs.grid.settings import DEFAULT, GridSettings
from reluplan.proofs.grid.value_function import grid_applies, grid_bound
from reluplan.proofs.proof_state import ProofState


class GridProof:
    """A value function on finer and finer grids that no plan can beat, then the boxes of better plans.

    All that the grid knows of the proof state passes here; `grid_bound` takes and returns plain objects.
    """

    stage = "grid"
    summary = "a value function on finer and finer grids, for one or two states"
    needs_plan = True

    def __init__(self, settings: GridSettings = DEFAULT) -> None:
        self._settings = settings

    def improve(self, state: ProofState, deadline: float) -> None:
        """Until the deadline, if the problem has few enough states."""
        if not grid_applies(state.problem, self._settings):
            return
        boxes = grid_bound(
            state.problem,
            state.boxes,
            state.plan.total_reward,
            deadline,
            lambda bound, margin: state.offer(bound, margin, "grid"),
            state.tell,
            state.pool.worker_count,
            self._settings,
        )
        if not state.incumbent.is_proven:
            self._take_over(state, boxes)

    def _take_over(self, state: ProofState, boxes: BetterPlanBounds) -> None:
        """The boxes of better plans, with bounds of their units."""
        lps_end = state.clock.deadline(self._settings.unit_bounds_share)
        try:
            found = reachable_within(state.problem, boxes, lps_end, state.clock.deadline())
            whole = Span(0, found.horizon)
            state.tighten([whole, whole], [boxes, found])
        except InfeasibleError:
            state.offer_no_better_plan("grid")
