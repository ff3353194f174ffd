"""What can be set about solving: in processes of their own, and the small programs of the search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerSettings:
    """How patient the parent of worker processes is; all in seconds, except shares.

    poll_seconds: between two looks at the clock and at hooks while a model is solved.
    call_poll_seconds: the same while a function is called, and while the results of a pool are awaited.
    stop_grace: between asking a child to stop and killing it. It loses little: its best solution and bound are here.
    limit_grace: the same at the time limit (half of the limit if that is less), to which comes
    limit_grace_share: a share of the limit, but at most
    longest_limit_grace: SCIP tells its bound only when it returns if the root LP was not done, and may need a second to
    get there.
    """

    poll_seconds: float = 0.05
    call_poll_seconds: float = 0.1
    stop_grace: float = 2.0
    limit_grace: float = 1.0
    limit_grace_share: float = 0.05
    longest_limit_grace: float = 10.0

    def grace_after(self, time_limit: float) -> float:
        """How long after its time limit a child is killed."""
        share = min(self.limit_grace_share * time_limit, self.longest_limit_grace)
        return min(self.limit_grace, 0.5 * time_limit) + share


@dataclass(frozen=True)
class LinearProgramSettings:
    """Limits of the small programs that the search solves one after the other.

    iterations, iterations_per_row: of the simplex method, added up: more than any of these programs needs, and an end
    to those that cycle.
    mip_seconds: the longest that a program with integer columns may take.
    """

    iterations: int = 20_000
    iterations_per_row: int = 20
    mip_seconds: float = 2.0
