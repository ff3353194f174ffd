"""The one interface that every solver adapter implements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reluplan.optimisation.model import Model

Array = NDArray[np.float64]


class SolveStatus(Enum):
    """What the solver proved. `OPTIMAL` means: within the requested gap."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"  # stopped with a solution, the gap still open
    INFEASIBLE = "infeasible"  # confirmed by a second solve, with a little room on every side
    UNBOUNDED = "unbounded"  # or infeasible, if the message says that they were not told apart
    NO_SOLUTION = "no_solution"  # stopped before a solution was found, or infeasibility not confirmed


class StopReason(Enum):
    """Why a solve ended; the value says it in words."""

    FINISHED = "finished"  # by itself: the gap is closed, a proof is found, or the solver gave up, as the status says
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"  # by Ctrl-C
    STOPPED = "stopped by the caller"
    FAILED = "failed"  # the solver, its process, or a hook; what was found before is still good


@dataclass(frozen=True, eq=False)
class Progress:
    """A snapshot of a running solve. solution: only when the incumbent is new; margin: how wrong the bound may be."""

    seconds: float
    incumbent: float | None
    bound: float | None
    open_nodes: int
    closed_nodes: int
    solution: Array | None = None
    margin: float = 0.0


@dataclass(frozen=True, eq=False)
class SolveOptions:
    """Limits and hooks of one solve.

    gap: stop when bound - objective <= gap * max(1, |objective|); below 1e-9 it is taken as 1e-9.
    absolute_gap: the same for |objective| <= 1, in the units of a scaled objective; `gap` if None.
    warm_start: a COMPLETE solution to begin from; adapters ignore it when the solver rejects it.
    on_progress: called from inside the solve, at most a few times a second and at every new incumbent.
    should_stop: polled often; True ends the solve with what is known so far.
    report_interval: seconds between two reports without a new incumbent.
    """

    time_limit: float = math.inf
    gap: float = 1e-4
    absolute_gap: float | None = None
    threads: int = 1
    seed: int = 0
    warm_start: Array | None = None
    on_progress: Callable[[Progress], None] | None = None
    should_stop: Callable[[], bool] | None = None
    report_interval: float = 0.25


@dataclass(frozen=True, eq=False)
class SolveResult:
    """What a solve ended with.

    objective: the model's objective at `solution`, recomputed from it.
    dual_bound: the solver's proven bound, untouched by us; +inf if it has none, and for INFEASIBLE and UNBOUNDED.
    margin: how much too small it may be, see `margin`; proven_bound has it included.
    stop_reason: why the solve ended; message: the same in words, for people.
    """

    status: SolveStatus
    solution: Array | None
    objective: float | None
    dual_bound: float
    seconds: float
    open_nodes: int = 0
    closed_nodes: int = 0
    lp_iterations: int = 0
    message: str = field(default="")
    margin: float = 0.0
    stop_reason: StopReason = StopReason.FINISHED

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.stop_reason is StopReason.INTERRUPTED

    @property
    def proven_bound(self) -> float:
        """An upper bound of the model, whatever the solver's tolerances did."""
        return self.dual_bound + self.margin

    @classmethod
    def nothing(cls, stop_reason: StopReason, message: str) -> SolveResult:
        """The result of a solve that found and proved nothing."""
        return cls(SolveStatus.NO_SOLUTION, None, None, math.inf, 0.0, message=message, stop_reason=stop_reason)


class Solver(Protocol):
    """A solver adapter: stateless, one verb."""

    name: str

    def solve(self, model: Model, options: SolveOptions) -> SolveResult:
        """Maximise the model. Raises MissingExtraError, or SolverError for licences and failures."""
        ...

    def version(self) -> str:
        """The version of the solver itself."""
        ...
