"""The proof by prefixes: a MILP over the first steps, LPs over those that follow.

    1  cut the horizon into the first k steps and single steps after them; λ from the LP relaxation (`lp_windows`)
    2  OPT <= D_0 + Σ_i γ^(t_i) D_i:   D_0 is the dual bound of the prefix's MILP, the others those of their LPs
    3  with these D, LPs tighten the boxes of better plans
    4  again with a longer prefix, in smaller boxes

A MILP over a few steps is solved where that over all of them is not, and where what follows costs little, or is nearly
linear in the state where it begins, little is lost. Each prefix leaves the next one smaller boxes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import AllPlanBounds
from reluplan.bounds.span import Span
from reluplan.encoding.window_cuts import WindowCut
from reluplan.errors import InfeasibleError, NoBetterPlanError
from reluplan.optimisation.solvers.base import Progress, SolveOptions, SolveResult, SolveStatus
from reluplan.optimisation.workers.background import BackgroundSolve
from reluplan.proofs.lagrangian.lp_windows import (
    cut_off,
    is_affordable,
    lagrangian_model,
    lp_bounds,
    reach_within,
    relax,
    total_bound,
    windows_of,
)
from reluplan.proofs.lagrangian.samples import plan_window
from reluplan.proofs.lagrangian.settings import PrefixSettings
from reluplan.proofs.lagrangian.subproblem import WindowSubproblem, window_subproblem
from reluplan.proofs.proof_state import ProofState

Array = NDArray[np.float64]


class PrefixProof:
    """Steps 1 to 4 above; the MILP of a prefix stands still between two turns."""

    stage = "prefix"
    summary = "a MILP over the first steps, longer and longer, and LPs over what follows"
    needs_plan = True
    uses_workers = False

    def __init__(self, settings: PrefixSettings | None = None) -> None:
        self._settings = settings or PrefixSettings()
        self._length = self._settings.first
        self._prefix: _Prefix | None = None

    def improve(self, state: ProofState, deadline: float) -> None:
        """Until the bound meets the plan, the deadline, or the whole horizon is no longer than the prefix."""
        try:
            while clock.now() < deadline and self._length < state.problem.horizon and not state.incumbent.is_proven:
                if self._prefix is None:
                    self._prefix = _begin(state, self._length, self._settings, deadline)
                if self._prefix is None or not self._prefix.go_on(state, deadline):
                    return
                if not self._prefix.tighten(state, deadline):
                    return
                self._length = self._longer(self._prefix)
                self._prefix = None
        except NoBetterPlanError:
            raise
        except InfeasibleError:
            state.offer_no_better_plan("prefixes")

    def _longer(self, prefix: _Prefix) -> int:
        """Steps of the next prefix."""
        settings = self._settings
        growth = settings.quick_growth if prefix.seconds <= settings.quick else settings.growth
        return max(self._length + 1, int(growth * self._length))

    def close(self) -> None:
        """End the MILP that stands still."""
        if self._prefix is not None:
            self._prefix.solve.end()
            self._prefix = None


@dataclass(eq=False)
class _Prefix:
    """A prefix, the single steps after it with the bounds of their LPs, and the MILP that is being solved; seconds:
    that it has taken."""

    windows: list[WindowSubproblem]
    multipliers: Array
    tail: Array
    solve: BackgroundSolve
    bound: float = math.inf
    is_solved: bool = False
    seconds: float = 0.0

    def go_on(self, state: ProofState, deadline: float) -> bool:
        """Let the MILP go on until the deadline; whether it has come to its end."""
        if self.is_solved:
            return True
        began = clock.now()
        self.solve.resume()
        try:
            outcome = self.solve.look(deadline)
            if outcome is not None:
                self.is_solved = True
                self._take(outcome)
        finally:
            if self.is_solved:
                self.solve.end()
            else:
                self.solve.pause()
            self.seconds += clock.now() - began
            source = f"a prefix of {self.windows[0].span.length} steps"
            state.offer(total_bound(self.windows, self._bounds), 0.0, source)
        return self.is_solved

    def listen(self, progress: Progress) -> None:
        """The MILP's bound so far."""
        if progress.bound is not None:
            self.bound = min(self.bound, progress.bound + progress.margin)

    def _take(self, outcome: SolveResult) -> None:
        if outcome.status is not SolveStatus.INFEASIBLE:
            self.bound = min(self.bound, outcome.dual_bound + outcome.margin)
        elif not isinstance(self.windows[0].bounds, AllPlanBounds):  # of all plans, the incumbent's contradicts it
            raise InfeasibleError("no better plan has such a prefix")

    @property
    def _bounds(self) -> Array:
        return np.concatenate([[self.bound], self.tail])

    def _cut(self) -> WindowCut:
        head, none = self.windows[0], np.zeros(self.multipliers.shape[1])
        end = np.concatenate([self.multipliers[head.span.end], none])
        return WindowCut(head.span, np.zeros_like(end), head.start_hinges, end, head.end_hinges, self.bound)

    def tighten(self, state: ProofState, deadline: float) -> bool:
        """Step 3, and forward bounds within; the prefix's bound is a cut for others. Whether there was the time."""
        if not math.isfinite(self.bound) or state.incumbent.is_proven:
            return True
        cut_off(state, self.windows, self.multipliers, self._bounds, False, deadline)
        if clock.now() > deadline:
            return False
        reach_within(state, deadline, deadline)
        state.cuts = (*state.cuts, self._cut())
        return True


def _begin(state: ProofState, length: int, settings: PrefixSettings, deadline: float) -> _Prefix | None:
    """Steps 1 and 2, with the MILP just begun; None if there is no time for the LPs."""
    problem, boxes = state.problem, state.boxes
    if clock.is_counted() or not is_affordable(problem, deadline):  # a process of its own lives by another clock
        return None
    windows = [window_subproblem(problem, boxes, Span(0, length)), *windows_of(problem, boxes, 1, length)]
    relaxation = relax(problem, windows, deadline)
    if relaxation is None:
        return None
    tail = lp_bounds(windows[1:], relaxation.multipliers, deadline)
    if tail is None or not np.isfinite(tail).all():
        return None
    head, plan = windows[0], state.plan
    model = lagrangian_model(head, relaxation.multipliers)
    gap = settings.precision * max(0.0, relaxation.bound - plan.total_reward) / max(1.0, abs(relaxation.bound))
    begun: list[_Prefix] = []
    options = SolveOptions(
        time_limit=state.clock.remaining,
        gap=max(gap, 1e-5),
        threads=1,
        seed=state.seed,
        warm_start=head.assignment(plan_window(head.span, plan)),
        on_progress=lambda progress: begun[0].listen(progress),
    )
    solve = BackgroundSolve(state.pool.solver_name, model, options)
    begun.append(_Prefix(windows, relaxation.multipliers, tail, solve))
    return begun[0]
