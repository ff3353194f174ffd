"""Settings of bound tightening."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LpTighteningSettings:
    """OBBT by LP.

    worthwhile: a side of a box that the LP moves by less than this share of its width is left as it was. units: whether
    units are asked about, which are many, beside states and actions.
    """

    worthwhile: float = 1e-3
    units: bool = True


@dataclass(frozen=True)
class PropagationSettings:
    """Propagation of goals and state bounds by LPs of single steps, backwards and forwards in turn.

    clearly: a box that becomes narrower by less than this share of its width moves no other. most_passes: over the
    horizon. most_fruitless: it ends after this many different steps one after the other without a gain.
    """

    clearly: float = 0.01
    most_passes: int = 6
    most_fruitless: int = 8
    lp: LpTighteningSettings = field(default_factory=LpTighteningSettings)


@dataclass(frozen=True)
class MilpTighteningSettings:
    """OBBT by MILP over the last step of windows.

    lengths: steps of the windows, one length after the other. loose: a side of a state is asked about if it lies this
    share of the box beyond everything seen. samples: rollouts of windows that show what can happen. seconds: that one
    question may take. precision: a bound is exact enough at this share of the known range. batch: questions for each
    process before it is seen whether they pay; pays: the share of them that must move a side, else the length is done.
    at_corners: the share of samples at corners of their boxes, where extremes are.
    """

    lengths: tuple[int, ...] = (1, 2, 4)
    loose: float = 0.1
    samples: int = 1_000
    seconds: float = 2.0
    precision: float = 0.01
    batch: int = 4
    pays: float = 0.25
    at_corners: float = 0.6
    propagation: PropagationSettings = field(default_factory=PropagationSettings)
