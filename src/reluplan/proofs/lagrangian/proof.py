"""The proof by Lagrangian decomposition over time (Fisher 1981; with a bundle method, Lemaréchal 2001).

OPT <= Σ_i weight_i · D_i(λ) for any multipliers λ of the states where windows meet (`decomposition`). To lower it:

    1  λ <- multipliers of the LP of the plan's own activation pattern                            multipliers
    2  cut the horizon into windows, one repeated window where the plan is in its steady state    partition
    3  λ <- 0 in the steady state, which is quick to prove; elsewhere the best by sampling        search_multipliers
       a plan that follows λ, improved, may be better than the best                               following_plan
       bound all windows by MILPs                                                                 decomposition
    4  until the bound meets the plan, or the time is over, make the first move that helps:
       a  tighten the boxes of better plans: each window must earn D_i − gap                      tighten_boxes
       b  ask again the MILPs that left more open than their windows lose                         ask_again
       c  a better λ of the steady state, whose loss counts many times                            steady_state
       d  a better λ where the plan moves, by sampling                                            search_multipliers
       e  one window instead of two, where most is lost                                           merge_windows
       f  a better λ anywhere: a bundle step inside a trust region                                bundle_step
       g  longer windows everywhere                                                               grow_windows
    5  if none helps, shrink the trust region; give up after some rounds of that

Every D_i is a MILP's dual bound with its margin, so that whatever λ, windows and moves are, each total is a bound for
all plans in the boxes, and with the incumbent's reward for all plans. Each D_i by itself is a cut of the MILP over the
whole horizon, and is left to it (`cuts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from reluplan import clock
from reluplan.encoding.window_cuts import WindowCut
from reluplan.errors import InfeasibleError
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.lagrangian.ask_again import ask_again
from reluplan.proofs.lagrangian.bundle_step import bundle_step
from reluplan.proofs.lagrangian.cuts import window_cuts
from reluplan.proofs.lagrangian.decomposition import Key, WindowBound
from reluplan.proofs.lagrangian.grow_windows import grow_windows
from reluplan.proofs.lagrangian.iterate import DualAscent, Iterate, boundaries
from reluplan.proofs.lagrangian.merge_windows import merge_windows
from reluplan.proofs.lagrangian.search_multipliers import first_multipliers, follow_multipliers, search_multipliers
from reluplan.proofs.lagrangian.settings import LagrangianSettings
from reluplan.proofs.lagrangian.steady_state import steady_state
from reluplan.proofs.lagrangian.tighten_boxes import tighten_boxes
from reluplan.proofs.proof_state import ProofState

Move = Callable[[DualAscent, Iterate], Iterate]
"""The iterate after the move; with the same evaluation if it did not help."""

MOVES: tuple[Move, ...] = (
    tighten_boxes,
    ask_again,
    steady_state,
    search_multipliers,
    merge_windows,
    bundle_step,
    grow_windows,
)


class LagrangianProof:
    """The steps above, until the bound meets the plan."""

    stage = "lagrangian"
    summary = "Lagrangian decomposition over time: windows, multipliers, MILPs of windows"
    needs_plan = True
    uses_workers = True

    def __init__(self, settings: LagrangianSettings | None = None) -> None:
        self._settings = settings or LagrangianSettings()
        self._iterate: Iterate | None = None
        self._window_bounds: dict[Key, WindowBound] = {}
        self._cuts: tuple[WindowCut, ...] = ()
        self._guide: Trajectory | None = None

    def improve(self, state: ProofState, deadline: float) -> None:
        """Until the bound meets the plan, the deadline, or nothing helps any more; from where the last call ended, the
        boxes of which contained those of now.

        A move that has begun may go on after the deadline, for some share of the time of the run: MILPs that are cut
        short prove little. Not so where they prove little in any case.
        """
        boxes = state.boxes
        if not all(np.isfinite(side).all() for side in (boxes.action_lower, boxes.action_upper)):
            return  # windows are sampled within them
        last_moment, guide = self._last_moment(state, deadline), self._guide or state.plan
        ascent = DualAscent(state, self._settings, last_moment, guide, self._window_bounds)
        try:
            iterate = _first(ascent) if self._iterate is None else _resumed(ascent, self._iterate)  # 1 to 3
            self._iterate, self._guide = iterate, ascent.guide
            while clock.now() < deadline and not state.incumbent.is_proven:
                after = _advance(ascent, iterate)  # 4 and 5
                if after.setbacks > iterate.setbacks and _is_stuck(ascent, after):
                    return
                self._iterate = iterate = after
        except InfeasibleError:
            state.offer_no_better_plan("Lagrangian decomposition")
        finally:
            found = window_cuts(self._window_bounds, state.plan, self._settings.most_cuts)
            if found:
                state.cuts = (*(cut for cut in state.cuts if cut not in self._cuts), *found)
                self._cuts = found

    def _last_moment(self, state: ProofState, deadline: float) -> float:
        """When even a move that has begun must end: at the deadline, where the MILP of a single step is too much."""
        if state.boxes.unstable.sum(axis=-1).max(initial=0) > self._settings.most_unstable:
            return deadline
        longest = clock.now() + self._settings.move_share * state.clock.remaining
        return max(deadline, longest) if math.isfinite(longest) else deadline


def _first(ascent: DualAscent) -> Iterate:
    """Steps 1 to 3."""
    multipliers = ascent.plan_multipliers.copy()
    budget = ascent.settings.partition.first_budget
    for span in ascent.partition(budget):
        if span.count > 1:
            multipliers[span.first : span.end + 1] = 0.0
    multipliers = first_multipliers(ascent, multipliers)
    if follow_multipliers(ascent, multipliers):
        ascent.guide = ascent.plan
        multipliers = first_multipliers(ascent, multipliers)
    decomposition = ascent.decompose(ascent.partition(budget))
    spans = [subproblem.span for subproblem in decomposition.subproblems]
    tolerance = 1e-4 * max(1.0, abs(ascent.reward))
    evaluation = ascent.evaluate_below(decomposition, multipliers[boundaries(spans)], tolerance)
    return Iterate(decomposition, evaluation, multipliers, budget, ascent.settings.bundle.first_radius)


def _resumed(ascent: DualAscent, iterate: Iterate) -> Iterate:
    """Where the last call ended, in the boxes of now; with a better plan it is no longer stuck."""
    decomposition = ascent.in_boxes_of_now(iterate.decomposition)
    return replace(iterate, decomposition=decomposition, setbacks=0)


def _advance(ascent: DualAscent, iterate: Iterate) -> Iterate:
    """Step 4: the first move that helps; what the others learned is kept. Step 5 if none does: every failed λ has left
    cuts behind, and the next proposal knows more."""
    before = iterate.evaluation
    for move in MOVES:
        iterate = move(ascent, iterate)
        if iterate.evaluation is not before:
            return iterate
    return replace(iterate, setbacks=iterate.setbacks + 1, radius=ascent.settings.bundle.after_setback)


def _is_stuck(ascent: DualAscent, iterate: Iterate) -> bool:
    """After a round in vain: whether there were too many of them, or there is no λ to choose."""
    nothing_to_choose = bool((iterate.decomposition.groups() < 0).all())
    return iterate.setbacks > ascent.settings.most_setbacks or nothing_to_choose
