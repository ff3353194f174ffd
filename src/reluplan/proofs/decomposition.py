"""OPT <= Σ of window bounds: the horizon cut into pieces, with linear values of the states where they meet.

For any values λ at the boundaries of the windows, zero at both ends of the horizon,

    OPT <= Σ_i count_i · D_i(λ),   D_i(λ) = max over one window of piece i of  Σ R − λ_start · s_first + λ_end · s_end,

because the terms λ · s cancel along a plan. D_i is a small MILP whose dual bound is used. The sum is convex in λ; a
bundle method lowers it: the maximiser of each window is a cut of its D_i, and a linear program over all cuts, inside a
trust region around the best λ, proposes the next one. λ = 0 is horizon truncation: an optimal prefix plus the best
reward of single steps.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan.milp.model import ModelBuilder
from reluplan.proofs.pieces import Piece
from reluplan.proofs.windows import Windows, plan_window, plan_windows, sample_windows
from reluplan.simulate import Trajectory
from reluplan.solvers.base import Progress, SolveOptions, SolveResult, SolveStatus
from reluplan.solvers.highs import HighsSolver
from reluplan.solvers.pool import Job, WorkerPool

Array = NDArray[np.float64]
Index = NDArray[np.int64]

BOUND_MARGIN, MARGIN_PER_COLUMN = 1e-6, 1e-8
"""Of every MILP's dual bound: relative, and absolute for each column, as for the bound of a whole plan."""
SAMPLES = 2_000
SEPARATIONS = 15
"""Rounds of cuts from simulated windows before the MILPs are asked."""


@dataclass(frozen=True, eq=False)
class WindowBound:
    """D_i(λ), proven, its margin included; seconds that the MILP took; closed: whether it was solved to its gap."""

    bound: float
    margin: float
    seconds: float
    closed: bool


@dataclass(frozen=True, eq=False)
class Valuation:
    """Values λ at the boundaries, shape (pieces + 1, n), and what they prove; infeasible: some window has no plan."""

    values: Array
    parts: tuple[WindowBound, ...]
    total: float
    margin: float
    infeasible: bool = False


@dataclass(eq=False)
class Decomposition:
    """The pieces of a horizon, an oracle for their bounds, and the cuts that it found so far."""

    pieces: tuple[Piece, ...]
    plan: Trajectory
    pool: WorkerPool
    rng: np.random.Generator
    cuts: list[Windows] = field(init=False)
    samples: list[Windows] = field(init=False)
    known: dict[tuple[int, bytes, bytes], WindowBound] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.cuts = [plan_windows(piece, self.plan) for piece in self.pieces]
        self.samples = [sample_windows(piece, self.plan, SAMPLES, self.rng) for piece in self.pieces]

    @property
    def counts(self) -> Array:
        return np.array([piece.span.count for piece in self.pieces], dtype=np.float64)

    def groups(self) -> Index:
        """Boundaries that share one λ, as group numbers (pieces + 1,): -1 where it is zero.

        A repeated window ends where it starts, so both its boundaries have the same λ.
        """
        groups = np.arange(len(self.pieces) + 1)
        for i, piece in enumerate(self.pieces):
            if piece.span.count > 1:
                groups[i + 1] = groups[i]
        fixed = np.isin(groups, [groups[0], groups[-1]])
        _, numbers = np.unique(groups[~fixed], return_inverse=True)
        result = np.full(len(groups), -1, dtype=np.int64)
        result[~fixed] = numbers
        return result

    def settle(self, values: Array) -> Array:
        """Values made to agree with the groups: the mean in each, zero where it must be."""
        groups, settled = self.groups(), np.zeros_like(values)
        for group in range(groups.max(initial=-1) + 1):
            settled[groups == group] = values[groups == group].mean(axis=0)
        return settled

    def evaluate(self, values: Array, deadline: float, tolerance: float) -> Valuation:
        """Ask the MILPs for every D_i(λ); tolerance: how much too large the total may be, for their gaps."""
        missing = [i for i in range(len(self.pieces)) if self._key(i, values) not in self.known]
        incumbents: list[list[Array]] = [[] for _ in missing]
        infeasible = False

        def learn(at: int, result: SolveResult) -> None:
            nonlocal infeasible
            infeasible |= self._learn(missing[at], values, result)
            for solution in incumbents[at]:
                self._cut(missing[at], solution)

        jobs = [self._job(i, values, deadline, tolerance, found) for i, found in zip(missing, incumbents, strict=True)]
        self.pool.solve_all(jobs, learn)
        if infeasible:
            return Valuation(values, (), -math.inf, 0.0, True)
        parts = tuple(self.known[self._key(i, values)] for i in range(len(self.pieces)))
        total = float(self.counts @ [part.bound for part in parts])
        margin = float(self.counts @ [part.margin for part in parts])
        return Valuation(values, parts, total, margin)

    def propose(self, centre: Array, radius: Array) -> tuple[Array, float]:
        """The λ with the smallest total according to the cuts, |λ − centre| <= radius, and that total."""
        for _ in range(SEPARATIONS):
            values, total = self._master(centre, radius)
            if not self._separate(values):
                break
        return values, total

    def _key(self, i: int, values: Array) -> tuple[int, bytes, bytes]:
        return i, values[i].tobytes(), values[i + 1].tobytes()

    def _job(self, i: int, values: Array, deadline: float, tolerance: float, incumbents: list[Array]) -> Job:
        piece = self.pieces[i]
        model = piece.model(values[i], values[i + 1])
        expected = float(self.cuts[i].values(values[i], values[i + 1]).max())
        share = tolerance / (len(self.pieces) * piece.span.count)
        gap = max(share / max(1.0, abs(expected)), 1e-7)

        def listen(progress: Progress) -> None:
            if progress.solution is not None:
                incumbents.append(progress.solution)

        limit = max(0.1, deadline - time.monotonic())
        start = piece.plan_model.assignment(plan_window(piece, self.plan)) if piece.span.count == 1 else None
        return Job(model, SolveOptions(time_limit=limit, gap=gap, start=start, on_progress=listen))

    def _learn(self, i: int, values: Array, result: SolveResult) -> bool:
        """Keep the bound and the cut of a solved window; True if it proved that there is no such window."""
        if result.status is SolveStatus.INFEASIBLE:
            return True
        piece, bound = self.pieces[i], result.dual_bound
        size = abs(bound) if math.isfinite(bound) else 1.0
        margin = max(BOUND_MARGIN * max(1.0, size), MARGIN_PER_COLUMN * piece.plan_model.model.column_count)
        closed = result.status is SolveStatus.OPTIMAL
        self.known[self._key(i, values)] = WindowBound(bound + margin, margin, result.seconds, closed)
        if result.solution is not None:
            self._cut(i, result.solution)
        return False

    def _cut(self, i: int, solution: Array) -> None:
        """Every window that the MILP came by is a cut."""
        plan_model = self.pieces[i].plan_model
        states = solution[plan_model.states]
        found = Windows(np.array([plan_model.model.value(solution)]), states[:1], states[-1:])
        self.cuts[i] = self.cuts[i].joined(found)

    def _separate(self, values: Array) -> bool:
        """Add for each piece the simulated window that is worth most at λ, if no cut has it; True if any was added."""
        added = False
        for i, samples in enumerate(self.samples):
            if not len(samples.rewards):
                continue
            worth = samples.values(values[i], values[i + 1])
            known = self.cuts[i].values(values[i], values[i + 1]).max()
            if worth.max() > known + 1e-6 * max(1.0, abs(known)):
                self.cuts[i] = self.cuts[i].joined(samples.take(np.array([worth.argmax()])))
                added = True
        return added

    def _master(self, centre: Array, radius: Array) -> tuple[Array, float]:
        """min Σ count_i θ_i  subject to  θ_i >= each cut of piece i, |λ − centre| <= radius."""
        builder, groups = ModelBuilder(), self.groups()
        group_count, n = groups.max(initial=-1) + 1, centre.shape[1]
        middle = np.array([centre[groups == g][0] for g in range(group_count)]).reshape(group_count, n)
        width = np.array([radius[groups == g][0] for g in range(group_count)]).reshape(group_count, n)
        levels = builder.add_columns(np.full(len(self.pieces), -np.inf), np.inf)
        columns = builder.add_columns(middle - width, middle + width)
        builder.add_cost(levels, -self.counts)
        for i, cuts in enumerate(self.cuts):
            rows = builder.add_rows(cuts.rewards, np.full(len(cuts.rewards), np.inf))
            builder.add_entries(rows, levels[i], 1.0)
            if groups[i] >= 0:
                builder.add_entries(rows[:, None], columns[groups[i]], cuts.starts)
            if groups[i + 1] >= 0:
                builder.add_entries(rows[:, None], columns[groups[i + 1]], -cuts.ends)
        outcome = HighsSolver().solve(builder.build(), SolveOptions())
        if outcome.solution is None or outcome.objective is None:
            return centre, math.inf
        values = np.zeros_like(centre)
        values[groups >= 0] = outcome.solution[columns][groups[groups >= 0]]
        return values, -outcome.objective
