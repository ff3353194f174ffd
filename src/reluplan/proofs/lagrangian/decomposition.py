"""The Lagrangian dual: OPT <= Σ of window bounds, with multipliers of the states where windows meet.

For any multipliers λ at the boundaries of the windows, zero at both ends of the horizon, and features f of a state
(`hinges`: the state itself, and how far it lies below a hinge),

    OPT <= Σ_i weight_i · D_i(λ),        weight_i = Σ of γ^t over the first steps t of the windows of span i,
    D_i(λ) = max over one window of span i of  Σ_j γ^j R_j − λ_start · f(s_first) + γ^length λ_end · f(s_end),

because the terms γ^t λ · f(s_t) cancel along a plan. Without discounting (γ = 1) a weight is the number of windows;
with it λ and D are worth what they are at their own step, so that repeated windows still share one D. The final reward
is part of the last window's sum, γ^length F. D_i is a small MILP whose dual bound is used. The sum is convex in λ; a
bundle method lowers it: the maximiser of each window is a cut of its D_i, and a linear program over all cuts, inside a
trust region around the best λ, proposes the next one. λ = 0 is horizon truncation: an optimal prefix plus the best
reward of single steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.span import Span
from reluplan.optimisation.model import ModelBuilder
from reluplan.optimisation.solvers.base import Progress, SolveOptions, SolveResult, SolveStatus
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.optimisation.workers.pool import Job, WorkerPool
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.lagrangian.samples import plan_window, plan_windows, sample_windows
from reluplan.proofs.lagrangian.settings import BundleSettings
from reluplan.proofs.lagrangian.subproblem import WindowSet, WindowSubproblem

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Key = tuple[Span, bytes, bytes]
"""A window, and the multipliers of its first and of its end state."""

DEFAULT = BundleSettings()

LARGEST_GAP = 0.1
"""Of a window's MILP, however little its rewards count after discounting."""

NEGLIGIBLE = 1e-9
"""Windows that count less than this share of the others have no say in the choice of λ: a linear program with both can
be beyond its solver."""


@dataclass(frozen=True, eq=False)
class WindowBound:
    """D_i(λ), proven, its margin included; seconds that the MILP took; closed: whether it was solved to its gap; doubt:
    how much smaller D may be, as far as the MILP knows."""

    bound: float
    margin: float
    seconds: float
    closed: bool
    doubt: float


NOTHING_KNOWN = WindowBound(math.inf, 0.0, 0.0, False, math.inf)
"""Of a window that was not asked about in time."""


@dataclass(frozen=True, eq=False)
class DualEvaluation:
    """Multipliers λ at the boundaries, shape (windows + 1, 2n), and what they prove; infeasible: some window has no
    plan."""

    multipliers: Array
    windows: tuple[WindowBound, ...]
    total: float
    margin: float
    infeasible: bool = False


@dataclass(eq=False)
class Decomposition:
    """The subproblems of a horizon, an oracle for their bounds, and the cuts that it found so far.

    free_ends: λ at the first and at the last boundary may be anything: for a part of the horizon by itself.
    known: bounds of windows so far, of these boxes or larger ones, which are as valid. deadline: of clock.now, for the
    simulated windows that guide proposals; subproblems that it comes too late for have none.
    """

    subproblems: tuple[WindowSubproblem, ...]
    plan: Trajectory
    pool: WorkerPool
    rng: np.random.Generator
    free_ends: bool = False
    known: dict[Key, WindowBound] = field(default_factory=dict)
    deadline: float = math.inf
    settings: BundleSettings = DEFAULT
    cuts: list[WindowSet] = field(init=False)
    samples: list[WindowSet] = field(init=False)

    def __post_init__(self) -> None:
        self.cuts = [plan_windows(subproblem, self.plan) for subproblem in self.subproblems]
        self.samples = [
            sample_windows(subproblem, self.plan, self._sample_count(), self.rng, self.settings.noise)
            for subproblem in self.subproblems
        ]

    def _sample_count(self) -> int:
        return self.settings.samples if clock.now() < self.deadline else 0

    @property
    def weights(self) -> Array:
        """What the bound of each subproblem counts in the sum, (windows,)."""
        return np.array([subproblem.weight for subproblem in self.subproblems])

    def groups(self) -> Index:
        """Boundaries that share one λ, as group numbers (windows + 1,): -1 where it is zero.

        A repeated window ends where it starts, so both its boundaries have the same λ.
        """
        groups = np.arange(len(self.subproblems) + 1)
        for i, subproblem in enumerate(self.subproblems):
            if subproblem.span.count > 1:
                groups[i + 1] = groups[i]
        fixed = np.isin(groups, [] if self.free_ends else [groups[0], groups[-1]])
        _, numbers = np.unique(groups[~fixed], return_inverse=True)
        result = np.full(len(groups), -1, dtype=np.int64)
        result[~fixed] = numbers
        return result

    def tied(self, multipliers: Array) -> Array:
        """Multipliers made to agree with the groups: the mean in each, zero where it must be."""
        groups = self.groups()
        tied = np.zeros_like(multipliers)
        for group in range(groups.max(initial=-1) + 1):
            tied[groups == group] = multipliers[groups == group].mean(axis=0)
        return tied

    def inherit(self, cuts: Mapping[Span, WindowSet]) -> None:
        """Take over cuts of earlier subproblems with the same spans, as far as they are inside the boxes of now."""
        for i, subproblem in enumerate(self.subproblems):
            if subproblem.span in cuts:
                self.cuts[i] = self.cuts[i].joined(subproblem.inside(cuts[subproblem.span]))

    def evaluate(
        self, multipliers: Array, deadline: float, tolerance: float, again: Collection[int] = ()
    ) -> DualEvaluation:
        """Ask the MILPs for every D_i(λ); tolerance: how much too large the total may be, for their gaps. Windows whose
        bound is known are asked only if they are in `again`."""
        return self.evaluate_all([multipliers], deadline, tolerance, again)[0]

    def evaluate_all(
        self, candidates: Sequence[Array], deadline: float, tolerance: float, again: Collection[int] = ()
    ) -> list[DualEvaluation]:
        """What each λ proves, side by side."""
        pairs = [(i, multipliers) for multipliers in candidates for i in range(len(self.subproblems))]
        missing = [
            (i, multipliers) for i, multipliers in pairs if i in again or self._key(i, multipliers) not in self.known
        ]
        incumbents: list[list[Array]] = [[] for _ in missing]
        infeasible = False

        def learn(at: int, result: SolveResult) -> None:
            nonlocal infeasible
            infeasible |= self._learn(*missing[at], result)
            for solution in incumbents[at]:
                self._cut(missing[at][0], solution)

        jobs: list[Job] = []
        for pair, found in zip(missing, incumbents, strict=True):
            if clock.now() > deadline:
                self.known.setdefault(self._key(*pair), NOTHING_KNOWN)
            else:
                jobs.append(self._job(*pair, deadline, tolerance, found))
        self.pool.solve_all(jobs, learn, deadline)
        if infeasible:
            return [DualEvaluation(multipliers, (), -math.inf, 0.0, True) for multipliers in candidates]
        return [self._evaluation(multipliers) for multipliers in candidates]

    def _evaluation(self, multipliers: Array) -> DualEvaluation:
        windows = tuple(self.known[self._key(i, multipliers)] for i in range(len(self.subproblems)))
        bounds = np.array([window.bound for window in windows])
        total = math.inf if np.isposinf(bounds).any() else float(self.weights @ bounds)  # 0 · inf is not a number
        margin = float(self.weights @ [window.margin for window in windows])
        return DualEvaluation(multipliers, windows, total, margin)

    def propose(
        self, centre: Array, radius: Array, known: float = math.inf, separates: bool = True
    ) -> tuple[Array, float]:
        """A λ with |λ − centre| <= radius, and the smallest total that the cuts allow there.

        known: the total at the centre. λ is not where the cuts are smallest, an edge that the next cut moves far away,
        but deep inside the region in which they promise most of the way from `known` to that. separates: whether
        simulated windows that are worth more become cuts first.
        """
        for _ in range(self.settings.separations):
            multipliers, total = self._master(centre, radius)
            if not (separates and self._separate(multipliers)):
                break
        if math.isfinite(known) and known > total:
            multipliers, _ = self._master(centre, radius, total + self.settings.level * (known - total))
        return multipliers, total

    def cuts_by_span(self) -> dict[Span, WindowSet]:
        """The cuts of each subproblem."""
        return {subproblem.span: cut for subproblem, cut in zip(self.subproblems, self.cuts, strict=True)}

    def proves(self, evaluation: DualEvaluation) -> bool:
        """Whether its windows were bounded with the hinges of these subproblems: others mean something else."""
        known = [self.known.get(self._key(i, evaluation.multipliers)) for i in range(len(self.subproblems))]
        return all(
            window is not None and window.bound <= found.bound
            for window, found in zip(known, evaluation.windows, strict=True)
        )

    def _key(self, i: int, multipliers: Array) -> Key:
        subproblem = self.subproblems[i]
        start = np.concatenate([multipliers[i], subproblem.start_hinges])
        end = np.concatenate([multipliers[i + 1], subproblem.end_hinges])
        return subproblem.span, start.tobytes(), end.tobytes()

    def _job(self, i: int, multipliers: Array, deadline: float, tolerance: float, incumbents: list[Array]) -> Job:
        subproblem = self.subproblems[i]
        model = subproblem.model(multipliers[i], multipliers[i + 1])
        expected = float(self.cuts[i].lagrangian(multipliers[i], multipliers[i + 1]).max())
        share = tolerance / max(1.0, abs(expected)) / len(self.subproblems)
        is_open = share < LARGEST_GAP * subproblem.weight  # which may be zero: γ^t ends where numbers do
        gap = max(share / subproblem.weight, 1e-7) if is_open else LARGEST_GAP

        def listen(progress: Progress) -> None:
            if progress.solution is not None:
                incumbents.append(progress.solution)

        limit = max(0.1, self.settings.longest_share * (deadline - clock.now()))
        is_single = subproblem.span.count == 1
        warm_start = subproblem.assignment(plan_window(subproblem.span, self.plan)) if is_single else None
        return Job(model, SolveOptions(time_limit=limit, gap=gap, warm_start=warm_start, on_progress=listen))

    def _learn(self, i: int, multipliers: Array, result: SolveResult) -> bool:
        """Keep the bound and the cut of a solved window; True if it proved that there is no such window."""
        if result.status is SolveStatus.INFEASIBLE:
            return True
        closed = result.status is SolveStatus.OPTIMAL
        doubt = result.dual_bound - (-math.inf if result.objective is None else result.objective)
        key = self._key(i, multipliers)
        found = WindowBound(result.proven_bound, result.margin, result.seconds, closed, doubt)
        self.known[key] = min(self.known.get(key, found), found, key=lambda window: window.bound)
        if result.solution is not None:
            self._cut(i, result.solution)
        return False

    def _cut(self, i: int, solution: Array) -> None:
        """Every window that the MILP came by is a cut."""
        plan_model = self.subproblems[i].plan_model
        states = solution[plan_model.states]
        reward = plan_model.model.value(solution[: plan_model.model.column_count])
        found = self.subproblems[i].windows(np.array([reward]), states[:1], states[-1:])
        self.cuts[i] = self.cuts[i].joined(found)

    def _separate(self, multipliers: Array) -> bool:
        """Add for each subproblem the simulated window that is worth most at λ, if no cut has it; True if any was."""
        added = False
        for i, samples in enumerate(self.samples):
            if not len(samples.rewards):
                continue
            worth = samples.lagrangian(multipliers[i], multipliers[i + 1])
            known = self.cuts[i].lagrangian(multipliers[i], multipliers[i + 1]).max()
            if worth.max() > known + 1e-6 * max(1.0, abs(known)):
                self.cuts[i] = self.cuts[i].joined(samples.take(np.array([worth.argmax()])))
                added = True
        return added

    def _master(self, centre: Array, radius: Array, level: float = math.inf) -> tuple[Array, float]:
        """min Σ weight_i θ_i  subject to  θ_i >= each cut of subproblem i, |λ − centre| <= radius.

        With a level: max m subject to the same, every cut moved by m times its slope in units of the radius, and the
        total at most the level: the centre of a largest ball that fits.
        """
        builder, groups = ModelBuilder(), self.groups()
        group_count, n = groups.max(initial=-1) + 1, centre.shape[1]
        middle = np.array([centre[groups == g][0] for g in range(group_count)]).reshape(group_count, n)
        width = np.array([radius[groups == g][0] for g in range(group_count)]).reshape(group_count, n)
        levels = builder.add_columns(np.full(len(self.subproblems), -np.inf), np.inf)
        columns = builder.add_columns(middle - width, middle + width)
        inside = builder.add_columns(np.zeros(1), 0.0 if math.isinf(level) else 1.0)
        weights = self.weights
        has_say = weights > NEGLIGIBLE * weights.max()
        if math.isinf(level):
            builder.add_cost(levels[has_say], -weights[has_say])
        else:
            builder.add_cost(inside, 1.0)
            builder.add_entries(builder.add_rows(-np.inf, level), levels[has_say], weights[has_say])
        for i, cuts in enumerate(self.cuts):
            rows = builder.add_rows(cuts.rewards, np.full(len(cuts.rewards), np.inf))
            builder.add_entries(rows, levels[i], 1.0)
            slopes: dict[int, Array] = {}
            for group, slope in ((groups[i], -cuts.starts), (groups[i + 1], cuts.end_factor * cuts.ends)):
                if group >= 0:
                    slopes[group] = slopes.get(group, 0.0) + slope
            for group, slope in slopes.items():
                builder.add_entries(rows[:, None], columns[group], -slope)
            if math.isfinite(level):
                size = np.sqrt(sum(((slope * width[group]) ** 2).sum(axis=1) for group, slope in slopes.items()))
                builder.add_entries(rows, inside, -size)
        outcome = HighsSolver().solve(builder.build(), SolveOptions())
        if outcome.solution is None or outcome.objective is None:
            return centre, math.inf
        multipliers = np.zeros_like(centre)
        multipliers[groups >= 0] = outcome.solution[columns][groups[groups >= 0]]
        return multipliers, -outcome.objective
