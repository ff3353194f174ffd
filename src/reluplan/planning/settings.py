"""Settings of all stages, recorded with every result."""

from __future__ import annotations

from dataclasses import dataclass, field

from reluplan.encoding.settings import CutSettings
from reluplan.proofs.crown.settings import CrownSettings, SplittingSettings
from reluplan.proofs.grid.settings import GridSettings
from reluplan.proofs.lagrangian.settings import LagrangianSettings, PrefixSettings, RelaxationSettings
from reluplan.search.settings import SearchSettings
from reluplan.tightening.settings import MilpTighteningSettings, PropagationSettings


@dataclass(frozen=True)
class MilpSettings:
    """The MILP over the whole horizon.

    cuts: ideal cuts of units are separated in models with at most `few_integers` integers, within `cuts_share` of the
    time that is left. repair_seconds: a solution that breaks constraints when it is rolled out is repaired for at least
    this long, even if the time is up. worth_a_restart: a MILP beside other stages is solved anew once smaller boxes
    are less loose by this share (`Work.looseness`), or cuts leave less than this share of its gap.
    """

    few_integers: int = 1_000
    cuts_share: float = 0.1
    repair_seconds: float = 0.5
    worth_a_restart: float = 0.7
    cuts: CutSettings = field(default_factory=CutSettings)


@dataclass(frozen=True)
class PortfolioSettings:
    """How stages that take turns share the time.

    first_share: of the time limit, for the first turn of each; at least shortest_turn seconds, at most
    longest_first_turn. slow_start: how much longer that of a stage is which starts slowly; it goes on
    for slow_share of the limit (of slow_limit seconds if there is none) while the gap is at least `near` times its own.
    growth: of a turn that used up its time. longest_share: of the time that is left, for one turn; while a MILP runs
    beside it no more than longest_unwatched seconds. first_weight: of a stage before its first turn.
    exploration: the weight of all stages that gain nothing together, when the best has weight one; more of it is for
    those that were in vain for less: their hope is halved each time that they have spent vain_share of the time limit
    in vain, or vain_seconds if there is no limit. little: even the best has less than weight one if it gains less than
    this in so long a time.
    memory: how much each turn counts when the next one is over. search_weight: of the search, times its hope, which is
    never below search_hope: nothing foretells when it finds a better plan.
    goes_on: who gains so much in a turn has the next one too.
    promise: what smaller boxes, and bounds that follow behind, count compared with a smaller gap.
    """

    first_share: float = 0.02
    shortest_turn: float = 0.3
    longest_first_turn: float = 2.0
    slow_start: float = 5.0
    slow_share: float = 0.4
    slow_limit: float = 60.0
    near: float = 0.5
    growth: float = 2.0
    longest_share: float = 0.5
    longest_unwatched: float = 6.0
    first_weight: float = 1.0
    exploration: float = 0.3
    little: float = 0.02
    vain_share: float = 0.1
    vain_seconds: float = 30.0
    memory: float = 0.7
    search_weight: float = 1.0
    search_hope: float = 0.1
    promise: float = 0.3
    goes_on: float = 0.15


@dataclass(frozen=True)
class PlanSettings:
    """few_unstable: a model with no more unstable units is solved sooner than its bounds are tightened by MILPs.
    few_boxes: with at most so many different boxes each step has potentials of its own, by far the tightest; else all
    share one.
    """

    few_unstable: int = 30
    few_boxes: int = 10
    propagation: PropagationSettings = field(default_factory=PropagationSettings)
    tightening: MilpTighteningSettings = field(default_factory=MilpTighteningSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    grid: GridSettings = field(default_factory=GridSettings)
    lagrangian: LagrangianSettings = field(default_factory=LagrangianSettings)
    relaxation: RelaxationSettings = field(default_factory=RelaxationSettings)
    prefix: PrefixSettings = field(default_factory=PrefixSettings)
    crown: CrownSettings = field(default_factory=CrownSettings)
    crown_cells: SplittingSettings = field(default_factory=SplittingSettings)
    milp: MilpSettings = field(default_factory=MilpSettings)
    portfolio: PortfolioSettings = field(default_factory=PortfolioSettings)
