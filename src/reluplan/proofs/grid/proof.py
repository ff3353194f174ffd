"""The proof by a value function on a grid, for problems with few states."""

from __future__ import annotations

from reluplan import clock
from reluplan.bounds.boxes import BetterPlanBounds
from reluplan.bounds.reachability import reachable_within
from reluplan.bounds.span import Span
from reluplan.errors import InfeasibleError
from reluplan.proofs.grid.settings import DEFAULT, GridSettings
from reluplan.proofs.grid.value_function import GridRefinement, grid_applies
from reluplan.proofs.proof_state import ProofState


class GridProof:
    """A value function on finer and finer grids that no plan can beat, then the boxes of better plans.

    All that the grid knows of the proof state passes here; `GridRefinement` takes and returns plain objects.
    """

    stage = "grid"
    summary = "a value function on finer and finer grids, for up to three states"
    needs_plan = True
    uses_workers = True
    starts_slowly = True

    def __init__(self, settings: GridSettings = DEFAULT) -> None:
        self._settings = settings
        self._refinement: GridRefinement | None = None

    def improve(self, state: ProofState, deadline: float) -> None:
        """Until the deadline, if the problem has few enough states. Called again it goes on where it stopped, with the
        better plan and the tighter boxes of the moment."""
        if not grid_applies(state.problem, self._settings):
            return
        if self._refinement is None or self._refinement.problem is not state.problem:
            self._refinement = GridRefinement(state.problem, self._settings)
        began = clock.now()
        boxes = self._refinement.go_on(
            state.boxes,
            state.plan.total_reward,
            deadline,
            lambda bound, margin: state.offer(bound, margin, "grid"),
            state.tell,
            state.pool.worker_count,
            lambda: state.incumbent.is_proven,
        )
        if boxes is not state.boxes and not state.incumbent.is_proven:
            self._take_over(state, boxes, deadline - began)

    def _take_over(self, state: ProofState, boxes: BetterPlanBounds, seconds: float) -> None:
        """The boxes of better plans, with bounds of their units: LPs take a share of the seconds that the call was
        given, and of those that are left."""
        share = self._settings.unit_bounds_share
        lps_end = min(state.clock.deadline(share), clock.now() + share * seconds)
        try:
            found = reachable_within(state.problem, boxes, lps_end, state.clock.deadline())
            whole = Span(0, found.horizon)
            state.tighten([whole, whole], [boxes, found])
        except InfeasibleError:
            state.offer_no_better_plan("grid")
