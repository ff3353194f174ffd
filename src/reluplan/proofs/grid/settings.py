"""What can be set of the value-function upper bound on a grid."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GridSettings:
    """Sizes of the grids, what ends their refinement, and how the sweeps choose.

    Whatever is chosen, the bound is one: settings decide how good it is and what it costs.

    Which problems, and the first grid:

    most_states: problems with more states are left to other proofs.
    first_cells: cells along each state of the first grid, for one state, for two, and so on.
    first_action_parts: equal parts of every action's range that pairs of the first grid have, likewise.

    The end of refinement:

    most_nodes: grids with more nodes are not begun.
    most_bytes: of memory, about, for the pairs of a grid and what is computed for them; pairs that would take more are
    not made.
    node_passes: how often a round goes through all nodes of a grid, which no deadline interrupts; a grid is not begun
    without the time for it.
    slack: relative to the incumbent; plans this little better are not looked for. Pairs are dropped only while the
    rounding error of the values is below it.

    What is refined:

    frozen_share: the last steps whose values gained less than this share of what the first step's gained are not swept
    again. With 0.03 sweeps are quicker, but the steps' errors stay: Navigation-8 -481.04 in place of -481.94,
    Navigation-10 -699.21 in place of -700.13.
    late_shares: pairs of the late steps, whose values gained less than this share, keep their action boxes: they are
    many, and matter little. The first share is taken with which the finer pairs fit into the memory; if none does, all
    pairs keep their action boxes.
    action_split_share: an action box is halved if it moves the next state by more than this share of a cell.

    Slopes:

    slope_shares: slopes of the planes that bound the reward-to-come, in parts of a typical slope of V.
    slope_samples: a typical slope of V is taken from about so many of the steps.
    overshoots: times the mean range of a step's reward; how far a pair may exceed its constant majorant, which it takes
    otherwise. The second is for grids on which the first proves no more than coarser
    grids or the largest rewards do.
    own_slope_share: where nodes around an image are absent, its majorant has the mean slope of the cells with all their
    corners if these are at least this share of the cells, and a coarser grid's slope otherwise.
    most_coarse_nodes: grids with more nodes keep no slopes for finer ones.

    Work at once:

    chunk_pairs: pairs that are bounded at once, enough to keep numpy busy, few enough for the cache.
    chunk_numbers, chunk_operations: the numbers and the floating-point operations that one chunk may take at most; the
    second limits the work after a deadline.

    Afterwards:

    unit_bounds_share: of the time that the grid had, and of what is left after it, for LP bounds of the units in the
    tightened boxes.
    """

    most_states: int = 3
    first_cells: tuple[int, ...] = (128, 40, 10)
    first_action_parts: tuple[int, ...] = (2, 2, 1)
    most_nodes: int = 3_000_000
    most_bytes: float = 2.4e9
    node_passes: int = 10
    slack: float = 1e-7
    frozen_share: float = 0.003
    late_shares: tuple[float, ...] = (0.03, 0.1, 0.3)
    action_split_share: float = 0.75
    slope_shares: tuple[float, ...] = (0.15, 0.5, 1.0)
    slope_samples: int = 8
    overshoots: tuple[float, float] = (10.0, 0.25)
    own_slope_share: float = 0.3
    most_coarse_nodes: int = 120_000
    chunk_pairs: int = 8192
    chunk_numbers: float = 3e7
    chunk_operations: float = 2e8
    unit_bounds_share: float = 0.2

    def __post_init__(self) -> None:
        for name in ("first_cells", "first_action_parts"):
            count = len(getattr(self, name))
            if self.most_states > count:
                raise ValueError(f"{name} has {count} numbers, for up to {self.most_states} states")


DEFAULT = GridSettings()
