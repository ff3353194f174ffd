"""Plans by search, without any MILP."""

from __future__ import annotations

from reluplan.errors import ReluplanError
from reluplan.planning.work import Work
from reluplan.search import search_plans


class SearchStage:
    """`search`, beginning with the best plan so far; it needs no boxes, and samples within them if there are any."""

    name = "search"
    summary = "plans by local search, gradients and dynamic programming; no proof"
    uses_workers = False

    def applies(self, work: Work) -> bool:
        return True

    def run(self, work: Work, deadline: float) -> None:
        """What goes wrong here costs plans, never the run."""
        try:
            search_plans(
                work.problem,
                work.all_plans,
                deadline,
                work.incumbent.offer_plan,
                work.options.seed,
                work.warm_start,
                work.log.tell,
                settings=work.settings.search,
            )
        except ReluplanError as error:
            work.log.note(f"the search for plans stopped: {error}")
