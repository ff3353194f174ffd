"""What can be set of the proof by back-substitution."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CrownSettings:
    """How slopes and multipliers are optimised: Adam (Kingma and Ba, 2015), projected, in cycles whose rate falls. Any
    choice gives a bound.

    tightening_share: of a turn, for smaller boxes before anything else.
    box_share: β of the first iterate. Better first bounds, by windows of k steps with β = 1 at their ends, are worse
    places to begin: derivatives at the sides of [0, 1] lead nowhere.
    rate: at the beginning of a cycle, relative to the range of a parameter: slopes and shares move by about this much
    per iteration. fall: the rate at a cycle's end, as a share of the first.
    decay, memory: Adam's rates of forgetting the mean derivative and its mean square.
    cycle: iterations. warm_up: iterations for the functions' slopes alone, which need no pass through the network.
    worthwhile: a cycle that gains less than this share of |bound − incumbent|, or of |bound| before there is a plan,
    makes the next ones begin with a third of the rate. smallest_rate: below it the proof is stuck, until it gets
    smaller boxes.
    most_bytes: of memory, about; longer plans of larger networks are left to other proofs.
    """

    tightening_share: float = 0.3
    box_share: float = 0.2
    rate: float = 0.1
    fall: float = 0.03
    decay: float = 0.9
    memory: float = 0.99
    cycle: int = 100
    warm_up: int = 60
    worthwhile: float = 1e-3
    smallest_rate: float = 5e-3
    most_bytes: float = 2e9


@dataclass(frozen=True)
class SplittingSettings:
    """How cells of actions are split and bounded.

    most_cells: that are kept. iterations: of the descent in each cell. patience: splits that may move the bound by less
    than `worthwhile` of it in all before a turn ends.
    """

    most_cells: int = 20_000
    iterations: int = 10
    patience: int = 200
    worthwhile: float = 1e-3
    descent: CrownSettings = CrownSettings(cycle=10)
