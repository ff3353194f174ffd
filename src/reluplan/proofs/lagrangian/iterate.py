"""The state of the dual ascent, replaced by each move, and what all moves share."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.span import Span
from reluplan.errors import NoBetterPlanError
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.lagrangian.decomposition import Decomposition, DualEvaluation, Key, WindowBound
from reluplan.proofs.lagrangian.multipliers import plan_multipliers
from reluplan.proofs.lagrangian.partition import partition, steady_steps
from reluplan.proofs.lagrangian.samples import plan_windows
from reluplan.proofs.lagrangian.settings import LagrangianSettings, WindowBudget
from reluplan.proofs.lagrangian.subproblem import WindowSubproblem, window_subproblem, window_subproblems
from reluplan.proofs.proof_state import ProofState

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Iterate:
    """Where the ascent stands.

    multipliers: λ of every step's state (H + 1, 2n), of which those at the boundaries of windows are in use.
    evaluation: what the best λ proves. radius: of the trust region of λ, relative. tightened_at: the gap when boxes
    were last tightened; is_tighter: whether that was after the last search for the steady state's λ. refused:
    partitions that proved less. setbacks: rounds in which no move helped. is_merged: whether some windows are longer
    than the budget says. is_searched: whether the last search for λ by sampling helped little, in the windows and boxes
    of now.
    """

    decomposition: Decomposition
    evaluation: DualEvaluation
    multipliers: Array
    budget: WindowBudget
    radius: float
    tightened_at: float = math.inf
    is_tighter: bool = False
    refused: frozenset[tuple[Span, ...]] = frozenset()
    setbacks: int = 0
    is_merged: bool = False
    is_searched: bool = False

    @property
    def spans(self) -> list[Span]:
        return [subproblem.span for subproblem in self.decomposition.subproblems]

    @property
    def at_boundaries(self) -> Array:
        """λ at the boundaries of the windows, (windows + 1, 2n)."""
        return np.asarray(self.multipliers[boundaries(self.spans)])

    def accepting(self, evaluation: DualEvaluation) -> Iterate:
        """With an evaluation whose λ is kept for partitions to come; a repeated window has the same all through."""
        multipliers = self.multipliers.copy()
        multipliers[boundaries(self.spans)] = evaluation.multipliers
        for i, span in enumerate(self.spans):
            if span.count > 1:
                multipliers[span.first : span.end + 1] = evaluation.multipliers[i]
        return replace(self, evaluation=evaluation, multipliers=multipliers)


def boundaries(spans: Sequence[Span]) -> list[int]:
    """The steps at which windows meet, and both ends of the horizon."""
    return [0, *(span.end for span in spans)]


@dataclass(eq=False)
class DualAscent:
    """What the moves share: the proof state, the settings, the oracle's memory, the deadline (of clock.now).

    window_bounds: bounds of windows so far, of the boxes of now or of larger ones, which are as valid. guide: the plan
    at whose states the hinges are, the incumbent of the beginning: multipliers mean nothing at other hinges.
    """

    state: ProofState
    settings: LagrangianSettings
    deadline: float
    guide: Trajectory
    window_bounds: dict[Key, WindowBound] = field(default_factory=dict)

    @property
    def plan(self) -> Trajectory:
        return self.state.plan

    @property
    def reward(self) -> float:
        return self.plan.total_reward

    @property
    def remaining(self) -> float:
        return self.deadline - clock.now()

    @cached_property
    def plan_multipliers(self) -> Array:
        """λ of the plan's LP for every step, (H + 1, 2n), without hinges; beyond its horizon the steady state's."""
        problem, settings = self.state.problem, self.settings
        begin, end = steady_steps(self.plan, self.state.problem.series_table, settings.partition.steady_share)
        ahead = settings.steady_state.look_ahead
        steps = problem.horizon if end - begin < ahead else min(problem.horizon, begin + ahead)
        limit = min(self.remaining, max(1.0, 0.2 * self.remaining))
        found = plan_multipliers(problem, self.state.boxes, self.plan, steps, limit)
        if steps < problem.horizon:
            steady = np.repeat(found[begin + 1 : begin + 2], problem.horizon - begin, axis=0)
            found = np.vstack([found[: begin + 1], steady])
        return np.hstack([found, np.zeros_like(found)])

    def gap(self, iterate: Iterate) -> float:
        """What is left between the bound and the plan."""
        return iterate.evaluation.total - self.reward

    def partition(self, budget: WindowBudget) -> list[Span]:
        """The horizon cut by the unstable units of now."""
        unstable = self.state.boxes.unstable.sum(axis=1)
        return partition(self.plan, self.state.problem.series_table, unstable, budget, self.settings.partition)

    def decompose(self, spans: Sequence[Span]) -> Decomposition:
        """The subproblems of some windows, in the boxes of now."""
        return self.decomposition(window_subproblems(self.state.problem, self.state.boxes, spans, self.guide))

    def without_samples(self, spans: Sequence[Span]) -> Decomposition:
        """The same without simulated windows."""
        subproblems = window_subproblems(self.state.problem, self.state.boxes, spans, self.guide)
        settings = replace(self.settings.bundle, samples=0)
        rng = np.random.default_rng(self.state.seed)
        return Decomposition(subproblems, self.plan, self.state.pool, rng, settings=settings)

    def decomposition(self, subproblems: tuple[WindowSubproblem, ...], free_ends: bool = False) -> Decomposition:
        """Bounds that were proven for larger boxes stay known."""
        rng = np.random.default_rng(self.state.seed)
        now = clock.now()
        until = now + self.settings.bundle.samples_share * (self.deadline - now)
        return Decomposition(
            subproblems, self.plan, self.state.pool, rng, free_ends, self.window_bounds, until, self.settings.bundle
        )

    def in_boxes_of_now(self, before: Decomposition) -> Decomposition:
        """The same windows with the same hinges, so that what is proven of them stays valid, wherever the plan is."""
        state = self.state
        after = self.decomposition(
            tuple(
                window_subproblem(state.problem, state.boxes, old.span, (old.start_hinges, old.end_hinges))
                for old in before.subproblems
            )
        )
        after.inherit(before.cuts_by_span())
        return after

    def cut_anew(self, before: Decomposition, spans: Sequence[Span]) -> Decomposition:
        """Other windows or other boxes; windows that stay keep the cuts that are still inside."""
        after = self.decompose(spans)
        after.inherit(before.cuts_by_span())
        return after

    def evaluate(
        self, decomposition: Decomposition, multipliers: Array, tolerance: float, again: Collection[int] = ()
    ) -> DualEvaluation:
        """What a λ at the boundaries proves, and offer it; again: windows to ask even if their bounds are known."""
        tied = decomposition.tied(multipliers)
        evaluation = decomposition.evaluate(tied, self._patience(), tolerance, again)
        if evaluation.infeasible:
            raise NoBetterPlanError("a window without any plan")
        self.state.offer(evaluation.total - evaluation.margin, evaluation.margin, "Lagrangian decomposition")
        return evaluation

    def evaluate_below(
        self, decomposition: Decomposition, multipliers: Array, tolerance: float, target: float = math.inf
    ) -> DualEvaluation:
        """The same, and windows whose MILPs were cut short are asked again if that may bring the total below a
        target: the time that all had is then theirs."""
        found = self.evaluate(decomposition, multipliers, tolerance)
        again = [i for i, window in enumerate(found.windows) if not window.closed]
        counted = [i for i in again if decomposition.weights[i] > 0.0]
        doubt = float(sum(decomposition.weights[i] * max(0.0, found.windows[i].doubt) for i in counted))
        if again and not found.total - doubt >= target:
            return self.evaluate(decomposition, multipliers, tolerance, again)
        return found

    def losses(self, decomposition: Decomposition, evaluation: DualEvaluation) -> Array:
        """What each window's bound gives more than the plan earns in it, times its weight, (windows,)."""
        multipliers = evaluation.multipliers
        worth = [
            plan_windows(subproblem, self.plan).lagrangian(multipliers[i], multipliers[i + 1]).min()
            for i, subproblem in enumerate(decomposition.subproblems)
        ]
        return np.asarray(decomposition.weights * (np.array([window.bound for window in evaluation.windows]) - worth))

    def precision(self, gap: float) -> float:
        """How exactly the total has to be known: a share of the gap that is still open."""
        return max(0.3 * self.state.tolerance, 0.02 * gap) if math.isfinite(gap) else 1e-4 * abs(self.reward)

    def allows(self, seconds: float) -> bool:
        """Whether windows whose MILPs took so long may become longer."""
        return seconds <= 0.5 * self.settings.patience * self.remaining

    def affords(self, evaluation: DualEvaluation) -> bool:
        """Whether windows whose MILPs took as long as these can be asked again."""
        seconds = [window.seconds for window in evaluation.windows]
        longest = max(max(seconds, default=0.0), sum(seconds) / self.state.pool.worker_count)
        return longest <= 0.5 * self.remaining

    def _patience(self) -> float:
        """When MILPs that start now have to end."""
        now = clock.now()
        return min(self.deadline, now + max(2.0, self.settings.patience * (self.deadline - now)))


def step_sizes(sizes: Array) -> Array:
    """The size of a step where λ has these sizes (k, 2n); hinges take those of the slopes."""
    slopes = np.abs(sizes[:, : sizes.shape[1] // 2])
    steps = np.maximum(slopes, 0.1 * slopes.mean(axis=0, keepdims=True) + 0.01 * slopes.mean() + 1e-9)
    return np.hstack([steps, steps])
