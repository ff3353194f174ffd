"""The proof by a value function on a grid, for problems with few states."""

from __future__ import annotations

from reluplan.bounds.reachability import HorizonBounds, reachable_bounds
from reluplan.encoding.window import Span, narrow
from reluplan.errors import InfeasibleError
from reluplan.proofs.grid.settings import DEFAULT, GridSettings
from reluplan.proofs.grid.value_function import grid_applies, grid_bound
from reluplan.proofs.proof_state import Knowledge


class GridProof:
    """Finer and finer grids, then the boxes of better plans for the proofs after it.

    All that the grid knows of the proof state passes here; `grid_bound` takes and returns plain objects.
    """

    stage = "grid"

    def __init__(self, settings: GridSettings = DEFAULT) -> None:
        self.settings = settings

    def improve(self, known: Knowledge, deadline: float) -> None:
        """Until the deadline, if the problem has few enough states."""
        if not grid_applies(known.problem, self.settings):
            return
        boxes = grid_bound(
            known.problem,
            known.bounds,
            known.plan.total_reward,
            deadline,
            lambda bound, margin: known.offer(bound, margin, "grid"),
            known.run.tell,
            known.pool.worker_count,
            self.settings,
        )
        if not known.run.is_proven:
            self._tighten(known, boxes)

    def _tighten(self, known: Knowledge, boxes: HorizonBounds) -> None:
        """Take over the boxes of better plans, and bound their units anew."""
        before = int(known.bounds.unstable.sum())
        lps_end = known.run.clock.deadline(self.settings.unit_bounds_share)
        try:
            found = reachable_bounds(known.problem, lps_end, known.run.clock.deadline(), boxes)
            known.bounds = narrow(boxes, [Span(0, found.horizon)], [found])
        except InfeasibleError:
            known.offer(known.plan.total_reward, 0.0, "grid: no better plan is left")
            return
        known.run.tell(f"unstable ReLUs of better plans: {before} -> {int(known.bounds.unstable.sum())}")
