"""The proof by the LP relaxation of the whole horizon, whose multipliers tell where better plans are.

    1  solve the LP relaxation over the boxes; its duals prove a bound (`safe_bound`)
    2  λ, the multipliers of the states where windows meet, cut it into these: by LP duality

           Σ_i γ^(t_i) D_i  =  the bound of 1,   D_i = max Σ R − λ · s_first + λ' · s_end  over the LP of window i

    3  a plan that is better than the incumbent, L, earns at least D_i − (Σ γ^(t_i) D_i − L) / γ^(t_i) in window i,
       since the others earn at most their D: with that row the window's LP tightens its boxes (OBBT)
    4  smaller boxes reach less far: forward bounds within them
    5  again, while that moves something; then with LPs of units too, and with longer windows

All of it is LPs, of one step for the most part, so that it takes seconds where window MILPs take minutes. It pays where
leaving the good region is dear: few steps can afford it, and the region is all that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.errors import InfeasibleError, NoBetterPlanError
from reluplan.proofs.lagrangian.lp_windows import (
    cut_off,
    is_affordable,
    lp_bounds,
    reach_within,
    relax,
    total_bound,
    windows_of,
)
from reluplan.proofs.lagrangian.settings import Effort, RelaxationSettings
from reluplan.proofs.lagrangian.subproblem import WindowSubproblem
from reluplan.proofs.proof_state import ProofState

Array = NDArray[np.float64]


class RelaxationProof:
    """Steps 1 to 5 above. Without a plan only the bound of step 1."""

    stage = "relaxation"
    summary = "the LP relaxation of the whole horizon, and boxes of better plans by its multipliers"
    needs_plan = False
    uses_workers = False

    def __init__(self, settings: RelaxationSettings | None = None) -> None:
        self._settings = settings or RelaxationSettings()
        self._effort = 0
        self._known: _Known | None = None

    def improve(self, state: ProofState, deadline: float) -> None:
        """Until the bound meets the plan, the deadline, or nothing moves; a turn begins where the last has ended."""
        settings = self._settings
        if self._known is not None and not _Known.of(state).is_close_to(self._known, settings.worthwhile):
            self._effort = 0
        while self._effort < len(settings.efforts) and clock.now() < deadline and not state.incumbent.is_proven:
            before = _Known.of(state)
            if not self._round(state, settings.efforts[self._effort], deadline):
                return
            self._known = _Known.of(state)
            if self._known.is_close_to(before, settings.worthwhile) and clock.now() < deadline:
                self._effort += 1

    def _round(self, state: ProofState, effort: Effort, deadline: float) -> bool:
        """Steps 1 to 4; False if they cannot be done, or not in time."""
        problem = state.problem
        if not is_affordable(problem, deadline):
            return False
        windows = windows_of(problem, state.boxes, effort.length)
        relaxation = relax(problem, windows, deadline)
        if relaxation is None:
            return False
        state.offer(relaxation.bound, 0.0, "the LP relaxation of the whole horizon")
        if state.reward is None or state.incumbent.is_proven:
            return False
        try:
            self._tighten(state, windows, relaxation.multipliers, effort, deadline)
        except NoBetterPlanError:
            raise
        except InfeasibleError:
            state.offer_no_better_plan("the LP relaxation")
            return False
        return True

    def _tighten(
        self,
        state: ProofState,
        windows: Sequence[WindowSubproblem],
        multipliers: Array,
        effort: Effort,
        deadline: float,
    ) -> None:
        """Steps 2 to 4."""
        bounds = lp_bounds(windows, multipliers, deadline)
        if bounds is None:
            return
        state.offer(total_bound(windows, bounds), 0.0, "LPs of windows")
        cut_off(state, windows, multipliers, bounds, effort.units, deadline)
        until = clock.now() + self._settings.forward_share * max(0.0, deadline - clock.now())
        reach_within(state, min(until, deadline), deadline)


@dataclass(frozen=True)
class _Known:
    """What a round begins with: the plan, unstable units, and the boxes' widths together."""

    reward: float | None
    unstable: int
    size: float

    @classmethod
    def of(cls, state: ProofState) -> _Known:
        boxes, problem = state.boxes, state.problem
        size = 0.0
        for lower, upper, variables in (
            (boxes.state_lower, boxes.state_upper, problem.states),
            (boxes.action_lower, boxes.action_upper, problem.actions),
        ):
            low, high = problem.box(variables)
            with np.errstate(invalid="ignore", divide="ignore"):
                shares = (upper - lower).sum(axis=0) / (high - low)
            size += float(np.nan_to_num(shares, nan=0.0, posinf=0.0).sum())
        return cls(state.reward, int(boxes.unstable.sum()), size)

    def is_close_to(self, before: _Known, worthwhile: float) -> bool:
        """Whether too little has changed since then."""
        fewer = self.unstable < (1.0 - worthwhile) * before.unstable
        return not fewer and self.size >= (1.0 - worthwhile) * before.size
