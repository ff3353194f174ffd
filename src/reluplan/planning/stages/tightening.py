"""Bound tightening by MILPs of steps and windows, before a model over the whole horizon is solved."""

from __future__ import annotations

from reluplan.planning.work import Work
from reluplan.tightening.obbt_milp import tighten_by_milp


class TighteningStage:
    """`tightening.obbt_milp`, in the boxes of better plans if there is an incumbent."""

    name = "tightening"
    summary = "bound tightening by MILPs over single steps and windows of several"
    uses_workers = True

    def applies(self, work: Work) -> bool:
        """A tiny model is solved sooner than its bounds are tightened."""
        return work.all_plans is not None and int(work.boxes.unstable.sum()) > work.settings.few_unstable

    def run(self, work: Work, deadline: float) -> None:
        """Smaller boxes, of the same plans."""
        found = tighten_by_milp(
            work.problem, work.boxes, work.pool, deadline, work.options.seed, work.log.tell, work.settings.tightening
        )
        work.take_boxes(found)
