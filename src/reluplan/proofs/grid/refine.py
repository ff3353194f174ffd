"""Refinement: the pairs in use are halved, as far as memory and time allow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.proofs.grid.backward import BackwardSweep
from reluplan.proofs.grid.bellman import BellmanOperator
from reluplan.proofs.grid.cells import Grid
from reluplan.proofs.grid.coarse_slopes import CoarseSlopes
from reluplan.proofs.grid.forward import ForwardSweep
from reluplan.proofs.grid.freeze import step_gains, steps_above, steps_to_sweep
from reluplan.proofs.grid.node_values import NodeValues
from reluplan.proofs.grid.pairs import Pairs, concatenated
from reluplan.proofs.grid.reward_to_come import pair_bytes
from reluplan.proofs.grid.settings import GridSettings
from reluplan.proofs.grid.state import GridState, final_values
from reluplan.proofs.grid.task import GridTask
from reluplan.proofs.grid.timed_pool import OutOfTime

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Part = tuple[Pairs, Flags]
"""Pairs, with the actions along which they are to be halved."""


def refined(task: GridTask, state: GridState, backward: BackwardSweep, forward: ForwardSweep) -> GridState | None:
    """The next grid: what the sweeps left in use, halved; None if there is no room for it.

    Raises OutOfTime if there is no time for it.
    """
    if not forward.complete:
        raise OutOfTime
    task.pool.check()
    gains = step_gains(backward.values, state.coarser_values)
    end = steps_to_sweep(state.end, gains, task.settings.frozen_share)  # V after it is read from this grid from now on
    if not _can_go_through_nodes(task, backward.operator):
        return None
    parts = _parts_that_fit(backward.operator, forward.used.before(end), gains)
    if parts is None:
        return None
    task.pool.check()
    finer = concatenated([pairs.halved(split) for pairs, split in parts]).sorted()
    return GridState(
        pairs=finer.reachable(*task.reachable).in_use(),
        end=end,
        final=_final_values(task, finer.grid, end, backward),
        margin=state.margin + forward.margin if end < state.end else state.margin,
        reward_to_come=forward.reward_to_come,
        coarse_slopes=_coarse_slopes(task, state, backward),
        coarser_values=backward.values,
    )


def _final_values(task: GridTask, fine: Grid, end: int, backward: BackwardSweep) -> NodeValues:
    """V after the last step to sweep: that of this grid, or a final reward bounded on the finer one."""
    if end == task.bounds.horizon and task.problem.final_reward is not None:
        return final_values(task, fine)
    return backward.values[end].halved(fine)


def _can_go_through_nodes(task: GridTask, operator: BellmanOperator) -> bool:
    """Whether the next grid has not too many nodes. Raises OutOfTime if there is no time for them alone, which no
    deadline interrupts: each pass over them takes as long as that of the rewards, times the growth of their number."""
    if not operator.grid.can_halve or operator.grid.halved().node_count > task.settings.most_nodes:
        return False
    expected = task.settings.node_passes * 2**operator.grid.dimension * operator.node_seconds
    if clock.now() + expected > task.pool.deadline:
        raise OutOfTime
    return True


def _coarse_slopes(task: GridTask, state: GridState, backward: BackwardSweep) -> CoarseSlopes | None:
    """Of this grid, if it is coarse enough to keep R + V of every step; else those of the grid before."""
    grid = state.pairs.grid
    if grid.node_count >= task.settings.most_coarse_nodes:
        return state.coarse_slopes
    targets = [backward.operator.target(after) for after in backward.values[1:]]
    return CoarseSlopes(grid, targets, state.coarse_slopes)


def _parts_that_fit(operator: BellmanOperator, used: Pairs, gains: Array) -> list[Part] | None:
    """The pairs to halve, with their actions to halve; None if even without halving actions they take too much memory.

    Pairs of late steps, those that gained less than a share of what the first step gained, keep their action boxes; of
    the shares the first that fits.
    """
    settings = operator.settings
    split = _actions_to_split(operator)
    for share in (*settings.late_shares, np.inf):
        late = used.first >= _late_step(gains, share)
        parts = [(used.subset(~late), split), (used.subset(late), np.zeros_like(split))]
        if sum(_bytes(*part, settings) for part in parts) <= settings.most_bytes:
            return parts
    return None


def _late_step(gains: Array, share: float) -> int:
    """From this step on steps are late: from the first with an infinite share; none if no gains are known."""
    if np.isinf(share):
        return 0
    steps = steps_above(gains, share)
    return np.iinfo(np.int64).max if steps is None else steps


def _actions_to_split(operator: BellmanOperator) -> Flags:
    """Actions whose box moves the next state by more than a share of a cell."""
    pairs = operator.pairs
    if not len(pairs):
        return np.zeros(pairs.action_lower.shape[1], dtype=bool)
    moved = (pairs.action_upper - pairs.action_lower).mean(axis=0) * operator.bounds.action_gain
    cell = min(float(np.median(np.diff(line))) for line in pairs.grid.lines)
    split: Flags = moved > operator.settings.action_split_share * cell
    return split


def _bytes(pairs: Pairs, split: Flags, settings: GridSettings) -> float:
    """About the memory that the halved pairs would take."""
    growth = 2 ** (pairs.grid.dimension + int(split.sum()))
    return len(pairs) * float(growth) * pair_bytes(pairs.grid.dimension, len(split), settings)
