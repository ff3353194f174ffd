"""Plans by search, without any MILP."""

from __future__ import annotations

from reluplan.errors import ReluplanError
from reluplan.planning.work import Work
from reluplan.search.plan_search import PlanSearch


class SearchStage:
    """`search`, with the best plan so far; it needs no boxes, and samples within them if there are any.

    Each turn goes on where the last ended; it ends when all has been tried once, and after that at its deadline.
    """

    name = "search"
    summary = "plans by local search, gradients, populations and dynamic programming; no proof"
    uses_workers = False

    def __init__(self) -> None:
        self._search: PlanSearch | None = None

    @property
    def is_settled(self) -> bool:
        """Whether all has been tried once."""
        return self._search is not None and self._search.settled

    def applies(self, work: Work) -> bool:
        return self._search is None or not self._search.exhausted

    def run(self, work: Work, deadline: float) -> None:
        """What goes wrong here costs plans, never the run."""
        try:
            if self._search is None:
                self._search = _first_search(work)
            self._search.receive(work.all_plans, work.incumbent.plan)
            if self._search.settled:
                self._search.run(deadline)
            else:
                self._search.run_until_settled(deadline)
        except ReluplanError as error:
            work.log.note(f"the search for plans stopped: {error}")


def _first_search(work: Work) -> PlanSearch:
    """One that begins with the plan that there is."""
    search = PlanSearch(work.problem, work.incumbent.offer_plan, work.options.seed, work.log.tell, work.settings.search)
    search.receive(work.all_plans, None)
    if work.warm_start is not None:
        search.improve(work.warm_start)
    return search
