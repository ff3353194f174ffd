"""The proof by back-substitution through the whole plan."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.span import Span
from reluplan.bounds.unrolled.plan_network import PlanBoxes, PlanNetworks, have_lines
from reluplan.bounds.unrolled.windows import window_bounds
from reluplan.problem.problem import Problem
from reluplan.proofs.crown.descent import Descent
from reluplan.proofs.crown.relaxation import PlanRelaxation, Valuation
from reluplan.proofs.crown.settings import CrownSettings
from reluplan.proofs.crown.start import best_start, scales
from reluplan.proofs.proof_state import ProofState


class CrownProof:
    """OPT <= the whole plan's reward with a line in place of each ReLU, whose slopes are optimised (α-CROWN), with
    multipliers for rows and boxes. One pass costs two evaluations of the network per step.

    It keeps slopes and multipliers between turns, and goes on from there over whatever boxes there are then.
    """

    stage = "crown"
    summary = "back-substitution through the whole plan, with optimised slopes and multipliers"
    needs_plan = False
    uses_workers = False

    def __init__(self, settings: CrownSettings | None = None) -> None:
        self._settings = settings or CrownSettings()
        self._problem: Problem | None = None
        self._networks: PlanNetworks | None = None
        self._relaxation: PlanRelaxation | None = None
        self._descent: Descent | None = None

    def improve(self, state: ProofState, deadline: float) -> None:
        """Smaller boxes first, then the best bound over windows, and then what its optimisation gains, until it is
        stuck."""
        if self._can_begin(state.problem, deadline):
            with np.errstate(over="ignore", invalid="ignore"):  # such a bound is none, and is not offered
                self._improve(state, deadline)

    def _improve(self, state: ProofState, deadline: float) -> None:
        relaxation = self._relax(state, deadline)
        if relaxation is None or clock.now() > deadline:
            return
        if self._descent is None:
            self._descent = self._begin(relaxation, state, deadline)
        descent = self._descent
        offered = self._offer(state, descent.best)
        while not descent.is_stuck and clock.now() <= deadline:
            descent.advance(relaxation, self._worthwhile(state, descent.best.value))
            if descent.best.value < offered - 10.0 * self._worthwhile(state, offered):
                offered = self._offer(state, descent.best)
        if descent.best.value < offered:
            self._offer(state, descent.best)

    def _can_begin(self, problem: Problem, deadline: float) -> bool:
        """Whether one pass, which nothing interrupts, fits into the turn, and its arrays into the memory."""
        network = problem.dynamics
        work = 3.0 * problem.horizon * (network.operations + 50.0 * network.relu_count)
        values = problem.horizon * (network.relu_count + problem.layout.width)
        return clock.expected(work) <= deadline - clock.now() and 160.0 * values <= self._settings.most_bytes

    def _relax(self, state: ProofState, deadline: float) -> PlanRelaxation | None:
        """The relaxation over the boxes; that of the turn before if they are the same.

        None without finite boxes, or where functions are piecewise linear only step by step.
        """
        problem = state.problem
        if problem.has_products:
            return None
        if problem is not self._problem or self._networks is None:
            self._problem, self._networks = problem, PlanNetworks(problem)
            self._relaxation = self._descent = None
        if not have_lines(state.boxes):
            return None
        if self._relaxation is not None and _are_equal(self._relaxation.boxes.bounds, state.boxes):
            return self._relaxation
        self._tighten(state, deadline)
        boxes = PlanBoxes(problem, self._networks, state.boxes)
        self._relaxation = PlanRelaxation(problem, self._networks, boxes)
        if self._descent is not None:
            self._descent.begin_again(self._relaxation)
        return self._relaxation

    def _tighten(self, state: ProofState, deadline: float) -> None:
        """Boxes by back-substitution, in a share of the turn."""
        now = clock.now()
        until = now + self._settings.tightening_share * (deadline - now) if math.isfinite(deadline) else deadline
        found = window_bounds(state.problem, state.boxes, until)
        if found is not state.boxes:
            state.tighten([Span(0, found.horizon)], [found])

    def _begin(self, relaxation: PlanRelaxation, state: ProofState, deadline: float) -> Descent:
        """Offer the best bound over windows, and begin elsewhere, where there is more to gain."""
        length, windows = best_start(relaxation, self._settings, deadline)
        state.tell(f"back-substitution through windows of {length} of {state.problem.horizon} steps")
        self._offer(state, windows)
        shares = np.full_like(windows.parameters.box_shares, self._settings.box_share)
        first = relaxation.value(replace(windows.parameters, box_shares=shares))
        return Descent(state.problem, first, scales(state.problem, first), self._settings)

    def _worthwhile(self, state: ProofState, bound: float) -> float:
        """An improvement that counts."""
        return self._settings.worthwhile * (abs(bound) if state.reward is None else max(0.0, bound - state.reward))

    @staticmethod
    def _offer(state: ProofState, found: Valuation) -> float:
        state.offer(found.bound, found.margin, "back-substitution through the whole plan")
        return found.value


def _are_equal(first: HorizonBounds, second: HorizonBounds) -> bool:
    others = second.arrays()
    return first is second or all(np.array_equal(array, others[name]) for name, array in first.arrays().items())
