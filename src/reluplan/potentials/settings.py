"""Everything that can be set in the search for reward potentials; plain data, recorded with the result."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from reluplan.errors import InputError
from reluplan.potentials.features import MOST_INTERVALS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Restored = TypeVar("Restored", bound=DataclassInstance)

Objective = Literal["centre", "mean", "plans"]
Family = Literal["one", "several", "lp"]

PAPER_REGULARISER = 1.0 / math.sqrt(1e6)
"""The paper's λ = 1/√M with M = 1e6."""


@dataclass(frozen=True)
class SamplingSettings:
    """Local samples around good steps.

    climbs: generations of samples that climb from random steps to those with high rewards, before the first cut.
    centres: good steps that a generation samples around. samples_per_centre: steps drawn around each.
    spreads: widths of these samples, as shares of the box.
    """

    climbs: int = 8
    centres: int = 200
    samples_per_centre: int = 30
    spreads: tuple[float, ...] = (0.3, 0.03, 0.003)


@dataclass(frozen=True)
class RolloutSettings:
    """Greedy rollouts, which say how large the rewards of good plans are.

    steps: how many of each are taken, from the domain's first step on. chains: rollouts. tries: actions tried at once
    for a state. spreads: widths of the searches for an action, one after the other, as shares of its box.
    """

    steps: int = 10
    chains: int = 10
    tries: int = 200
    spreads: tuple[float, ...] = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)


@dataclass(frozen=True)
class AnnealingSettings:
    """Annealing of a population of steps (`Annealing`).

    fewest_units: with fewer there is none, since flips reach all of few patterns. population: chains.
    generations: moves of each. hottest: the first temperature, in multiples of the violation that is looked for, which
    is the last one. stretches: factors of the differences of two chains. shares_moved: of the coordinates.
    jitter: of every move, as a share of the box. walks: started from the best steps that were found.
    """

    fewest_units: int = 12
    population: int = 1000
    generations: int = 250
    hottest: float = 100.0
    stretches: tuple[float, ...] = (0.1, 0.3, 0.6, 1.0)
    shares_moved: tuple[float, ...] = (0.2, 0.5, 1.0)
    jitter: float = 1e-4
    walks: int = 40


@dataclass(frozen=True)
class SeparationSettings:
    """The search for violated patterns before any MILP (`HeuristicSeparation`).

    walks: from the steps with the largest violations. walk_steps: at most, of each. flip_centres: tightest patterns
    whose neighbours are looked at. flips_per_centre: nearest neighbours of each. flips: LPs after which a violation
    ends the flips.
    """

    walks: int = 20
    walk_steps: int = 20
    flip_centres: int = 60
    flips_per_centre: int = 12
    flips: int = 100
    annealing: AnnealingSettings = field(default_factory=AnnealingSettings)


@dataclass(frozen=True)
class FamilySettings:
    """Families of several sets (`PotentialSettings.family`).

    objectives: of "several", one set each. separated_sets: at most, of "lp". lp_horizon: steps of the LP relaxation at
    whose fractional pattern the sets of "lp" are small.
    """

    objectives: tuple[Objective, ...] = ("centre", "mean", "plans")
    separated_sets: int = 6
    lp_horizon: int = 8

    def __post_init__(self) -> None:
        if not self.objectives or self.separated_sets < 1 or self.lp_horizon < 1:
            raise InputError("a family of potentials has at least one objective, one set and one step")


@dataclass(frozen=True)
class ReproofSettings:
    """How potentials that come from elsewhere are proven again.

    noticeable: a member that is raised by more than this many times its margin is worth a note. largest_gap: the
    solver's, where a member fails clearly: how much it has to be raised need not be known better.
    """

    noticeable: float = 10.0
    largest_gap: float = 1e-3


DEFAULT_ROLLOUTS = RolloutSettings()
DEFAULT_ANNEALING = AnnealingSettings()
DEFAULT_FAMILIES = FamilySettings()
DEFAULT_REPROOF = ReproofSettings()

ALWAYS_RECORDED = (
    "interval_count", "objective", "family", "regulariser", "tolerance", "heuristics", "enumerate_up_to", "every_unit",
    "cuts_per_round", "samples", "threads", "seed", "max_rounds",
)  # fmt: skip
"""What every potentials file of format 2 says; other settings are recorded where they are not the default."""


@dataclass(frozen=True)
class PotentialSettings:
    """How to search.

    interval_count: N, the output intervals of each unit; 1 is on or off.
    objective: where φ is to be small: at the centre of the cube of all patterns (the paper's sum of all potentials), at
    the mean pattern of sampled steps, or at that of the steps of greedy plans. family: one set of potentials;
    several, one for each objective; or lp, each at the fractional pattern of the plan's LP relaxation with the sets
    before it. regulariser: λ; by default the paper's 1/√M with M = 1e6, or K/(2 S) if that is larger, S the size of
    rewards in greedy plans: φ = −S without cuts, so potentials have the size of the rewards that matter.
    tolerance: stop when the proven violation is at most tolerance · max(1, |φ at the objective's pattern|).
    heuristics: separate by sampling and local search before any MILP. enumerate_up_to: begin with all patterns if there
    are at most so many; 0 for never: it did not pay anywhere. every_unit: potentials for stable units too.
    cuts_per_round: at most, the most violated first. samples: random steps. threads, seed: of the MILP, of sampling.
    max_rounds: of the loop, for tests.
    reward_scale: S is so many times the median |R| of greedy rollouts; 2 converges within 10 s on all published
    instances, larger ones gain more at the root and take longer. early_stop_ratio: the MILP may stop at a violation of
    at least this share of its bound; smaller ones took more MILPs. cutoff_rounds: of bound tightening by LPs after the
    reward cutoff. bounds_share: at most this share of the time goes into LPs for the bounds that potentials rest on.
    setup_share: of the time, for each part of what comes before the loop: the regulariser, the bound tightening, the
    first samples.
    """

    interval_count: int = 1
    objective: Objective = "centre"
    family: Family = "one"
    regulariser: float | None = None
    tolerance: float = 1e-3
    heuristics: bool = True
    enumerate_up_to: int = 0
    every_unit: bool = False
    cuts_per_round: int = 20
    samples: int = 20_000
    threads: int = 1
    seed: int = 0
    max_rounds: int | None = None
    reward_scale: float = 2.0
    early_stop_ratio: float = 0.9
    cutoff_rounds: int = 3
    bounds_share: float = 0.5
    setup_share: float = 0.3
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    rollouts: RolloutSettings = field(default_factory=RolloutSettings)
    separation: SeparationSettings = field(default_factory=SeparationSettings)
    families: FamilySettings = field(default_factory=FamilySettings)

    @classmethod
    def paper(cls, interval_count: int, threads: int = 1) -> PotentialSettings:
        """To the letter where it is sound: the paper's λ, all units, no samples, one cut a round, the most violated."""
        return cls(
            interval_count, regulariser=PAPER_REGULARISER, tolerance=1e-6, heuristics=False, every_unit=True,
            cuts_per_round=1, threads=threads,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """As plain data: what a potentials file always has, and what is not the default.

        >>> "separation" in PotentialSettings().to_dict(), PotentialSettings(setup_share=0.1).to_dict()["setup_share"]
        (False, 0.1)
        """
        default = PotentialSettings()
        return {
            name: value
            for name, value in dataclasses.asdict(self).items()
            if name in ALWAYS_RECORDED or getattr(self, name) != getattr(default, name)
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> PotentialSettings:
        """What `to_dict` gave, after it was in a file."""
        return restored(cls(), content)


DEFAULT_SETTINGS = PotentialSettings()


def choose_settings(
    name: str, interval_count: int, threads: int, seed: int = 0, regulariser: float | None = None
) -> PotentialSettings:
    """The settings called "fast" or "paper", with what the user chose on top."""
    require_interval_count(interval_count)
    if regulariser is not None and not 0.0 < regulariser < math.inf:
        raise InputError(f"the regulariser must be a positive number, got {regulariser:g}")
    if name not in ("fast", "paper"):
        raise InputError(f"unknown setting '{name}'; choose fast or paper")
    base = PotentialSettings.paper(interval_count) if name == "paper" else PotentialSettings(interval_count)
    chosen = replace(base, threads=threads, seed=seed)
    return chosen if regulariser is None else replace(chosen, regulariser=regulariser)


def require_interval_count(interval_count: int) -> None:
    """Refuse a number of intervals that makes no sense."""
    if not 1 <= interval_count <= MOST_INTERVALS:
        raise InputError(f"the number of intervals must be from 1 to {MOST_INTERVALS}, got {interval_count}")


def restored(default: Restored, content: Mapping[str, Any]) -> Restored:
    """A dataclass with the values of a file; ValueError for one of another kind. Unknown names are left out."""
    if not isinstance(content, Mapping):
        raise ValueError(f"{content!r} is not a table")
    known = {entry.name: getattr(default, entry.name) for entry in dataclasses.fields(default)}
    return replace(default, **{name: _like(known[name], content[name], name) for name in content if name in known})


def _like(known: Any, value: Any, name: str) -> Any:
    """A value of the kind of a known one: JSON has lists for tuples, and may have lost the fraction of a float."""
    if dataclasses.is_dataclass(known) and not isinstance(known, type):
        return restored(known, value)
    if isinstance(known, tuple) and isinstance(value, list):
        return tuple(value)
    if known is None:
        fits = value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
    elif isinstance(known, float):
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    else:
        fits = type(value) is type(known)
    if not fits:
        raise ValueError(f"{name} = {value!r} makes no sense")
    return value
