"""A value-function upper bound on the total reward of every plan, on ever finer grids of the state space.

For any functions V_t with V_t(s) >= R(s, a, s') + γ V_{t+1}(s') for every feasible step, and V_{H+1} >= the final
reward (zero if there is none), every plan is worth at most V_1(s_1): the inequalities of its steps, times γ^(t−1), add
up to that. With an incumbent of reward L they are needed
only for the steps of plans that beat it. Such a plan takes no step from s at time t with F_t(s) + R + V_{t+1}(s') < L,
where F_t bounds the reward collected so far: where this is known V need not cover the step. What V_1(s_1) then proves
is that every plan is worth at most max(L, V_1(s_1)).

    1  Start with the pairs (cell, action box) of a coarse grid, all in use at every step;
       V_{H+1} = final reward on the cells that may satisfy the goal; F = infinity                   state.first_state
       Repeat
    2      bound the step over every pair by affine functions; drop pairs without feasible steps     pair_bounds
    3      sweep backward: from V_{t+1} to V_t, and drop pairs with F_t + R + γ V_{t+1} < L          backward
    4      offer max(L, V_1(s_1)); end if that is L
    5      sweep forward: from F_t to F_{t+1}, and drop pairs with F_t + R + γ V_{t+1} < L           forward
    6      hand on the boxes around the pairs that are left at each step: better plans are there     forward.tightened
    7      freeze the last steps, if the finer grid has hardly lowered their V                       freeze
    8      halve the cells, and the action boxes that are large; end if that takes too much          refine

Each round makes a new `GridState` out of the one before; nothing else is kept between rounds but the boxes of 6.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from reluplan import clock
from reluplan.bounds.boxes import BetterPlanBounds
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import state_vectors, step_vectors
from reluplan.proofs.grid.backward import BackwardSweep, backward_sweep, first_step
from reluplan.proofs.grid.bellman import BellmanOperator
from reluplan.proofs.grid.cells import LARGEST_VALUE
from reluplan.proofs.grid.forward import ForwardPass, ForwardSweep, tightened
from reluplan.proofs.grid.model import grid_model
from reluplan.proofs.grid.pair_bounds import bound_pairs
from reluplan.proofs.grid.refine import refined
from reluplan.proofs.grid.reward_to_come import choose_slopes
from reluplan.proofs.grid.settings import DEFAULT, GridSettings
from reluplan.proofs.grid.state import GridState, first_state
from reluplan.proofs.grid.task import GridTask
from reluplan.proofs.grid.timed_pool import OutOfTime, TimedPool


def grid_applies(problem: Problem, settings: GridSettings = DEFAULT) -> bool:
    """Whether the grid can bound this problem: few states, all continuous, and no auxiliaries."""
    few = 1 <= len(problem.states) <= settings.most_states
    return few and not problem.auxiliaries and not problem.discrete_states.any()


def grid_bound(
    problem: Problem,
    bounds: BetterPlanBounds,
    incumbent: float | None,
    deadline: float,
    offer: Callable[[float, float], None],
    tell: Callable[[str], None],
    workers: int = 1,
    settings: GridSettings = DEFAULT,
) -> BetterPlanBounds:
    """`GridRefinement.go_on`, once."""
    return GridRefinement(problem, settings).go_on(bounds, incumbent, deadline, offer, tell, workers)


class GridRefinement:
    """The rounds for one problem, which go on where they stopped: in the middle of a sweep, or before a refinement.

    next_seconds: about how long the next piece of work takes that would be lost if interrupted; infinite if there is
    nothing left to do.
    """

    def __init__(self, problem: Problem, settings: GridSettings = DEFAULT) -> None:
        self.next_seconds = 0.0
        self.problem = problem
        self._settings = settings
        self._pool = TimedPool(-np.inf)
        self._state: GridState | None = None
        self._backward: BackwardSweep | None = None
        self._steep: BackwardSweep | None = None
        self._forward: ForwardPass | None = None
        self._best = np.inf  # with its rounding error
        self._seconds_per_pair = 0.0
        self._seconds_per_step = 0.0

    def go_on(
        self,
        bounds: BetterPlanBounds,
        incumbent: float | None,
        deadline: float,
        offer: Callable[[float, float], None],
        tell: Callable[[str], None],
        workers: int = 1,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> BetterPlanBounds:
        """Offers ever better bounds (value, rounding margin) on the reward of all plans, on ever finer grids, until the
        deadline (of clock.now), until nothing better than the incumbent is left, or until what was offered is enough.

        bounds: boxes that contain every feasible plan, or every one better than the incumbent; from call to call these
        only become smaller, and the incumbent better: what was found before holds for what is left. Constraints and the
        goal are used where they rule out whole boxes. Returns boxes that contain every plan better than the incumbent,
        tighter in its states and actions.
        """
        if not self._can_begin(bounds, tell):
            return bounds
        boxes = bounds
        began = clock.now()
        before = self._progress
        with ThreadPoolExecutor(max(1, workers)) as threads:
            self._pool.deadline = deadline
            self._pool.threads = threads if workers > 1 else None
            task = GridTask(self.problem, grid_model(self.problem), bounds, incumbent, self._pool, self._settings)
            try:
                self._begin(task, tell)
                while self._state is not None:
                    backward = self._swept_backward(task, self._state)  # 2, 3
                    if not _offer_bound(task, self._state, backward, self._best, offer, tell):  # 4
                        return self._ended(boxes)
                    if is_enough():
                        return boxes
                    forward = self._swept_forward(task, self._state, backward)  # 5
                    boxes = tightened(boxes, forward.boxes)  # 6
                    self._refine(task, self._state, backward, forward)  # 7, 8
            except OutOfTime:
                tell("the time for the grid is over")
                if self._progress == before:  # all was lost: it takes longer than expected
                    self.next_seconds = max(self.next_seconds, 2.0 * (deadline - began))
        return boxes

    @property
    def _progress(self) -> tuple[object, ...]:
        """Changes with everything that an interruption leaves."""
        begin = None if self._backward is None else self._backward.begin
        end = None if self._forward is None else self._forward.end
        return self._state, self._steep, begin, end

    def _can_begin(self, bounds: BetterPlanBounds, tell: Callable[[str], None]) -> bool:
        ends = [bounds.state_lower, bounds.state_upper, bounds.action_lower, bounds.action_upper]
        finite = all(np.isfinite(end).all() for end in ends)
        if not grid_applies(self.problem, self._settings) or not finite or not np.isfinite(self.next_seconds):
            return False
        if not _largest_value(self.problem, bounds) <= LARGEST_VALUE:
            tell("rewards are too large for the grid")
            self.next_seconds = np.inf
        return bool(np.isfinite(self.next_seconds))

    def _begin(self, task: GridTask, tell: Callable[[str], None]) -> None:
        """The first grid, if there is none yet."""
        if self._state is None:
            self._state = first_state(task)  # 1
            if self._state is None:
                tell("the first grid would take too much time or memory")

    def _swept_backward(self, task: GridTask, state: GridState) -> BackwardSweep:
        """V: a sweep that was begun goes on, a new one needs the step over every pair first. If it proves nothing there
        is another, with the second limit of overshoot, and the better of the two counts."""
        backward = self._backward or self._begun(task, state)
        self._backward = self._continued(task, backward)
        if self._steep is None and self._backward.complete and self._proves_nothing(task, self._backward):
            self._steep = self._backward
            limited = replace(backward.operator, overshoot=task.overshoots[1])
            self._backward = self._continued(task, first_step(limited, state.reward_to_come, state.final, state.end))
        if not self._backward.complete:
            return self._backward
        sweeps = [self._backward] if self._steep is None else [self._backward, self._steep]
        self._backward = min(sweeps, key=lambda sweep: sweep.bound(*task.start))
        self._best = min(self._best, self._backward.bound(*task.start) + state.margin + self._backward.margin)
        return self._backward

    def _begun(self, task: GridTask, state: GridState) -> BackwardSweep:
        self._ask_for(task, self._seconds_per_pair * len(state.pairs))
        began = clock.now()
        operator = _bellman_operator(task, state)
        self._seconds_per_pair = (clock.now() - began) / max(1, len(state.pairs))
        return first_step(operator, state.reward_to_come, state.final, state.end)

    def _continued(self, task: GridTask, begun: BackwardSweep) -> BackwardSweep:
        began = clock.now()
        sweep = backward_sweep(begun, task.thresholds, task.floors)
        if begun.begin > sweep.begin:
            self._seconds_per_step = (clock.now() - began) / (begun.begin - sweep.begin)
        self.next_seconds = self._seconds_per_step
        return sweep

    def _proves_nothing(self, task: GridTask, backward: BackwardSweep) -> bool:
        """Whether a sweep with the first limit of overshoot was no better than coarser grids or the largest rewards."""
        steep = backward.operator.overshoot > task.overshoots[1]
        return steep and backward.bound(*task.start) >= min(self._best, task.trivial_bound)

    def _swept_forward(self, task: GridTask, state: GridState, backward: BackwardSweep) -> ForwardSweep:
        """F, and the pairs left in use; without an incumbent no pair can be dropped, and nothing is swept."""
        if not task.can_drop:
            return ForwardSweep(state.reward_to_come, backward.used.reachable(*task.reachable), backward.margin)
        self._ask_for(task, self._seconds_per_step)
        if self._forward is None:
            used = backward.used.reachable(*task.reachable)
            self._forward = ForwardPass(
                backward, used, choose_slopes(state.pairs, backward.values, task.settings), task.start
            )
        return self._forward.go_on(task.thresholds)

    def _refine(self, task: GridTask, state: GridState, backward: BackwardSweep, forward: ForwardSweep) -> None:
        self._state = refined(task, state, backward, forward)
        self._backward = None
        self._steep = None
        self._forward = None
        if self._state is None:
            self.next_seconds = np.inf

    def _ask_for(self, task: GridTask, seconds: float) -> None:
        """Raises OutOfTime if there is less time than work needs that is lost if interrupted."""
        self.next_seconds = seconds
        if clock.now() + seconds > task.pool.deadline:
            raise OutOfTime

    def _ended(self, boxes: BetterPlanBounds) -> BetterPlanBounds:
        """Nothing is left to do."""
        self.next_seconds = np.inf
        return boxes


def _largest_value(problem: Problem, bounds: BetterPlanBounds) -> float:
    """No value function exceeds it in absolute value, before discounting, wherever in the hull of all boxes."""
    lower = bounds.state_lower.min(axis=0), bounds.action_lower.min(axis=0), bounds.auxiliary_lower.min(axis=0)
    upper = bounds.state_upper.max(axis=0), bounds.action_upper.max(axis=0), bounds.auxiliary_upper.max(axis=0)
    low, high = (step_vectors(np.stack([s, s]), a[None], np.stack([x, x])) for s, a, x in (lower, upper))
    largest = problem.horizon * float(np.abs(problem.reward.bounds(low, high)).max())
    if problem.final_reward is not None:
        low, high = (state_vectors(problem, s[None], x[None]) for s, _, x in (lower, upper))
        largest += float(np.abs(problem.final_reward.bounds(low, high)).max())
    return largest


def _bellman_operator(task: GridTask, state: GridState) -> BellmanOperator:
    """The step over the pairs, without those that have no feasible step."""
    bounds = bound_pairs(task.model, state.pairs, task.pool, task.settings)
    began = clock.now()
    rewards = task.model.rewards_at(state.pairs.grid.nodes)
    seconds = clock.now() - began
    reachable = task.bounds.state_lower, task.bounds.state_upper
    if state.coarse_slopes is None:  # no slopes to go by beyond the reachable boxes: go everywhere
        first, last = state.pairs.grid.ends
        reachable = np.tile(first, (state.end + 1, 1)), np.tile(last, (state.end + 1, 1))
    discount = task.problem.discount
    overshoot = task.overshoots[0]
    return BellmanOperator(
        bounds, rewards, seconds, reachable, state.coarse_slopes, task.pool, task.settings, discount, overshoot
    )


def _offer_bound(
    task: GridTask,
    state: GridState,
    backward: BackwardSweep,
    best: float,
    offer: Callable[[float, float], None],
    tell: Callable[[str], None],
) -> bool:
    """Offer what the backward sweep has proven, or a coarser grid if that was better: a finer grid bounds the step more
    tightly, but its planes are others, so V may be higher here and there. Whether to go on.

    Not if nothing better than the incumbent is left, nor if rounding could decide which pairs are dropped. Raises
    OutOfTime if the time is over.
    """
    value = backward.bound(*task.start)
    margin = state.margin + backward.margin
    tell(_described(state, value) if backward.complete else f"the sweep has come to step {backward.begin + 1}")
    if value < np.inf and (task.incumbent is not None or value > -np.inf):
        proven, error = (value, margin) if value + margin <= best else (best, 0.0)
        offer(proven if task.incumbent is None else max(proven, task.incumbent), error)
    if value <= task.threshold:
        return False
    if not backward.complete:
        raise OutOfTime
    task.pool.check()
    return not task.can_drop or margin <= task.slack


def _described(state: GridState, value: float) -> str:
    """What the backward sweep did, for progress reports."""
    cells = " x ".join(str(count - 1) for count in state.pairs.grid.shape)
    return f"grid of {cells} cells, {len(state.pairs)} pairs, {state.end} steps: at most {value:.7g}"
