"""What the methods of the search share: the problem, the time, the best plan so far, and where plans go."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from reluplan.check import TOLERANCE
from reluplan.primal.box import SearchBox
from reluplan.primal.decisions import Decisions
from reluplan.primal.merit import Merit, Score
from reluplan.primal.rollout import Rollout, roll_out
from reluplan.problem import Problem
from reluplan.simulate import Trajectory, simulate

Array = NDArray[np.float64]


class PlanSink(Protocol):
    """Takes a simulated plan and says whether it satisfies every constraint and is better than all before."""

    def __call__(self, trajectory: Trajectory, source: str) -> bool: ...


@dataclass
class Context:
    """One search. `best` is the plan of highest merit so far, feasible or not; `found` says whether one was accepted.

    price: what one unit of violation costs in the merit; it grows while no feasible plan is found.
    rollouts, linear_programs: the work done so far.
    """

    problem: Problem
    box: SearchBox
    deadline: float
    sink: PlanSink
    rng: Generator
    merit: Merit
    tell: Callable[[str], None] | None = None
    best: Trajectory | None = None
    best_score: Score | None = None
    found: bool = False
    rollouts: int = 0
    linear_programs: int = 0

    @property
    def expired(self) -> bool:
        return time.monotonic() >= self.deadline

    @property
    def remaining(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    @property
    def best_merit(self) -> float:
        return -np.inf if self.best_score is None else float(self.best_score.merit(self.merit.price)[0])

    def roll_out(self, decisions: Decisions) -> tuple[Rollout, Score]:
        """Simulate a batch and score it."""
        self.rollouts += decisions.count
        rollout = roll_out(self.problem, decisions)
        return rollout, self.merit.score(rollout)

    def gradient(self, decisions: Decisions) -> tuple[Rollout, Score, Decisions]:
        """As `roll_out`, and the gradient of the merit of each plan."""
        self.rollouts += decisions.count
        rollout = roll_out(self.problem, decisions)
        return rollout, *self.merit.gradient(rollout)

    def offer(self, decisions: Decisions, source: str) -> Trajectory:
        """Simulate one plan (the first of the batch) exactly, pass it on if it may be new, and keep it if best."""
        trajectory = simulate(self.problem, decisions.initial[0], decisions.actions[0], decisions.auxiliaries[0])
        self.rollouts += 1
        self.take(trajectory, source)
        return trajectory

    def take(self, trajectory: Trajectory, source: str) -> None:
        """As `offer`, for a plan that is simulated already."""
        score = self.score(trajectory)
        if float(score.worst[0]) <= TOLERANCE and self.sink(trajectory, source):
            self.found = True
        if self.best is None or self._better(score):
            self.best, self.best_score = trajectory, score

    def _better(self, score: Score) -> bool:
        """A plan within tolerance beats one without; among equals the merit decides."""
        if self.best_score is None:
            return True
        mine, other = bool(score.worst[0] <= TOLERANCE), bool(self.best_score.worst[0] <= TOLERANCE)
        if mine and other:
            return bool(score.reward[0] > self.best_score.reward[0])
        return mine if mine != other else bool(score.merit(self.merit.price)[0] > self.best_merit)

    def score(self, trajectory: Trajectory) -> Score:
        """The score of a simulated plan."""
        no_units = np.zeros((trajectory.horizon, 1, 0), dtype=bool)
        return self.merit.score(Rollout(Decisions.of(trajectory), trajectory.states[None], no_units))

    def raise_price(self) -> None:
        """Violations cost ten times as much from now on."""
        self.merit = dataclasses.replace(self.merit, price=10.0 * self.merit.price)
