"""One planning run: its problem, clock, log and incumbent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reluplan.clock import Clock
from reluplan.planning.incumbent import Incumbent
from reluplan.planning.log import Event, RunLog
from reluplan.potentials.potential_set import PotentialSet
from reluplan.problem.problem import Problem


class Run:
    """What every stage of a run shares. proven_infeasible: it is proven that no plan exists. interrupted: by Ctrl-C.
    potentials: those that the model was strengthened with."""

    def __init__(
        self,
        problem: Problem,
        clock: Clock,
        gap_target: float,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self.clock = clock
        self.log = RunLog(clock, on_event)
        self.incumbent = Incumbent(problem, gap_target, self.log)
        self.proven_infeasible = False
        self.interrupted = False
        self.potentials: PotentialSet | None = None

    @property
    def problem(self) -> Problem:
        return self.incumbent.problem

    def allow_rounding_ties(self) -> None:
        """Go on with the problem in which predictions may be as close to rounding ties as they like: no bound so far
        is one of its plans, nor are potentials."""
        problem = self.problem
        self.log.note(f"no plan was found that keeps {problem.tie_distance:g} from rounding ties: others are allowed")
        self.incumbent.forget_bounds(replace(problem, tie_distance=0.0))
        self.potentials = None
