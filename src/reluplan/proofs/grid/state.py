"""What one grid hands on to the next, and the first grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.problem.piecewise import ROUNDOFF, PiecewiseLinear
from reluplan.problem.rollout import state_vectors
from reluplan.proofs.grid.cells import Grid
from reluplan.proofs.grid.coarse_slopes import CoarseSlopes
from reluplan.proofs.grid.node_values import NodeValues
from reluplan.proofs.grid.pairs import Pairs, all_pairs
from reluplan.proofs.grid.reward_to_come import RewardToCome, pair_bytes
from reluplan.proofs.grid.task import GridTask

Array = NDArray[np.float64]

FINAL_ROUNDINGS = 64
"""More than the number of roundings in the final reward at a node, each of at most an ulp of its terms."""

PAIR_OPERATIONS = 1e3
"""What a pair of the first grid costs before a deadline is looked at."""


@dataclass(frozen=True, eq=False)
class GridState:
    """Before a backward sweep.

    pairs: of the grid to sweep over, with the steps at which a better plan may use them.
    end: the number of steps to sweep through; those after it are frozen.
    final: V after these steps, on the grid of the pairs. margin: its rounding error.
    reward_to_come: F of the grid before; infinite at first.
    coarse_slopes, coarser_values: slopes and V_1, V_2, .. of the grid before; none at first.
    """

    pairs: Pairs
    end: int
    final: NodeValues
    margin: float
    reward_to_come: RewardToCome
    coarse_slopes: CoarseSlopes | None = None
    coarser_values: tuple[NodeValues, ...] = ()


def first_state(task: GridTask) -> GridState | None:
    """Every cell of a coarse grid over all reachable states, at every step, with parts of the box of all actions; None
    if there is no room or no time for it."""
    bounds, settings = task.bounds, task.settings
    lower, upper = bounds.state_lower.min(axis=0), bounds.state_upper.max(axis=0)
    count = settings.first_cells[len(lower) - 1]
    parts = settings.first_action_parts[len(lower) - 1]
    grid = Grid.even(lower, upper, [count] * len(lower), task.model.breakpoints)
    if not _fits(task, grid, parts):
        return None
    actions = bounds.action_lower.min(axis=0), bounds.action_upper.max(axis=0)
    return GridState(
        pairs=all_pairs(grid, *actions, parts, bounds.horizon),
        end=bounds.horizon,
        final=final_values(task, grid),
        margin=0.0,
        reward_to_come=RewardToCome.unknown(grid.dimension, bounds.horizon, task.problem.discount),
    )


def _fits(task: GridTask, grid: Grid, parts: int) -> bool:
    """Whether a first grid has not too many nodes and pairs, and time for making them, which no deadline interrupts."""
    settings, actions = task.settings, task.bounds.action_lower.shape[1]
    pairs = float(np.prod([count - 1.0 for count in grid.shape])) * float(parts) ** actions
    takes = pairs * pair_bytes(grid.dimension, actions, settings)
    if grid.node_count > settings.most_nodes or takes > settings.most_bytes or not grid.can_halve:
        return False
    return clock.now() + clock.expected(PAIR_OPERATIONS * pairs) <= task.pool.deadline


def final_values(task: GridTask, grid: Grid) -> NodeValues:
    """V_{H+1} >= F (zero if there is none) on the cells that meet the last reachable box and may satisfy the goal.

    A cell is left out only if it violates the goal by more than any accepted plan may. Nodes carry a part of F
    (`FinalReward`), so that interpolating it is at least what it is inside a cell; at the corners of a cell the largest
    value that the rest may have in it is added.
    """
    bounds = task.bounds
    cells = grid.cells
    lower, upper = grid.boxes(cells)
    meets = ((lower <= bounds.state_upper[-1]) & (upper >= bounds.state_lower[-1])).all(axis=1)
    low, high = _state_boxes(task, lower, upper)
    for constraint, allowed in zip(task.problem.goal, task.problem.tolerances.goal, strict=True):
        least, most = constraint.function.bounds(low, high)
        meets &= (least <= allowed) & ((most >= -allowed) if constraint.equality else True)
    final = task.model.final_reward
    if final is None:
        nodes = np.unique(grid.corner_nodes(cells[meets]))
        return NodeValues(grid, nodes, np.zeros(len(nodes)))
    carried = _largest(task, final.on_nodes, grid.nodes, grid.nodes)[grid.corner_nodes(cells[meets])]
    rest = _largest(task, final.rest, lower[meets], upper[meets])
    corners = carried.T + rest
    corners += FINAL_ROUNDINGS * ROUNDOFF * (np.abs(carried.T) + np.abs(rest))
    return NodeValues.corner_maxima(grid, cells[meets], np.where(np.isnan(corners), np.inf, corners))


def _largest(task: GridTask, function: PiecewiseLinear, lower: Array, upper: Array) -> Array:
    """The largest value of a function of one state in boxes (B, n), rounded up, (B,)."""
    return function.bounds(*_state_boxes(task, lower, upper))[1]


def _state_boxes(task: GridTask, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Boxes of states (B, n) where functions of one state read them, (B, width) each; the grid knows no auxiliaries."""
    none = np.zeros((len(lower), 0))
    return state_vectors(task.problem, lower, none), state_vectors(task.problem, upper, none)
