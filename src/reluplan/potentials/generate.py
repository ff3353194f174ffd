"""Algorithm 1: reward potentials by constraint generation, valid whenever it stops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.errors import InputError, NoPlanExistsError, NumericalError
from reluplan.potentials.domain import StepDomain
from reluplan.potentials.enumeration import enumerate_patterns
from reluplan.potentials.features import MOST_INTERVALS
from reluplan.potentials.master import solve_master
from reluplan.potentials.pool import StepPool
from reluplan.potentials.potentials import LARGEST_POTENTIAL, RewardPotentials, proven_potentials
from reluplan.potentials.restrict import restrict_to_rewards
from reluplan.potentials.rollouts import Rollouts, greedy_rollouts
from reluplan.potentials.separation import HeuristicSeparation
from reluplan.potentials.store import PatternStore
from reluplan.potentials.subproblem import Subproblem, Violations
from reluplan.problem.rollout import step_vectors

Array = NDArray[np.float64]
Objective = Literal["centre", "mean", "plans"]
Family = Literal["one", "several", "lp"]
PAPER_REGULARISER = 1.0 / math.sqrt(1e6)
MILP_PROOF = "MILP dual bound"
CLIMBS = 8
"""Generations of samples that climb from random steps to those with high rewards."""
SETUP_SHARE = 0.3
"""Of the time, for each part of what comes before the loop: the regulariser, the restriction, the first samples."""
SCALE = 2.0
SCALE_STEPS = 10
"""φ without cuts is −2 times the median |R| of the first ten steps of greedy rollouts."""


@dataclass(frozen=True)
class PotentialSettings:
    """How to search.

    objective: where φ is to be small: at the centre of the cube of all patterns (the paper's sum of all potentials), at
    the mean pattern of sampled steps, or at that of the steps of greedy plans. family: one set of potentials;
    several, one for each objective; or lp, each at the fractional pattern of the plan's LP relaxation with the sets
    before it. regulariser: λ; by default the paper's 1/√M with M = 1e6, or K/(2 S) if that is larger, S the size of
    rewards in greedy plans: φ = −S without cuts, so potentials have the size of the rewards that matter.
    tolerance: stop when the proven violation is at most tolerance · max(1, |φ at the objective's pattern|).
    heuristics: separate by sampling and local search before any MILP. enumerate_up_to: begin with all patterns if there
    are at most so many; 0 for never. every_unit: potentials for stable units too. max_rounds: of the loop, for tests.
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

    @classmethod
    def paper(cls, interval_count: int, threads: int = 1) -> PotentialSettings:
        """To the letter where it is sound: the paper's λ, all units, no samples, one cut a round, the most violated."""
        return cls(
            interval_count, regulariser=PAPER_REGULARISER, tolerance=1e-6, heuristics=False, every_unit=True,
            cuts_per_round=1, threads=threads,
        )  # fmt: skip


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


@dataclass(frozen=True)
class Round:
    """One round of the loop: the largest violation found, the proven bound on it (None without a MILP), the cuts."""

    seconds: float
    violation: float
    dual_bound: float | None
    cuts: int
    source: str


@dataclass(frozen=True, eq=False)
class Generation:
    """The outcome: potentials that hold, whether they are optimal within the tolerance, and how it went.

    objective: φ at the objective's pattern, of the potentials as returned.
    """

    potentials: RewardPotentials
    converged: bool
    objective: float
    rounds: list[Round]
    cut_count: int
    pattern_count: int
    milp_count: int
    seconds: float
    interrupted: bool
    notes: list[str]


def generate_potentials(
    domain: StepDomain,
    settings: PotentialSettings,
    deadline: float = math.inf,
    on_round: Callable[[Round], None] | None = None,
) -> Generation:
    """Potentials for all steps of a domain; stops at convergence, at the deadline (of clock.now) or at Ctrl-C."""
    return PotentialSearch(domain, settings, deadline).optimise(None, deadline, on_round)


class PotentialSearch:
    """Constraint generation over one domain; patterns found for one objective serve the next.

    regulariser: λ as chosen. enumerated: whether the store holds all patterns. store and pool cover only the steps
    whose reward exceeds −K/(2λ), the smallest φ that the master can give (`restrict_to_rewards`): no other step can
    violate it by more than rounding errors, and these are counted in (`Subproblem`). deadline: of clock.now, for all
    that is done before the first objective.
    """

    def __init__(self, domain: StepDomain, settings: PotentialSettings, deadline: float = math.inf) -> None:
        require_interval_count(settings.interval_count)
        self.domain, self.settings = domain, settings
        self.features = domain.features(settings.interval_count, settings.every_unit)
        self._setup_until = _share(deadline, SETUP_SHARE)
        self.regulariser = self._choose_regulariser()
        relevant = domain
        if settings.heuristics and self.features.unit_count:
            floor = -self.features.unit_count / (2.0 * self.regulariser)
            relevant = restrict_to_rewards(domain, floor, _share(deadline, SETUP_SHARE)) or domain
        self.enumerated = False
        self.store = PatternStore(self.features, Subproblem(relevant, self.features))
        self.pool = StepPool(relevant, self.features, np.random.default_rng(settings.seed))

    def optimise(
        self,
        weights: Array | Objective | None = None,
        deadline: float = math.inf,
        on_round: Callable[[Round], None] | None = None,
    ) -> Generation:
        """The potentials that are smallest at a pattern: weights (K, N + 1), at most one each, or an objective; by
        default that of the settings."""
        loop = _Loop(self, weights, deadline, on_round)
        try:
            loop.run()
        except KeyboardInterrupt:
            loop.interrupted = True
        return loop.outcome()

    def prepare(self, deadline: float = math.inf) -> None:
        """Sample steps, once, and solve the patterns of the best of them, or all patterns if these are few."""
        if len(self.pool) or not self.settings.heuristics:
            return
        until = _share(deadline, SETUP_SHARE)
        self.pool.sample(self.settings.samples, until)
        self.pool.climb(np.zeros(self.features.shape), CLIMBS, until)
        _, entries = self.pool.violations(np.zeros(self.features.shape))
        if self.pool.pattern_count <= self.settings.enumerate_up_to:
            self.enumerated = enumerate_patterns(self.store, entries, self.settings.enumerate_up_to, deadline)
        for at in np.argsort(-self.pool.rewards)[: self.settings.cuts_per_round].tolist():
            self.store.solve(entries[at], deadline)

    def weights_at(self, objective: Objective) -> Array:
        """The pattern at which an objective wants φ to be small; the cube's centre where no steps are known."""
        if objective == "mean" and len(self.pool):
            return self.pool.mean_entries()
        if objective == "plans":
            inputs, _ = self._rollouts.from_step(self.domain.first, SCALE_STEPS)
            units = self.domain.problem.dynamics.preactivations(inputs)
            if len(inputs):
                shape = (len(inputs), *self.features.shape)
                return np.asarray(self.features.one_hot(self.features.entries(units)).reshape(shape).mean(axis=0))
        return np.ones(self.features.shape)

    @cached_property
    def _rollouts(self) -> Rollouts:
        bounds, domain = self.domain.bounds, self.domain
        horizon = min(domain.last + 1, domain.first + SCALE_STEPS)
        rng = np.random.default_rng(self.settings.seed)
        box = bounds.action_lower[0], bounds.action_upper[0]
        return greedy_rollouts(domain.whole, *box, horizon, rng, self._setup_until)

    def _choose_regulariser(self) -> float:
        if self.settings.regulariser is not None:
            return self.settings.regulariser
        pool = StepPool(self.domain, self.features, np.random.default_rng(self.settings.seed))
        pool.sample(self.settings.samples, self._setup_until)
        size = float(np.abs(pool.rewards).mean()) if len(pool) else math.inf
        _, rewards = self._rollouts.from_step(self.domain.first, SCALE_STEPS)
        if len(rewards):  # sampled steps are of another size where most of the box is of no interest
            size = max(min(size, SCALE * float(np.median(np.abs(rewards)))), 1e-6 * size)
        return max(PAPER_REGULARISER, self.features.unit_count / (2.0 * max(size, 1e-6)))


def _share(deadline: float, share: float) -> float:
    """When this share of the time until a deadline is over."""
    now = clock.now()
    return now + share * max(0.0, deadline - now)


class _Proof(NamedTuple):
    """Values, and a bound D of R − φ with the margin of its proof; level: of φ + D at the objective's pattern."""

    level: float
    values: Array
    bound: float
    margin: float
    source: str


@dataclass(eq=False)
class _Loop:
    """Master, separation, cuts: one objective's run, and the best proof so far."""

    search: PotentialSearch
    weights: Array | Objective | None
    deadline: float
    on_round: Callable[[Round], None] | None
    rounds: list[Round] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    milp_count: int = 0
    converged: bool = False
    interrupted: bool = False
    began: float = field(default_factory=clock.now)

    def __post_init__(self) -> None:
        self._settings, self._store = self.search.settings, self.search.store
        self._values = np.zeros(self.search.features.shape)
        self._goal = np.ones(self.search.features.shape)
        self._proof = _Proof(math.inf, self._values, self._interval_bound(), 0.0, "interval arithmetic")

    def run(self) -> None:
        """Until the MILP proves that no violation exceeds the tolerance."""
        if clock.now() >= self.deadline:
            return
        self.search.prepare(self.deadline)
        goal = self._settings.objective if self.weights is None else self.weights
        self._goal = self.search.weights_at(goal) if isinstance(goal, str) else goal
        if self.search.features.unit_count == 0:
            self._bound_constant()
            return
        while not self.converged and len(self.rounds) < (self._settings.max_rounds or math.inf):
            if clock.now() >= self.deadline:
                return
            self._values = self._solve_master()
            if self._store.add_cuts(self._values, self._cut_tolerance(), self._settings.cuts_per_round):
                continue
            if self._settings.heuristics and not self.search.enumerated and self._separate_by_search():
                continue
            if not self._separate_by_milp():
                return

    def outcome(self) -> Generation:
        """Potentials shifted by the best proof there is."""
        proof, domain = self._proof, self.search.domain
        potentials = proven_potentials(
            self.search.features, proof.values, proof.bound, proof.source, domain.first, domain.last, proof.margin
        )
        return Generation(
            potentials=potentials,
            converged=self.converged,
            objective=self._level(potentials.values) + potentials.constant,
            rounds=self.rounds,
            cut_count=len(self._store.cuts),
            pattern_count=len(self._store),
            milp_count=self.milp_count,
            seconds=clock.now() - self.began,
            interrupted=self.interrupted,
            notes=self.notes,
        )

    def _solve_master(self) -> Array:
        rows, rewards = self._store.cut_rows()
        values = solve_master(rows, rewards, self._goal.ravel(), self.search.regulariser)
        if not np.isfinite(values).all() or np.abs(values).max(initial=0.0) > LARGEST_POTENTIAL:
            raise NumericalError("the potentials blow up: use a larger regulariser")
        return values.reshape(self.search.features.shape)

    def _tolerance(self) -> float:
        return self._settings.tolerance * max(1.0, abs(self._level(self._values)))

    def _cut_tolerance(self) -> float:
        """What is worth a cut: half the tolerance, since the MILP proves no more than the other half."""
        return 0.5 * self._tolerance()

    def _level(self, values: Array) -> float:
        """φ at the objective's pattern: each unit's weights scaled to sum to one."""
        return float((self._goal * values).sum() / max(1e-12, self._goal.sum())) * self.search.features.unit_count

    def _heuristics(self) -> HeuristicSeparation:
        return HeuristicSeparation(self._store, self.search.pool, self._cut_tolerance(), self.deadline)

    def _separate_by_search(self) -> bool:
        found = self._heuristics().search(self._values)
        if found:
            self._record(float(self._store.violations(self._values).max()), None, "search")
        return found

    def _bound_constant(self) -> None:
        """Without units φ is a constant: the largest reward of a step, proven."""
        found = self._ask_milp(1e-6, math.inf)
        self.converged = not found.interrupted and clock.now() < self.deadline
        self.interrupted = found.interrupted

    def _ask_milp(self, tolerance: float, enough: float) -> Violations:
        """Solve the subproblem and keep what it proves."""
        remaining = max(0.05, self.deadline - clock.now())
        found = self._store.subproblem.violated(
            self._values, remaining, tolerance, enough, self._settings.threads, self._worst_point()
        )
        self.milp_count += 1
        if found.dual_bound == -math.inf:  # of the whole domain, which contains such a step of every plan
            whole = self.search.domain.whole
            raise NoPlanExistsError(f"{whole.source}: no plan exists: no step satisfies the constraints", whole)
        self._remember(found)
        return found

    def _worst_point(self) -> Array | None:
        violations = self._store.violations(self._values)
        return self._store.points[int(violations.argmax())] if len(violations) else None

    def _separate_by_milp(self) -> bool:
        """Solve the subproblem; False if the loop must end: converged, out of time, or stuck."""
        tolerance = self._tolerance()
        # in the paper's setting only the most violated pattern will do; otherwise one that is nearly as bad
        enough = 0.9 if self._settings.heuristics else math.inf
        found = self._ask_milp(tolerance, enough)
        violation = self._take_in(found)
        self._record(violation, found.dual_bound, "MILP")
        self.converged = found.dual_bound <= tolerance * (1.0 + 1e-9)
        if self.converged:
            self._proof = _Proof(-math.inf, self._values, found.dual_bound, found.margin, MILP_PROOF)
        self.interrupted = found.interrupted
        out_of_time = clock.now() >= self.deadline
        if violation <= self._cut_tolerance() and not (self.converged or self.interrupted or out_of_time):
            self.notes.append(
                f"stopped: the subproblem's bound is {found.dual_bound:.3g}, but its patterns violate the potentials "
                f"by {violation:.3g} only; the potentials are valid with that bound"
            )
            return False
        return not self.converged and not self.interrupted

    def _take_in(self, found: Violations) -> float:
        """Solve the patterns that the MILP found, and those beside them; returns the largest violation."""
        search = self._heuristics()
        for entries in found.entries:
            if self._settings.heuristics:
                search.walk(self._values, entries)
                search.surround(entries)
            else:
                self._store.solve(entries, self.deadline)
        return float(self._store.violations(self._values).max(initial=0.0))

    def _remember(self, found: Violations) -> None:
        """Keep the proof whose shifted potentials are smallest at the objective's pattern."""
        level = self._level(self._values) + found.dual_bound
        if level < self._proof.level:
            self._proof = _Proof(level, self._values, found.dual_bound, found.margin, MILP_PROOF)

    def _interval_bound(self) -> float:
        """max R over the box: a proof for potentials of zero, which costs nothing."""
        bounds, reward = self.search.domain.bounds, self.search.domain.problem.reward
        lower = step_vectors(bounds.state_lower, bounds.action_lower, bounds.auxiliary_lower)
        upper = step_vectors(bounds.state_upper, bounds.action_upper, bounds.auxiliary_upper)
        return float(reward.bounds(lower, upper)[1][0])

    def _record(self, violation: float, dual_bound: float | None, source: str) -> None:
        entry = Round(clock.now() - self.began, violation, dual_bound, len(self._store.cuts), source)
        self.rounds.append(entry)
        if self.on_round is not None:
            self.on_round(entry)
