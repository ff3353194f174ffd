"""The state of one planning run: the best plan and the best bound so far, at any moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from reluplan import clock
from reluplan.clock import Clock as Clock
from reluplan.optimisation.margin import RELATIVE_MARGIN
from reluplan.potentials.potential_set import PotentialSet
from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory

EXPLAINED, USES_TOLERANCE = 1e-4, 1e-3
"""A plan that uses this share of the tolerance on a constraint may beat a bound by this much (relative), no more."""
ROUNDING = 1e-9
"""Relative: what a plan may be above a bound by rounding."""

STAGES = ("bounds", "potentials", "primal", "milp")
"""Stages that every result lists, run or not."""


@dataclass(frozen=True)
class Event:
    """Something worth telling: a stage began, a plan or a bound improved."""

    seconds: float
    stage: str
    message: str
    reward: float | None
    bound: float | None


@dataclass
class Run:
    """Collects plans and bounds from every stage; only checked plans and proven bounds come in.

    The bound margin: each accepted bound b is stored as b + margin; the margin is that of its proof, and at least
    1e-6 · |b|.
    """

    problem: Problem
    clock: Clock
    gap_target: float
    on_event: Callable[[Event], None] | None = None
    best: Trajectory | None = None
    max_violation: float = 0.0
    used_tolerance: float = 0.0
    bound: float = math.inf
    bound_margin: float = 0.0
    proven_infeasible: bool = False
    interrupted: bool = False
    stage_seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    history: list[dict[str, float | int | None]] = field(default_factory=list)
    open_nodes: int = 0
    closed_nodes: int = 0
    stage_name: str = "start"
    notes: list[str] = field(default_factory=list)
    potentials: PotentialSet | None = None

    @property
    def reward(self) -> float | None:
        return None if self.best is None else self.best.total_reward

    @property
    def absolute_gap(self) -> float | None:
        if self.reward is None or math.isinf(self.bound):
            return None
        return max(0.0, self.bound - self.reward)

    @property
    def gap(self) -> float | None:
        """absolute_gap / max(1, |reward|)."""
        if self.absolute_gap is None or self.reward is None:
            return None
        return self.absolute_gap / max(1.0, abs(self.reward))

    @property
    def is_proven(self) -> bool:
        return self.gap is not None and self.gap <= self.gap_target

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times a stage; stages of the same name add up."""
        self.stage_name, began = name, clock.now()
        self.tell("begins")
        try:
            yield
        finally:
            spent = clock.now() - began
            self.stage_seconds[name] = self.stage_seconds.get(name, 0.0) + spent

    def tell(self, message: str) -> None:
        """Report progress to whoever listens; a listener that fails is not told again, and loses us nothing."""
        if self.on_event is None:
            return
        bound = None if math.isinf(self.bound) else self.bound
        try:
            self.on_event(Event(self.clock.elapsed, self.stage_name, message, self.reward, bound))
        except Exception as error:
            self.on_event = None
            self.note(f"progress is no longer shown: {type(error).__name__}: {error}")

    def note(self, text: str) -> None:
        """Something that the result must say, once."""
        if text not in self.notes:
            self.notes.append(text)
            self.tell(text)

    def offer_plan(self, trajectory: Trajectory, source: str) -> bool:
        """Accept a simulated plan if it satisfies every constraint and is better than the best; True if so."""
        report = check(self.problem, trajectory)
        if not report.ok or (self.reward is not None and trajectory.total_reward <= self.reward):
            return False
        self.best, self.max_violation, self.used_tolerance = trajectory, report.max_violation, report.used_tolerance
        self._reconcile()
        self._record()
        self.tell(f"plan with reward {trajectory.total_reward:.10g} from {source}")
        return True

    def offer_bound(self, value: float, source: str, margin: float = 0.0) -> bool:
        """Accept a proven upper bound of the optimal reward if it is better than the best; True if so.

        margin: the error that the proof may carry, if that is more than 1e-6 · |value|.
        """
        if not (math.isfinite(value) and math.isfinite(margin)):
            return False
        margin = max(margin, RELATIVE_MARGIN * abs(value))
        if value + margin >= self.bound:
            return False
        before = self.bound, self.bound_margin
        self.bound, self.bound_margin = value + margin, margin
        if not self._reconcile():
            self.bound, self.bound_margin = before if before[0] >= (self.reward or -math.inf) else (math.inf, 0.0)
            return False
        if not self._creeps():
            self._record()
        self.tell(f"bound {self.bound:.10g} from {source}")
        return True

    def _reconcile(self) -> bool:
        """No bound stands below a checked plan: rounding is lifted, and so is what a plan gains by the tolerance on its
        constraints, by as much again, with a note; the rest is wrong and dropped."""
        if self.reward is None or self.reward <= self.bound:
            return True
        excess = self.reward - self.bound
        if excess <= ROUNDING * abs(self.reward):
            self.bound = self.reward
            return True
        if self.used_tolerance >= USES_TOLERANCE and excess <= EXPLAINED * abs(self.reward):
            self.note(f"the plan uses the tolerance on its constraints, and beats plans that do not by {excess:.3g}")
            self.bound = self.reward + excess
            return True
        self.note(f"a bound of {self.bound:.10g} was dropped: a checked plan has reward {self.reward:.10g}")
        self.bound, self.bound_margin = math.inf, 0.0
        return False

    def look_at_ties(self) -> None:
        """Go on with the problem in which predictions may be as close to rounding ties as they like: no bound so far
        is one of its plans, nor are potentials."""
        self.note(f"no plan was found that keeps {self.problem.tie_distance:g} from rounding ties: others are allowed")
        self.problem = replace(self.problem, tie_distance=0.0)
        self.bound, self.bound_margin, self.potentials = math.inf, 0.0, None

    def count_nodes(self, open_nodes: int, closed_nodes: int) -> None:
        self.open_nodes, self.closed_nodes = open_nodes, closed_nodes

    def _creeps(self) -> bool:
        """Whether the history already has about this bound, from a moment ago."""
        last = self.history[-1] if self.history else None
        if last is None or last["bound"] is None or last["seconds"] is None:
            return False
        change = abs(self.bound - last["bound"]) / max(1.0, abs(self.bound))
        return change < 1e-3 and self.clock.elapsed < last["seconds"] + 5.0

    def close_history(self) -> None:
        """The last entry is how the run ended."""
        bound = None if math.isinf(self.bound) else self.bound
        if not self.history or (self.history[-1]["reward"], self.history[-1]["bound"]) != (self.reward, bound):
            self._record()

    def _record(self) -> None:
        self.history.append(
            {
                "seconds": round(self.clock.elapsed, 3),
                "reward": self.reward,
                "bound": None if math.isinf(self.bound) else self.bound,
                "nodes": self.open_nodes + self.closed_nodes,
            }
        )
