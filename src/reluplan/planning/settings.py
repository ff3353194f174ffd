"""Settings of all stages, recorded with every result."""

from __future__ import annotations

from dataclasses import dataclass, field

from reluplan.encoding.settings import CutSettings
from reluplan.proofs.grid.settings import GridSettings
from reluplan.proofs.lagrangian.settings import LagrangianSettings
from reluplan.search.settings import SearchSettings
from reluplan.tightening.settings import MilpTighteningSettings, PropagationSettings


@dataclass(frozen=True)
class MilpSettings:
    """The MILP over the whole horizon.

    cuts: ideal cuts of units are separated in models with at most `few_integers` integers, within `cuts_share` of the
    time that is left. repair_seconds: a solution that breaks constraints when it is rolled out is repaired for at least
    this long, even if the time is up.
    """

    few_integers: int = 1_000
    cuts_share: float = 0.1
    repair_seconds: float = 0.5
    cuts: CutSettings = field(default_factory=CutSettings)


@dataclass(frozen=True)
class PlanSettings:
    """small_model: a model with at most this many unstable units goes to the solver after a short search. few_unstable:
    one with no more is solved sooner than its bounds are tightened by MILPs. few_boxes: with at most so many different
    boxes each step has potentials of its own, by far the tightest; else all share one.
    """

    small_model: int = 400
    few_unstable: int = 30
    few_boxes: int = 10
    propagation: PropagationSettings = field(default_factory=PropagationSettings)
    tightening: MilpTighteningSettings = field(default_factory=MilpTighteningSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    grid: GridSettings = field(default_factory=GridSettings)
    lagrangian: LagrangianSettings = field(default_factory=LagrangianSettings)
    milp: MilpSettings = field(default_factory=MilpSettings)
