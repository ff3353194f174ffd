"""A value-function upper bound on the total reward of every plan, on ever finer grids of the state space.

For any functions V_t with V_t(s) >= R(s, a, s') + γ V_{t+1}(s') for every feasible step, and V_{H+1} >= F (the final
reward, zero if there is none), every plan is worth at most V_1(s_1): the inequalities of its steps, times γ^(t−1), add
up to that. With an incumbent of reward L they are needed
only for the steps of plans that beat it. Such a plan takes no step from s at time t with F_t(s) + R + V_{t+1}(s') < L,
where F_t bounds the reward collected so far: where this is known V need not cover the step. What V_1(s_1) then proves
is that every plan is worth at most max(L, V_1(s_1)).

    1  Start with the pairs (cell, action box) of a coarse grid, all in use at every step;
       V_{H+1} = F on the cells that may satisfy the goal, F = infinity                              state.first_state
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

import numpy as np

from reluplan import clock
from reluplan.bounds.boxes import BetterPlanBounds
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import state_vectors, step_vectors
from reluplan.proofs.grid.backward import BackwardSweep, backward_sweep
from reluplan.proofs.grid.bellman import BellmanOperator
from reluplan.proofs.grid.forward import ForwardSweep, forward_sweep, tightened
from reluplan.proofs.grid.model import grid_model
from reluplan.proofs.grid.pair_bounds import bound_pairs
from reluplan.proofs.grid.refine import refined
from reluplan.proofs.grid.reward_to_come import choose_slopes
from reluplan.proofs.grid.settings import DEFAULT, GridSettings
from reluplan.proofs.grid.state import GridState, first_state
from reluplan.proofs.grid.task import GridTask
from reluplan.proofs.grid.timed_pool import OutOfTime, TimedPool

LARGEST_VALUE = 1e90
"""Of a value function: those of nodes that are absent lie far below the smallest."""


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
    """Offers ever better bounds (value, rounding margin) on the reward of all plans, on ever finer grids, until the
    deadline (of clock.now), or until nothing better than the incumbent is left.

    bounds: boxes that contain every feasible plan. Constraints and the goal are used where they rule out whole boxes.
    Returns boxes that contain every plan better than the incumbent, tighter in its states and actions.
    """
    ends = [bounds.state_lower, bounds.state_upper, bounds.action_lower, bounds.action_upper]
    if not grid_applies(problem, settings) or not all(np.isfinite(end).all() for end in ends):
        return bounds
    if not _largest_value(problem, bounds) <= LARGEST_VALUE:
        tell("rewards are too large for the grid")
        return bounds
    boxes = bounds
    with ThreadPoolExecutor(max(1, workers)) as threads:
        pool = TimedPool(deadline, threads if workers > 1 else None)
        task = GridTask(problem, grid_model(problem), bounds, incumbent, pool, settings)
        state = first_state(task)  # 1
        if state is None:
            tell("the first grid would take too much time or memory")
        try:
            while state is not None:
                operator = _bellman_operator(task, state)  # 2
                backward = _backward_sweep(task, state, operator)  # 3
                if not _offer_bound(task, state, backward, offer, tell):  # 4
                    break
                forward = _forward_sweep(task, state, backward)  # 5
                boxes = tightened(boxes, forward.boxes)  # 6
                state = refined(task, state, backward, forward)  # 7, 8
        except OutOfTime:
            tell("the time for the grid is over")
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
    return BellmanOperator(bounds, rewards, seconds, reachable, state.coarse_slopes, task.pool, task.settings, discount)


def _backward_sweep(task: GridTask, state: GridState, operator: BellmanOperator) -> BackwardSweep:
    """V, and the pairs left in use."""
    return backward_sweep(operator, state.reward_to_come, task.thresholds, state.final, state.end)


def _offer_bound(
    task: GridTask,
    state: GridState,
    backward: BackwardSweep,
    offer: Callable[[float, float], None],
    tell: Callable[[str], None],
) -> bool:
    """Offer what the backward sweep has proven; whether to go on.

    Not if nothing better than the incumbent is left, nor if rounding could decide which pairs are dropped. Raises
    OutOfTime if the time is over.
    """
    value = backward.bound(*task.start)
    margin = state.margin + backward.margin
    tell(_described(state, value))
    if value < np.inf and (task.incumbent is not None or value > -np.inf):
        offer(value if task.incumbent is None else max(value, task.incumbent), margin)
    if value <= task.threshold:
        return False
    if not backward.complete:
        raise OutOfTime
    task.pool.check()
    return not task.can_drop or margin <= task.slack


def _forward_sweep(task: GridTask, state: GridState, backward: BackwardSweep) -> ForwardSweep:
    """F and the pairs left in use; without an incumbent no pair can be dropped, and nothing is swept."""
    used = backward.used.reachable(*task.reachable)
    if not task.can_drop:
        return ForwardSweep(state.reward_to_come, used, backward.margin)
    slopes = choose_slopes(state.pairs, backward.values, task.settings)
    return forward_sweep(backward, used, slopes, task.thresholds, task.start)


def _described(state: GridState, value: float) -> str:
    """What the backward sweep did, for progress reports."""
    cells = " x ".join(str(count - 1) for count in state.pairs.grid.shape)
    return f"grid of {cells} cells, {len(state.pairs)} pairs, {state.end} steps: at most {value:.7g}"
