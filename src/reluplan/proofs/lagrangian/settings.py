"""Settings of the proof by Lagrangian decomposition."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class WindowBudget:
    """Unstable units that a window may have: in the steady state, and where the plan moves; half as many more at the
    start, which is known. few: all steps up to the steady state are one window if they have no more than so many.
    """

    steady: int = 32
    moving: int = 32
    few: int = 128


@dataclass(frozen=True)
class PartitionSettings:
    """Where the horizon is cut.

    first_budget: of the windows at the beginning; it grows while that pays. steady_share: a plan is in its steady state
    while its states stay within this share of their range along the plan. shortest_steady: steps; a shorter stretch is
    cut like the rest. longest: steps of a window, however few its units. most_doublings: of a budget, until a larger
    one changes anything.
    """

    first_budget: WindowBudget = field(default_factory=WindowBudget)
    steady_share: float = 1e-2
    shortest_steady: int = 6
    longest: int = 25
    most_doublings: int = 5

    def __post_init__(self) -> None:
        if self.shortest_steady < 4:
            raise ValueError(
                "a steady state of fewer than 4 steps has no window between those that begin and end in it"
            )


@dataclass(frozen=True)
class BundleSettings:
    """The bundle method that lowers the dual function.

    level: a proposal is where the cuts promise all but this share of the way to their smallest total. samples:
    simulated windows of each subproblem, for cuts without a MILP; noise: around known windows, as shares of
    the boxes; separations: rounds of such cuts before the MILPs are asked.
    samples_share: of the time that is left, for simulating windows whenever the horizon is cut. longest_share: no MILP
    gets more than this share of the time for all of them. proposals: of multipliers, each closer to the best ones,
    before windows grow instead. first_radius, after_growth, after_setback, smallest_radius: of the trust region,
    relative to the size of the multipliers.
    """

    level: float = 0.3
    samples: int = 2_000
    noise: tuple[float, ...] = (1.0, 0.1, 0.01)
    separations: int = 15
    samples_share: float = 0.1
    longest_share: float = 0.6
    proposals: int = 2
    first_radius: float = 0.5
    after_growth: float = 0.25
    after_setback: float = 0.3
    smallest_radius: float = 0.01


@dataclass(frozen=True)
class PopulationSettings:
    """Windows that are searched for by sampling.

    size: how many of each subproblem are kept. generations: of changes of them for each λ; noisy: the share of changes
    by noise, whose size is a share of the boxes between the two of `noise`; fresh: the share of the windows that begins
    anew with each λ; cuts: how many of each subproblem are taken for each λ.
    """

    size: int = 64
    generations: int = 50
    noisy: float = 0.3
    noise: tuple[float, float] = (1e-4, 0.5)
    fresh: float = 0.25
    cuts: int = 3


@dataclass(frozen=True)
class SampledDualSettings:
    """The search for multipliers by the sampled dual function.

    share: of the time that is left. worthwhile: a search that gained this share of the gap is followed by another one
    in the same windows and boxes. first_radius, next_radius: of the trust region, relative to the multipliers, before
    the first MILP and later; smallest_radius: relative to these; growth, shrinkage: of it after a λ that gained this
    share, `enough`, of what the cuts promised, or did not. look_ahead: steps of a plan that follows the multipliers.
    """

    share: float = 0.15
    worthwhile: float = 0.5
    first_radius: float = 0.5
    next_radius: float = 0.1
    smallest_radius: float = 0.01
    enough: float = 0.1
    growth: float = 1.3
    shrinkage: float = 0.7
    look_ahead: int = 3
    population: PopulationSettings = field(default_factory=PopulationSettings)


@dataclass(frozen=True)
class SteadyStateSettings:
    """The search for the multipliers of the repeated window of a steady state.

    share: of the time that is left. much: it begins if this share of the gap is lost there. first_radius,
    smallest_radius: of its trust region. shorter: two proposals at a time, one in the whole trust region, one in this
    share of it. longest_round: no round of MILPs gets more than this share of its time. enough: it ends when this share
    of the loss is left: smaller boxes then help more. look_ahead: steps into the steady state that the LP of the first
    multipliers looks.
    """

    share: float = 0.4
    much: float = 0.3
    first_radius: float = 0.5
    smallest_radius: float = 0.02
    shorter: float = 0.4
    longest_round: float = 0.4
    enough: float = 0.2
    look_ahead: int = 20


@dataclass(frozen=True)
class Effort:
    """LPs of windows of `length` steps, of units too or of states and actions alone."""

    length: int
    units: bool


@dataclass(frozen=True)
class RelaxationSettings:
    """The proof by the LP relaxation of the whole horizon.

    efforts: the next one is made when a round of the one before made boxes smaller, and units stable, by less than the
    share `worthwhile`. forward_share: of the time of a turn that is left, for LPs of forward bounds.
    """

    efforts: tuple[Effort, ...] = (Effort(1, False), Effort(1, True), Effort(3, True))
    worthwhile: float = 0.02
    forward_share: float = 0.5


@dataclass(frozen=True)
class PrefixSettings:
    """The proof by prefixes.

    first: steps of the first one. growth: of the next one; quick_growth: after one that took no more than quick
    seconds. precision: a prefix is solved to this share of the gap.
    """

    first: int = 2
    growth: float = 1.5
    quick_growth: float = 2.5
    quick: float = 1.0
    precision: float = 0.02


@dataclass(frozen=True)
class LagrangianSettings:
    """The proof by Lagrangian decomposition over time.

    move_share: of the time of the run that is left, for a move that goes on after its turn; none does if a step has
    more than most_unstable units. patience: no round of MILPs gets more than this share of the time that is left;
    windows grow until one takes half of that. most_setbacks: rounds in which no move helped, before it gives up.
    worth_tightening: boxes are tightened again when the gap has fallen to this share of what it was the last time.
    many_fewer: the horizon is cut anew when at most this share of the unstable units is left. worth_asking: a window
    that loses less than this share of the gap is not bounded again; doubtful: one whose MILP left this share of its
    loss open is. merges: pairs of windows that are tried in one move. most_cuts: rows of cuts that are left to others.
    """

    move_share: float = 0.5
    most_unstable: int = 512
    patience: float = 0.35
    most_setbacks: int = 5
    worth_tightening: float = 0.8
    many_fewer: float = 0.5
    worth_asking: float = 0.05
    doubtful: float = 0.3
    merges: int = 2
    most_cuts: int = 500
    partition: PartitionSettings = field(default_factory=PartitionSettings)
    bundle: BundleSettings = field(default_factory=BundleSettings)
    steady_state: SteadyStateSettings = field(default_factory=SteadyStateSettings)
    sampled_dual: SampledDualSettings = field(default_factory=SampledDualSettings)
