"""The proof by splitting: back-substitution over parts of the boxes of actions, the worst part first."""

from __future__ import annotations

import heapq
import math

import numpy as np

from reluplan import clock
from reluplan.bounds.boxes import BetterPlanBounds
from reluplan.bounds.unrolled.plan_network import PlanBoxes, PlanNetworks, have_lines
from reluplan.bounds.unrolled.windows import WindowSettings, refined_functions, window_bounds
from reluplan.errors import InfeasibleError
from reluplan.problem.problem import Problem
from reluplan.proofs.crown.cells import Cell, whole
from reluplan.proofs.crown.descent import Descent
from reluplan.proofs.crown.relaxation import PlanRelaxation, Valuation
from reluplan.proofs.crown.settings import SplittingSettings
from reluplan.proofs.crown.start import box_shares, first_parameters, scales
from reluplan.proofs.proof_state import ProofState


class SplittingProof:
    """OPT <= the largest bound of a cell, where cells are boxes of actions (and first states) that contain all plans
    together (input splitting). Over half the box far fewer units switch, and back-substitution loses much less: short
    plans of large networks, whose boxes explode otherwise, get bounds that say something.

    It keeps its cells between turns.
    """

    stage = "crown-cells"
    summary = "back-substitution over parts of the actions' boxes, the worst part first"
    needs_plan = False
    uses_workers = False

    def __init__(self, settings: SplittingSettings | None = None) -> None:
        self._settings = settings or SplittingSettings()
        self._problem: Problem | None = None
        self._cells: list[Cell] = []
        self._closed = -math.inf

    def improve(self, state: ProofState, deadline: float) -> None:
        """Split the cell with the largest bound, until the deadline, or until many splits moved nothing."""
        work = 3.0 * state.problem.horizon * state.problem.dynamics.operations
        is_long = clock.expected(work) > deadline - clock.now()
        if is_long or state.problem.has_products or not have_lines(state.boxes):
            return
        if state.problem is not self._problem:
            self._problem, self._networks = state.problem, PlanNetworks(state.problem)
            self._cells, self._closed = [whole(state.boxes)], -math.inf
        with np.errstate(over="ignore", invalid="ignore"):  # such a bound is none, and is not offered
            self._split(state, deadline)

    def _split(self, state: ProofState, deadline: float) -> None:
        offered, idle = self._bound, 0
        while self._cells and len(self._cells) < self._settings.most_cells and clock.now() <= deadline:
            if idle > self._settings.patience or not self._split_worst(state, deadline):
                break
            idle += 1
            if self._bound < offered - self._settings.worthwhile * max(1e-9, abs(self._bound)):
                offered, idle = self._offer(state), 0
        if self._bound < offered:
            self._offer(state)

    @property
    def _bound(self) -> float:
        """Of all plans in the boxes."""
        return max(self._closed, self._cells[0].bound if self._cells else -math.inf)

    def _split_worst(self, state: ProofState, deadline: float) -> bool:
        """Replace the worst cell by its halves; False if it cannot be done, or not in time."""
        cell = self._cells[0]
        if math.isinf(cell.bound):
            parts = [(cell.action_lower, cell.action_upper, cell.state_lower, cell.state_upper)]
        else:
            parts = list(cell.halves(state.problem))
        found = []
        for part in parts:
            child = self._bounded(state, Cell(*part, cell.bound, cell.parameters), deadline)
            if clock.now() > deadline and math.isinf(cell.bound) is False:
                return False
            if child is not None:
                found.append(child)
        if not parts:
            self._closed = max(self._closed, cell.bound)
        heapq.heappop(self._cells)
        for child in found:
            if state.reward is not None and child.bound <= state.reward + state.tolerance:
                self._closed = max(self._closed, child.bound)
            else:
                heapq.heappush(self._cells, child)
        return True

    def _bounded(self, state: ProofState, cell: Cell, deadline: float) -> Cell | None:
        """The cell with the best bound that its own boxes give, at most the one it comes with; None if it is empty."""
        try:
            boxes = self._boxes(state.problem, cell.within(state.boxes), deadline)
        except InfeasibleError:
            return None
        relaxation = PlanRelaxation(state.problem, self._networks, boxes)
        found = min(self._starts(relaxation, cell), key=lambda valuation: valuation.value)
        descent = Descent(state.problem, found, scales(state.problem, found), self._settings.descent)
        for _ in range(self._settings.iterations):
            if clock.now() > deadline:
                break
            descent.advance(relaxation, 0.0)
        sides = cell.action_lower, cell.action_upper, cell.state_lower, cell.state_upper
        return Cell(*sides, min(cell.bound, descent.best.value), descent.best.parameters)

    def _boxes(self, problem: Problem, bounds: BetterPlanBounds, deadline: float) -> PlanBoxes:
        for name in ("action", "state"):
            if (getattr(bounds, f"{name}_lower") > getattr(bounds, f"{name}_upper")).any():
                raise InfeasibleError("nothing is left of a cell")
        found = window_bounds(problem, bounds, deadline, WindowSettings(worthwhile=-1.0))
        boxes = PlanBoxes(problem, self._networks, found)
        refined_functions(problem, self._networks, boxes, deadline)
        return boxes

    @staticmethod
    def _starts(relaxation: PlanRelaxation, cell: Cell) -> list[Valuation]:
        """From the slopes of the cell that this one is a part of, and from those of CROWN."""
        shares = box_shares(relaxation.problem, relaxation.problem.horizon)
        ways = [first_parameters(relaxation, shares), first_parameters(relaxation, shares, 0.5)]
        ways += [] if cell.parameters is None else [cell.parameters]
        return [relaxation.value(parameters) for parameters in ways]

    def _offer(self, state: ProofState) -> float:
        bound = self._bound
        if math.isfinite(bound):
            state.offer(bound, 0.0, f"back-substitution over {len(self._cells)} cells of actions")
        return bound
