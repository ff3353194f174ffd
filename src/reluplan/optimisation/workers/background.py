"""A solve that goes on in a process of its own while we do other things."""

from __future__ import annotations

from reluplan import clock
from reluplan.interrupts import held
from reluplan.optimisation.model import Model
from reluplan.optimisation.settings import WorkerSettings
from reluplan.optimisation.solvers import SOLVERS
from reluplan.optimisation.solvers.base import SolveOptions, SolveResult
from reluplan.optimisation.workers.child import Child
from reluplan.optimisation.workers.supervisor import DEFAULT, Supervisor


class BackgroundSolve:
    """One model in a child process, begun at once; `look` at it now and then, `pause` it, `end` it at any moment.

    It costs nothing while it is paused, where the system can stop processes (not on Windows, where it goes on). Its
    progress goes to `options.on_progress` while we look, and never at another time. The time limit is in seconds from
    now, paused or not.
    """

    def __init__(self, name: str, model: Model, options: SolveOptions, settings: WorkerSettings = DEFAULT) -> None:
        SOLVERS.location(name)  # what a child cannot find is an error now
        self._supervisor = Supervisor(Child(dies_with_us=True), name, model, options, settings)
        self._poll_seconds = settings.poll_seconds
        self.is_paused = False
        self._result: SolveResult | None = None
        self._supervisor.begin()

    def look(self, until: float = 0.0) -> SolveResult | None:
        """Take what it has told, waiting for its result until a moment (of clock.now); the result, once it is there.

        Ctrl-C is raised between two messages; none of them is lost, so another look takes what is left.
        """
        while self._result is None:
            left = max(0.0, until - clock.now())
            with held() as hold:
                waiting = self._supervisor.has_messages
                self._result = self._supervisor.look(min(left, self._poll_seconds))
            if hold.interrupted:
                raise KeyboardInterrupt
            if left <= 0.0 and not waiting:
                break
        return self._result

    def pause(self) -> None:
        """Stop the process until `resume`."""
        self.is_paused = self._supervisor.child.pause()

    def resume(self) -> None:
        """Let it go on."""
        if self.is_paused:
            self._supervisor.child.resume()
            self.is_paused = False

    def end(self) -> None:
        """Kill it; what it has told and we have looked at is ours."""
        self._supervisor.child.end()
