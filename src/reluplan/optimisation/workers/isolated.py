"""A solver in a process of its own, which can be stopped, killed or crash without harm to ours."""

from __future__ import annotations

from reluplan import clock
from reluplan.optimisation.model import Model
from reluplan.optimisation.settings import WorkerSettings
from reluplan.optimisation.solvers import SOLVERS, get_solver
from reluplan.optimisation.solvers.base import SolveOptions, SolveResult
from reluplan.optimisation.workers.child import give_back, take_child
from reluplan.optimisation.workers.supervisor import DEFAULT, Supervisor


class IsolatedSolver:
    """The solver of that name, run in a child process; the same interface and the same results.

    The time limit is kept even if the solver ignores it: the child is killed, and what it had reported until then, its
    best solution and its proven bound, is the result. So it is after a crash or an error in the child, which `message`
    then tells; only before anything was reported do they raise. Ctrl-C is not raised: it ends the solve, with
    `is_interrupted` in the result; a second Ctrl-C does not wait for the child. A child that did its work well is kept
    for the next solve of this process, which saves half a second of imports.
    """

    def __init__(self, name: str, settings: WorkerSettings = DEFAULT) -> None:
        self.name = name
        SOLVERS.location(name)  # what a child cannot find is an error now
        self._settings = settings

    def version(self) -> str:
        return get_solver(self.name).version()

    def solve(self, model: Model, options: SolveOptions) -> SolveResult:
        if clock.is_counted():  # a process of its own would live by another clock
            return get_solver(self.name).solve(model, options)
        supervisor = Supervisor(take_child(), self.name, model, options, self._settings)
        try:
            return supervisor.run()
        finally:
            give_back(supervisor.child, supervisor.is_free)
