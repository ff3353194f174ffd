"""What can be set of the search, each heuristic on its own; plain numbers only, so that a run can record them.

Shares are of the box of a decision (`box.SearchBox`): an action between 0 and 50 moves by at most 5 at a radius of 0.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PenaltySettings:
    """The penalty of violations in the merit function.

    first: the first penalty, as a multiple of the steepest slope of the reward.
    growth: what it is multiplied with each time that no plan keeps the constraints.
    largest: as a multiple of the first one.
    """

    first: float = 10.0
    growth: float = 10.0
    largest: float = 1e8


@dataclass(frozen=True)
class LocalModelSettings:
    """The linear programs around a plan.

    largest_columns, longest: no program has more columns or steps; simplex time grows with the square of the horizon.
    shortest: steps of a window at least, however many columns that takes.
    step_parts: parts of the step to the program's optimum that are rolled out; the best is taken.
    margin: how far constraints move inward, against the tolerances of the LP.
    """

    largest_columns: int = 3000
    longest: int = 120
    shortest: int = 10
    step_parts: tuple[float, ...] = (1.0, 0.7, 0.4, 0.2, 0.1, 0.03)
    margin: float = 1e-8


@dataclass(frozen=True)
class TrustRegionSettings:
    """Steps of linear programs in a trust region.

    first_radius, smallest_radius: shares of the boxes; below the smallest one the pattern walk does better.
    steps: at most this many in one run.
    integer_steps: the same for steps with integer columns, of which each is a small MILP.
    keep_rounds: how often units that switched on a failed step are forbidden to, before the radius shrinks.
    shrink_failed: factor of the radius after a step that gained nothing at all.
    shrink_short: factor after a step of which only a small part (below `short_part`) was taken.
    grow: factor after a full step that gained more than `foretold` of what the program promised.
    """

    first_radius: float = 0.5
    smallest_radius: float = 0.01
    steps: int = 100
    integer_steps: int = 20
    keep_rounds: int = 3
    shrink_failed: float = 0.25
    shrink_short: float = 0.5
    short_part: float = 0.5
    grow: float = 2.0
    foretold: float = 0.5


@dataclass(frozen=True)
class PatternWalkSettings:
    """The walk from activation pattern to activation pattern.

    radius: of the linear programs, as a share of the boxes; units bound the step, the box need not.
    row_rounds: how often switching units get rows before the optimum must lie inside the pattern.
    flips: neighbouring patterns that are tried, those with the largest multipliers first.
    moves: patterns that one walk goes through at most.
    """

    radius: float = 1.0
    row_rounds: int = 12
    flips: int = 30
    moves: int = 20


@dataclass(frozen=True)
class LocalSearchSettings:
    """A local search: trust-region steps and pattern walks in turn.

    catch_up_rounds: rounds that a local search from a bad start gets to reach the best plan.
    same_optimum: local optima whose merits differ by less than this (relative) count as one.
    unseen_optima: with fewer unseen optima than this to be expected, further starts are no use.
    """

    catch_up_rounds: int = 4
    same_optimum: float = 1e-6
    unseen_optima: float = 0.5


@dataclass(frozen=True)
class AscentSettings:
    """Gradient ascent (Adam).

    iterations: steps of the ascent.
    first_rate, last_rate: steps as shares of the boxes, falling geometrically.
    mean_decay, square_decay: of the moving averages of the gradient and its square.
    """

    iterations: int = 60
    first_rate: float = 0.05
    last_rate: float = 0.001
    mean_decay: float = 0.9
    square_decay: float = 0.99


@dataclass(frozen=True)
class GradientAscentSettings:
    """Gradient ascent from many plans at once.

    starts: plans of each kind: constant, smooth, random.
    improved: how many of the plans a local search improves.
    """

    starts: int = 6
    improved: int = 2
    ascent: AscentSettings = field(default_factory=AscentSettings)


@dataclass(frozen=True)
class PerturbationSettings:
    """Perturbations of the best plan, each followed by a short gradient ascent.

    plans: how many there are in a batch.
    smallest, largest: sizes of the noise as shares of the boxes, drawn uniformly on a logarithmic scale.
    fewest_knots, most_knots: of the noise on the stretch that is perturbed.
    improved: how many of the plans a local search improves.
    ascent: short, with small steps: it is to settle the plans, not to move them far.
    """

    plans: int = 24
    smallest: float = 0.02
    largest: float = 0.5
    fewest_knots: int = 2
    most_knots: int = 8
    improved: int = 2
    ascent: AscentSettings = field(default_factory=lambda: AscentSettings(iterations=25, first_rate=0.01))


@dataclass(frozen=True)
class PopulationSettings:
    """Populations of plans (cross-entropy, path integrals).

    smallest, plans: of a generation, drawn between them for each run; fewer where their rollouts would take more than
        `operations`, none below `fewest`.
    generations: of one run at most.
    runs: in vain in a row, after which a search that may end does.
    patience: a run ends after this many generations that gained less than `worthwhile` (relative).
    kept: the best plans so far, which stay in the sample.
    elite, fewest_elite: the share, and the least number, of the plans that the next population follows.
    rate: of the way from the old mean and spread to those of the elite.
    cooling: factor of the spread of path integrals in each generation.
    smallest_spread: as a share of the boxes.
    first_exponents, largest_exponent, exponent_noise: of coloured noise, and how far they move in a generation.
    around: the share of runs that begin around the best plan, with a spread between `near` and `far`.
    eased: the share of runs in which violations cost only `eased_penalty` of the penalty in the first generation, and
        all of it after `rising` generations.
    ascending: how many of the best plans gradients improve at the end of a run, by `ascent`.
    """

    smallest: int = 250
    plans: int = 1000
    operations: float = 2e10
    fewest: int = 32
    generations: int = 60
    runs: int = 1
    patience: int = 6
    worthwhile: float = 1e-3
    kept: int = 16
    elite: float = 0.05
    fewest_elite: int = 10
    rate: float = 0.9
    cooling: float = 0.9
    smallest_spread: float = 1e-3
    first_exponents: tuple[float, ...] = (0.0, 1.0, 2.0, 3.0)
    largest_exponent: float = 4.0
    exponent_noise: float = 0.3
    around: float = 0.5
    near: float = 0.02
    far: float = 0.3
    eased: float = 0.5
    eased_penalty: float = 0.01
    rising: int = 30
    ascending: int = 8
    ascent: AscentSettings = field(default_factory=lambda: AscentSettings(iterations=60, first_rate=0.01))


@dataclass(frozen=True)
class BeamSearchSettings:
    """Beam search.

    narrow, wide: ways that are followed, drawn between them; narrower where they would take more than `operations`.
    actions: that are tried in each state; all of them instead if they are discrete and at most `most_actions`.
    between: the share of tried values that are neither at an end of their box nor in its middle.
    first_states: that a beam begins from, if there is a choice.
    """

    narrow: int = 64
    wide: int = 4_096
    operations: float = 5e9
    actions: int = 8
    most_actions: int = 16
    between: float = 0.3
    first_states: int = 64


@dataclass(frozen=True)
class OneOptSettings:
    """Changes of single discrete decisions.

    rounds: changes that are made in sequence at most.
    neighbours: changes that are tried in one round, drawn at random if there are more.
    """

    rounds: int = 50
    neighbours: int = 512


@dataclass(frozen=True)
class TurnSettings:
    """How heuristics share the time.

    shortest: seconds of a turn at least.
    share: of the time so far that a turn takes, if that is more.
    least_charge: seconds that a turn counts at least, so that whoever has nothing to do waits for the others.
    boost: whoever made all recent gains gets this many shares more than others.
    fading: what is left of a turn's gain and seconds after one more turn.
    """

    shortest: float = 0.1
    share: float = 0.02
    least_charge: float = 0.01
    boost: float = 3.0
    fading: float = 0.95


@dataclass(frozen=True)
class SimplePlanSettings:
    """The first plans.

    plans: of each kind: constant, smooth, random.
    operations: that their rollouts may take together; where it is less than three plans, only one is tried.
    """

    plans: int = 16
    operations: float = 1e8


@dataclass(frozen=True)
class RecedingHorizonSettings:
    """A plan made window by window.

    window: steps of a window.
    committed: the share of a window that is kept.
    steady: states closer than this (relative) count as the same when a steady tail is looked for.
    trust_region_steps: in one window.
    """

    window: int = 24
    committed: float = 0.5
    steady: float = 1e-7
    trust_region_steps: int = 30


@dataclass(frozen=True)
class SlidingWindowSettings:
    """Long plans improved in overlapping windows.

    pause: seconds between two plans of the whole horizon that a window passes on before it is done; each takes a
        rollout.
    worthwhile: windows are searched again if the last time gained more than this (relative).
    """

    pause: float = 1.0
    worthwhile: float = 1e-7


@dataclass(frozen=True)
class DynamicProgrammingSettings:
    """Dynamic programming on a grid, for problems with few states.

    most_states: problems with more of them are left to the other heuristics.
    nodes: of the grid, about.
    pairs: of a node and an action that the backward induction looks at, about; beyond twice as many it is left out.
    most_levels: of one action.
    sampled_plans: of each kind, whose states say where the grid is.
    tried_actions: at each step of the plan, drawn at random,
    refinements: in boxes of these shares around the best so far, one after the other.
    converged: the induction ends when the value function changes by a constant, up to this (relative).
    """

    most_states: int = 3
    nodes: int = 7_000
    pairs: int = 200_000
    most_levels: int = 21
    sampled_plans: int = 64
    tried_actions: int = 200
    refinements: tuple[float, ...] = (1.0, 0.2, 0.04)
    converged: float = 1e-7


@dataclass(frozen=True)
class SearchSettings:
    """Everything that can be set of a search.

    patience: the search ends when the heuristics that run repeatedly were in vain this often in a row.
    constant_plans: plans that repeat one action, of which the best is a start.
    smooth_knots: of a smooth plan, between which it is linear.
    repair_margins: how far `repair` moves constraints inward, least first: a rollout differs from the linear program
        by a little.
    """

    patience: int = 6
    constant_plans: int = 8
    smooth_knots: int = 5
    repair_margins: tuple[float, ...] = (1e-8, 1e-7, 1e-6, 1e-5)
    turns: TurnSettings = field(default_factory=TurnSettings)
    simple_plans: SimplePlanSettings = field(default_factory=SimplePlanSettings)
    penalty: PenaltySettings = field(default_factory=PenaltySettings)
    local_model: LocalModelSettings = field(default_factory=LocalModelSettings)
    trust_region: TrustRegionSettings = field(default_factory=TrustRegionSettings)
    pattern_walk: PatternWalkSettings = field(default_factory=PatternWalkSettings)
    local_search: LocalSearchSettings = field(default_factory=LocalSearchSettings)
    gradient_ascent: GradientAscentSettings = field(default_factory=GradientAscentSettings)
    perturbation: PerturbationSettings = field(default_factory=PerturbationSettings)
    population: PopulationSettings = field(default_factory=PopulationSettings)
    beam_search: BeamSearchSettings = field(default_factory=BeamSearchSettings)
    one_opt: OneOptSettings = field(default_factory=OneOptSettings)
    receding_horizon: RecedingHorizonSettings = field(default_factory=RecedingHorizonSettings)
    sliding_window: SlidingWindowSettings = field(default_factory=SlidingWindowSettings)
    dynamic_programming: DynamicProgrammingSettings = field(default_factory=DynamicProgrammingSettings)


DEFAULTS = SearchSettings()
"""What was measured to be good on the published instances."""
