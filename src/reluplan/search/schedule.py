"""The schedule of the search: which heuristics run when, on the whole horizon or in windows."""

from __future__ import annotations

from dataclasses import dataclass

from reluplan.search.context import Context
from reluplan.search.heuristics import Heuristic, Phase, Scope
from reluplan.search.sliding_window import fits, improve, improve_windows
from reluplan.search.time_slice import Paused
from reluplan.search.turns import Contender, Turns


@dataclass(frozen=True)
class Schedule:
    """Heuristics that take turns."""

    heuristics: tuple[Heuristic, ...]

    def run(self, context: Context) -> Paused[None]:
        """On the whole horizon if that fits into one linear program, otherwise in windows; until all is settled."""
        yield from (self.search(context) if fits(context) else self.search_windows(context))

    def restarted(self) -> Schedule:
        """Without what finds the same plans each time, if anything is left then."""
        repeated = tuple(h for h in self.heuristics if h.phase is Phase.REPEATED)
        return Schedule(repeated) if repeated else self

    def search(self, context: Context) -> Paused[None]:
        """Every heuristic on the whole horizon."""
        yield from self._turns(self.heuristics, context)
        context.say(f"{context.optima.count} local searches ended in {context.different_optima} local optima")

    def search_windows(self, context: Context) -> Paused[None]:
        """A plan by construction, then every heuristic in windows of it, again and again while that helps; beside
        them those that run on the whole horizon.

        Without anything that constructs a plan, and with no plan to begin with, the others try the whole horizon.
        """
        first = tuple(h for h in self.heuristics if h.phase is Phase.CONSTRUCTION)
        yield from self._turns(first, context)
        if context.best is None:
            yield from self.search(context)
        whole = tuple(h for h in self.heuristics if h.scope is Scope.WHOLE and h not in first)
        yield from self._turns((Heuristic(self._slide, scope=Scope.WHOLE), *whole), context)

    def _slide(self, context: Context) -> Paused[None]:
        """Every window of the best plan once."""
        if context.best is not None:
            plan = yield from improve(context, context.best)
            yield from improve_windows(context, plan, self._search_window, skip_steady=True)

    def _search_window(self, context: Context) -> Paused[None]:
        """Every heuristic that runs in windows, in one of them."""
        local = tuple(h for h in self.heuristics if h.scope is Scope.LOCAL)
        yield from self._turns(local, context)

    def _turns(self, heuristics: tuple[Heuristic, ...], context: Context) -> Paused[None]:
        return Turns([Contender(heuristic) for heuristic in heuristics]).run(context)
