"""What the heuristics of the search share: the problem, the time, the best plan so far, and where plans go."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from reluplan import clock
from reluplan.errors import OutOfTimeError
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory, rollout
from reluplan.problem.ties import hangs_on_a_tie
from reluplan.search.batch import Rollout, roll_out
from reluplan.search.box import SearchBox
from reluplan.search.decisions import Decisions
from reluplan.search.kernel import Kernel
from reluplan.search.local_optima import LocalOptima
from reluplan.search.merit import Merit, Score
from reluplan.search.settings import DEFAULTS, SearchSettings
from reluplan.search.time_slice import Pace, Paused, TimeSlice

Array = NDArray[np.float64]


STEP_OVERHEAD = 3e4
"""What numpy takes to begin one step of a batch, in floating-point operations of that time."""


PIECE = 0.1
"""Seconds of one piece of a large batch, about: slices end between them."""
Result = TypeVar("Result")


class PlanSink(Protocol):
    """Takes a rolled-out plan and says whether it satisfies every constraint and is better than all before."""

    def __call__(self, trajectory: Trajectory, source: str, /) -> bool: ...


@dataclass
class Work:
    """What a search has done so far: plans rolled out, and linear programs solved."""

    rollouts: int = 0
    linear_programs: int = 0


@dataclass
class Context:
    """One search. `best` is the best plan so far, feasible if `found`, otherwise the one of highest merit.

    merit: penalises violations; the penalty grows while no feasible plan is found.
    optima: where the local searches so far ended; polished: the plan of the last one.
    """

    problem: Problem
    box: SearchBox
    time: TimeSlice
    sink: PlanSink
    rng: Generator
    merit: Merit
    tell: Callable[[str], None] | None = None
    settings: SearchSettings = DEFAULTS
    best: Trajectory | None = None
    best_score: Score | None = None
    polished: Trajectory | None = None
    work: Work = field(default_factory=Work)
    optima: LocalOptima = field(default_factory=LocalOptima)

    @property
    def expired(self) -> bool:
        """Whether the slice of time is over."""
        return self.time.over

    @property
    def remaining(self) -> float:
        return self.time.remaining

    def pause(self, plans: int = 0) -> Paused[None]:
        """Stand still while the slice is over, or too short to roll out some plans (`TimeSlice.pause`)."""
        return self.time.pause(self.time.exact.expected(self.operations(plans)) if plans else 0.0)

    def operations(self, plans: int, horizon: int | None = None) -> float:
        """What the rollout of a batch costs, in floating-point operations, with what numpy takes for each step."""
        steps = self.problem.horizon if horizon is None else horizon
        return steps * (STEP_OVERHEAD + plans * self.problem.dynamics.operations)

    @property
    def found(self) -> bool:
        """Whether the best plan satisfies every constraint."""
        return self.best_score is not None and bool(self.best_score.feasible[0])

    @property
    def best_merit(self) -> float:
        return -np.inf if self.best_score is None else float(self.best_score.merit(self.merit.penalty)[0])

    @property
    def different_optima(self) -> int:
        """How many local optima the local searches ended in."""
        return self.optima.different(self._same_optimum)

    @property
    def settled(self) -> bool:
        """Whether further starts are unlikely to find a better local optimum: hardly any others are to be expected.

        Not so with discrete variables, where local searches from different starts make the same first choices.
        """
        if self.box.any_discrete:
            return False
        unseen = self.settings.local_search.unseen_optima
        return self.optima.expected(self._same_optimum) < self.different_optima + unseen

    @property
    def _same_optimum(self) -> float:
        """Merits that differ by less than this are of one local optimum."""
        return self.settings.local_search.same_optimum * max(1.0, abs(self.best_merit))

    def part(self, problem: Problem, box: SearchBox) -> Context:
        """A search of its own, for a part of the problem: same time, same randomness, no sink."""
        merit = Merit(problem, self.merit.penalty)
        return Context(
            problem, box, self.time, lambda *_: False, self.rng, merit, settings=self.settings, work=self.work
        )

    def roll_out(self, decisions: Decisions) -> Rollout:
        """Roll out a batch; OutOfTimeError if that takes far longer than the slice."""
        self.work.rollouts += decisions.count
        with self._timed(decisions, self.time.exact) as deadline:
            return roll_out(self.problem, decisions, deadline)

    def evaluate(self, decisions: Decisions) -> tuple[Rollout, Score]:
        """Roll out a batch and score it."""
        rollout = self.roll_out(decisions)
        return rollout, self.merit.score(rollout)

    def gradient(self, decisions: Decisions) -> tuple[Rollout, Score, Decisions]:
        """As `evaluate`, and the gradient of the merit of each plan."""
        rollout = self.roll_out(decisions)
        return rollout, *self.merit.gradient(rollout)

    @cached_property
    def kernel(self) -> Kernel:
        """The dynamics in float32."""
        return Kernel(self.problem)

    def sample(self, decisions: Decisions) -> Paused[Score]:
        """As `evaluate`, in float32 and in pieces: for many plans, of which the best are offered."""
        scores = yield from self._in_pieces(decisions, lambda plans: self.merit.score(self._fast(plans, masks=False)))
        return Score.join(scores)

    def fast_gradient(self, decisions: Decisions) -> Paused[tuple[Score, Decisions]]:
        """As `gradient`, in float32 and in pieces."""
        parts = yield from self._in_pieces(
            decisions, lambda plans: self.merit.gradient(self._fast(plans, masks=True), self.kernel.pull_back)
        )
        return Score.join([score for score, _ in parts]), Decisions.join([gradient for _, gradient in parts])

    def _in_pieces(self, decisions: Decisions, work: Callable[[Decisions], Result]) -> Paused[list[Result]]:
        """Some work on each piece of a batch, each short enough for any slice; again if a slice was cut short."""
        results: list[Result] = []
        first = 0
        while first < decisions.count:
            size = max(1, min(self.kernel.piece, int(PIECE / self.time.fast.expected(self.operations(1)))))
            plans = decisions.take(np.arange(first, min(first + size, decisions.count)))
            yield from self.time.pause(self.time.fast.expected(self.operations(plans.count)))
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    results.append(work(plans))
                first += plans.count
            except OutOfTimeError:
                yield from self.pause()
        return results

    def _fast(self, decisions: Decisions, masks: bool) -> Rollout:
        self.work.rollouts += decisions.count
        with self._timed(decisions, self.time.fast) as deadline:
            return self.kernel.roll_out(decisions, deadline, masks)

    @contextmanager
    def _timed(self, decisions: Decisions, pace: Pace) -> Iterator[float]:
        """Learn how long a batch takes; and when it is given up."""
        late = clock.expected(clock.SEARCH_WORK) + 2.0 * pace.expected(self.operations(1))
        with pace.measured(self.operations(decisions.count, decisions.horizon)):
            yield self.time.deadline + late

    def ranked(self, batch: Decisions) -> list[Decisions]:
        """The plans of a batch, each a batch of one, best first."""
        _, score = self.evaluate(batch)
        order = np.argsort(-score.merit(self.merit.penalty), kind="stable")
        return [batch.take(order[i : i + 1]) for i in range(len(order))]

    def offer(self, decisions: Decisions, source: str) -> Trajectory:
        """Roll out one plan (a batch of one) exactly and take it."""
        self.work.rollouts += 1
        trajectory = rollout(self.problem, decisions.initial[0], decisions.actions[0], decisions.auxiliaries[0])
        self.take(trajectory, source)
        return trajectory

    def take(self, trajectory: Trajectory, source: str) -> None:
        """Pass a rolled-out plan on if it keeps every constraint; remember it if it is the best so far."""
        score = self.score(trajectory)
        plan = trajectory.states, trajectory.actions, trajectory.auxiliaries
        if score.feasible[0] and hangs_on_a_tie(self.problem, *plan):
            score = dataclasses.replace(score, worst=np.full(1, np.inf))
        if self._better(score):
            self.best = trajectory
            self.best_score = score
            if score.feasible[0]:
                self.sink(trajectory, source)

    def _better(self, score: Score) -> bool:
        """A plan within tolerance beats one without; among feasible ones the reward decides, else the merit."""
        if self.best_score is None:
            return True
        if score.feasible[0] != self.best_score.feasible[0]:
            return bool(score.feasible[0])
        if score.feasible[0]:
            return bool(score.reward[0] > self.best_score.reward[0])
        return bool(score.merit(self.merit.penalty)[0] > self.best_merit)

    def score(self, trajectory: Trajectory) -> Score:
        """The score of a rolled-out plan, arrays of one entry."""
        no_units = np.zeros((trajectory.horizon, 1, 0), dtype=bool)
        return self.merit.score(Rollout(Decisions.of(trajectory), trajectory.states[None], no_units))

    def merit_of(self, trajectory: Trajectory) -> float:
        """The merit of a rolled-out plan."""
        return float(self.score(trajectory).merit(self.merit.penalty)[0])

    def raise_penalty(self) -> bool:
        """Violations cost a multiple from now on, up to a limit beyond which rewards would drown in rounding: False.

        Local optima of another merit are no longer comparable, and are forgotten.
        """
        settings = self.settings.penalty
        most = settings.largest * Merit.of(self.problem, settings).penalty
        raised = min(settings.growth * self.merit.penalty, most)
        if raised <= self.merit.penalty:
            return False
        self.merit = dataclasses.replace(self.merit, penalty=raised)
        self.optima.merits.clear()
        self.polished = None
        return True

    def say(self, message: str) -> None:
        """Tell whoever listens."""
        if self.tell is not None:
            self.tell(message)
