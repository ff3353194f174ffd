"""Stages that take turns while there is a gap, each rated by what it gained per second.

A turn is a slice of time, which grows while it is used up; a stage goes on where its last turn ended, with the plans,
bounds and boxes that the others have found since. One that had nothing more to do before its turn was over rests until
there is a better plan or smaller boxes. The MILP over the whole horizon runs beside the other stages if there is a
thread for it, and takes turns with them if there is none; a stage that gains more, and needs all threads, has them
alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from reluplan import clock
from reluplan.errors import NoBetterPlanError, OutOfTimeError, SolverError
from reluplan.planning.log import Share
from reluplan.planning.rating import Rating, Standing, weights
from reluplan.planning.settings import PortfolioSettings
from reluplan.planning.stages import Stages
from reluplan.planning.stages.milp import BackgroundMilp, MilpStage
from reluplan.planning.stages.search import SearchStage
from reluplan.planning.stages.stage import Proving, Stage, starts_slowly
from reluplan.planning.work import Work
from reluplan.threads import matrix_threads

USED_UP = 0.5
"""A turn that took less than this share of its time had nothing more to do."""

OVERRUN = 2.0
"""A move that outlasts its turn counts as at most so many turns: how long it was in vain is known all the same."""


@dataclass(eq=False)
class Arm:
    """A stage with its rating. seconds: of its next turn. rests_at: what was known when it had nothing more to do."""

    stage: Stage
    rating: Rating
    seconds: float
    rests_at: object = None


class MilpTurns:
    """The MILP as a stage that takes turns with others, where there is one thread for all of them."""

    name = MilpStage.name
    summary = MilpStage.summary
    uses_workers = False

    def __init__(self, milp: BackgroundMilp) -> None:
        self._milp = milp

    def applies(self, work: Work) -> bool:
        return self._milp.applies

    def run(self, work: Work, deadline: float) -> None:
        """On from where it stopped, until the deadline."""
        self._milp.resume(anew=True)
        try:
            self._milp.look(deadline)
        finally:
            self._milp.pause()


class Portfolio:
    """The stages of these names, in turns."""

    def __init__(self, work: Work, stages: Stages, names: Sequence[str]) -> None:
        threads = work.options.thread_count
        has_milp = MilpStage.name in names
        self._work = work
        self._milp = BackgroundMilp(work, max(1, threads - 1))
        self._beside = self._rating() if has_milp and threads > 1 and not clock.is_counted() else None
        self._watched_at = clock.now()
        self._winner: Arm | None = None
        self._arms = [self._arm(stages[name]) for name in names if name != MilpStage.name]
        if has_milp and self._beside is None:
            self._arms.insert(2, self._arm(MilpStage() if clock.is_counted() else MilpTurns(self._milp)))

    @property
    def _settings(self) -> PortfolioSettings:
        return self._work.settings.portfolio

    def _arm(self, stage: Stage) -> Arm:
        settings = self._settings
        seconds = self._first_turn * (settings.slow_start if starts_slowly(stage) else 1.0)
        return Arm(stage, self._rating(settings.search_weight if stage.name == SearchStage.name else 0.0), seconds)

    @property
    def _first_turn(self) -> float:
        settings = self._settings
        share = settings.first_share * self._work.clock.time_limit
        return min(max(settings.shortest_turn, share), settings.longest_first_turn)

    def _rating(self, least: float = 0.0) -> Rating:
        limit, settings = self._work.clock.time_limit, self._settings
        return Rating(settings, settings.vain_seconds if math.isinf(limit) else settings.vain_share * limit, least)

    def run(self) -> None:
        """Until the bound meets the plan, the MILP is solved to its end, the time is over, or nobody has anything more
        to do."""
        threads = self._work.options.thread_count - (self._beside is not None)
        try:
            with matrix_threads(threads):
                self._take_turns()
        except KeyboardInterrupt:
            self._watch()
            raise
        finally:
            self._milp.end()
            self._work.log.shares = tuple(self._shares())

    def _take_turns(self) -> None:
        while not self._is_over:
            arm = self._next()
            self._share_threads(arm)
            self._work.lent_threads = int(arm is not None and self._lends_a_thread(arm))
            if arm is not None:
                self._turn(arm)
            elif self._milp.is_running:
                self._watch(clock.now() + self._settings.longest_unwatched)
            else:
                return

    @property
    def _is_over(self) -> bool:
        work = self._work
        is_known = work.incumbent.is_proven or work.is_finished or self._milp.is_solved
        return is_known or work.clock.remaining <= 0.0

    def _next(self) -> Arm | None:
        """The stage whose account would be the smallest after its turn, of those that have something to do; one that
        has just gained much goes on."""
        able = self._able()
        if self._winner in able:
            return self._winner
        if self._is_search_vain and all(arm.stage.name == SearchStage.name for arm in able):
            return None
        shares = weights([arm.rating for arm in able], self._settings)
        accounts = [
            arm.rating.account + self._expected(arm) / weight for arm, weight in zip(able, shares.tolist(), strict=True)
        ]
        return able[int(np.argmin(accounts))] if able else None

    def _able(self) -> list[Arm]:
        """Stages that have something to do."""
        known = self._known()
        return [arm for arm in self._arms if arm.rests_at != known and arm.stage.applies(self._work)]

    @property
    def _is_search_vain(self) -> bool:
        """Whether a search by itself, which has no end, is no use: there is no limit, and nobody to prove anything."""
        return math.isinf(self._work.clock.time_limit) and (clock.is_counted() or not self._milp.applies)

    def _known(self) -> object:
        """What may wake a stage that rests: another plan, or fewer unstable units."""
        work = self._work
        return work.incumbent.reward, None if work.all_plans is None else int(work.boxes.unstable.sum())

    def _turn(self, arm: Arm) -> None:
        """One turn of a stage, and what follows from it."""
        work, rating = self._work, arm.rating
        known, before, began, seconds = self._known(), self._standing(arm), clock.now(), self._seconds(arm)
        with work.log.stage(arm.stage.name):
            self._guarded(arm.stage.name, lambda: arm.stage.run(work, began + seconds))
        spent = max(clock.now() - began, 1e-6)
        after = self._standing(arm)
        gain, gap_gain = after.gain_since(before, self._settings.promise), after.gap_gain_since(before)
        rating.record(spent, gain, gap_gain)
        self._winner = arm if self._goes_on(arm, gain) else None
        rating.account += min(spent, OVERRUN * seconds) / self._weight(arm)
        if spent >= USED_UP * seconds:
            arm.seconds = self._settings.growth * seconds
        elif gain == 0.0 and self._known() == known:
            arm.rests_at = known
        self._tell(arm.stage.name, gap_gain, spent)
        self._watch()

    def _seconds(self, arm: Arm) -> float:
        """How long the next turn of a stage may be."""
        settings, remaining = self._settings, self._work.clock.remaining
        longest = settings.longest_share * remaining
        if self._milp.is_running:
            longest = min(longest, settings.longest_unwatched)
        return min(max(min(arm.seconds, longest), settings.shortest_turn), remaining)

    def _expected(self, arm: Arm) -> float:
        """The same for its account: first turns are all alike there, so that they come in the order of the schedule."""
        return self._first_turn if arm.rating.turns == 0 else self._seconds(arm)

    def _goes_on(self, arm: Arm, gain: float) -> bool:
        """Whether a stage that has just had its turn has the next one too: it gained much, or it starts slowly, its own
        bound is not far behind, and it had little time."""
        settings, limit = self._settings, self._work.clock.time_limit
        if gain >= settings.goes_on:
            return True
        most = settings.slow_share * (limit if math.isfinite(limit) else settings.slow_limit)
        is_slow = starts_slowly(arm.stage) and arm.rating.seconds < most
        return is_slow and self._standing(arm).nearness >= settings.near

    def _weight(self, arm: Arm) -> float:
        """Of a stage that has just had its turn."""
        arms = [arm, *(other for other in self._able() if other is not arm)]
        return float(weights([each.rating for each in arms], self._settings)[0])

    def _best_per_second(self) -> float:
        """Of all stages that have something to do; the MILP beside them takes no turn of theirs."""
        return max((arm.rating.per_second for arm in self._able()), default=0.0)

    def _share_threads(self, arm: Arm | None) -> None:
        """Let the MILP run beside the stage that is next, unless that needs all threads, and gains more per second or
        the MILP was in vain for a while.

        It is not begun anew while others gain more, since they will leave it smaller boxes still; unless they have
        proven so much that it would have to catch up first.
        """
        if self._beside is None:
            return
        is_vain = self._beside.vain > self._beside.patience
        if (
            arm is not None
            and arm.stage.uses_workers
            and (is_vain or arm.rating.gap_per_second > self._beside.gap_per_second)
        ):
            self._milp.pause()
            return
        is_best = self._milp.is_behind or self._beside.per_second >= self._best_per_second()
        if not self._milp.is_running or (self._milp.is_outdated and is_best):
            with self._work.log.stage(MilpStage.name, goes_on=not self._milp.is_outdated):
                self._guarded(MilpStage.name, lambda: self._milp.resume(anew=is_best))
            self._watched_at = clock.now()

    def _lends_a_thread(self, arm: Arm) -> bool:
        """Whether a stage leaves the MILP beside it a thread of its own: not before it was in vain for a while."""
        return self._beside is not None and self._milp.is_running and arm.rating.vain > arm.rating.patience

    def _watch(self, until: float = 0.0) -> None:
        """Take over what the MILP beside us has found, waiting for its end until a moment (of clock.now)."""
        if self._beside is None or not self._milp.is_running:
            return
        log, before = self._work.log, self._standing()
        with log.stage(MilpStage.name, goes_on=True):
            log.count(MilpStage.name, clock.now() - self._watched_at)
            self._guarded(MilpStage.name, lambda: self._milp.look(until))
            spent = clock.now() - self._watched_at
            self._watched_at += spent
            gain = self._standing().gap_gain_since(before)
            self._beside.record(spent, gain, gain)
            self._tell(MilpStage.name, gain, spent)

    def _guarded(self, name: str, action: Callable[[], None]) -> None:
        """A stage that fails or finds no time leaves it to the others."""
        work = self._work
        try:
            action()
        except NoBetterPlanError:
            work.finish(name)
        except OutOfTimeError as error:
            work.log.tell(str(error))
        except SolverError as error:
            work.log.note(f"{name} was ended, and the others went on: {error}")
            self._arms = [arm for arm in self._arms if arm.stage.name != name]
            if name == MilpStage.name:
                self._milp.give_up()

    def _standing(self, arm: Arm | None = None) -> Standing:
        incumbent = self._work.incumbent
        target = incumbent.gap_target * max(1.0, abs(incumbent.reward or 0.0))
        looseness = 0.0 if self._work.all_plans is None else self._work.looseness
        own_bound = arm.stage.own_bound if arm is not None and isinstance(arm.stage, Proving) else math.inf
        return Standing(incumbent.reward, incumbent.bound, target, looseness, own_bound)

    def _tell(self, name: str, gain: float, seconds: float) -> None:
        if gain > 0.0:
            self._work.log.tell(f"{name} closed {-math.expm1(-gain):.2%} of the gap in {seconds:.1f} s")

    def _shares(self) -> list[Share]:
        """Who got which share of the time, and what came of it."""
        ratings = [(arm.stage.name, arm.rating) for arm in self._arms]
        if self._beside is not None:
            ratings.append((MilpStage.name, self._beside))
        return [Share(name, r.turns, round(r.seconds, 6), round(r.halvings, 4)) for name, r in ratings if r.turns]
