"""The proof by pieces: value the boundaries, bound the windows, narrow the boxes of better plans, and again."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reluplan.bounds.reach import HorizonBounds
from reluplan.bounds.tighten import tighten_window
from reluplan.errors import InfeasibleError
from reluplan.milp.model import Model
from reluplan.proofs.costates import costates
from reluplan.proofs.decomposition import Decomposition, Valuation
from reluplan.proofs.knowledge import Knowledge
from reluplan.proofs.partition import partition, resting_steps
from reluplan.proofs.pieces import Span, cut_piece, narrow

Array = NDArray[np.float64]

VALUATIONS = 3
"""Proposals of λ in one round."""
FIRST_BUDGET, SMALLEST_RADIUS = 64, 0.01
PATIENCE = 0.2
"""Windows grow until one of them takes this share of the time that is left."""
SETTLING = 20
"""Steps after a plan has come to rest that the LP of its values looks ahead."""


class PieceProof:
    """OPT <= Σ of window bounds with values of the states where windows meet; see `decomposition`."""

    stage = "pieces"

    def improve(self, known: Knowledge, deadline: float) -> None:
        """Until the bound meets the plan, the deadline, or nothing helps any more."""
        _Rounds(known).run(deadline)


@dataclass(eq=False)
class _Rounds:
    """The present partition of the horizon and the values of the states.

    values: λ for every step's state (H + 1, n), of which the boundaries are in use. radius: of the trust region of λ,
    relative. budget: binaries that a window may have.
    """

    known: Knowledge
    spans: list[Span] = field(init=False, default_factory=list)
    values: Array = field(init=False)
    radius: float = field(init=False, default=0.5)
    budget: int = field(init=False, default=FIRST_BUDGET)
    rounds: int = field(init=False, default=0)
    is_narrowing: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        self.values = np.zeros((self.known.problem.horizon + 1, len(self.known.problem.states)))

    @property
    def reward(self) -> float:
        return self.known.plan.total_reward

    def run(self, deadline: float) -> None:
        """A round: a better λ for the present pieces; then narrower boxes; if both are stuck, longer windows."""
        self.values = self._costates(deadline)
        narrowed_at = math.inf
        try:
            while time.monotonic() < deadline:
                self.spans = self._partition()
                best, settled = self._value_boundaries(deadline)
                gap = best.total - self.reward
                if gap <= self.known.tolerance:
                    return
                if gap < 0.8 * narrowed_at:
                    self._narrow_boxes(best, deadline)
                    self.is_narrowing, narrowed_at = True, gap
                elif self.is_narrowing:
                    self.is_narrowing = False
                elif settled and not self._grow(best, deadline):
                    return
        except InfeasibleError:
            self.known.offer(self.reward, 0.0, "pieces: no better plan is left")

    def _partition(self) -> list[Span]:
        return partition(self.known.plan, self.known.bounds.unstable.sum(axis=1), self.budget)

    def _grow(self, best: Valuation, deadline: float) -> bool:
        """Let windows have twice the binaries; False if that changes nothing, or some MILP is slow already."""
        self.budget, self.radius = 2 * self.budget, 0.25
        slowest = max(part.seconds for part in best.parts)
        return self._partition() != self.spans and slowest <= PATIENCE * (deadline - time.monotonic())

    def _costates(self, deadline: float) -> Array:
        """λ for every step; beyond the LP's horizon the plan rests, and so do they."""
        known, horizon = self.known, self.known.problem.horizon
        begin, end = resting_steps(known.plan)
        steps = horizon if end - begin < SETTLING else min(horizon, begin + SETTLING)
        limit = max(1.0, 0.2 * (deadline - time.monotonic()))
        found = costates(known.problem, known.bounds, known.plan, steps, limit)
        if steps == horizon:
            return found
        rest = np.repeat(found[begin + 1 : begin + 2], horizon - begin, axis=0)
        return np.vstack([found[: begin + 1], rest])

    def _boundaries(self) -> list[int]:
        return [0, *(span.end for span in self.spans)]

    def _remember(self, values: Array) -> None:
        """λ of the boundaries, for partitions to come; a repeated window has the same all through."""
        self.values[self._boundaries()] = values
        for i, span in enumerate(self.spans):
            if span.count > 1:
                self.values[span.first : span.end + 1] = values[i]

    def _decompose(self) -> Decomposition:
        pieces = tuple(cut_piece(self.known.problem, self.known.bounds, span) for span in self.spans)
        return Decomposition(pieces, self.known.plan, self.known.pool, np.random.default_rng(self.known.seed))

    def _value_boundaries(self, deadline: float) -> tuple[Valuation, bool]:
        """Lower the total by moving λ; the best valuation, and whether the cuts say that little more is to be had."""
        pieces = self._decompose()
        best = self._start(pieces, deadline)
        scale, settled = self._scale(best.values), bool((pieces.groups() < 0).all())
        for _ in range(0 if self.is_narrowing or settled else VALUATIONS):
            if time.monotonic() > deadline or best.total <= self.reward + self.known.tolerance:
                break
            values, promised = pieces.propose(best.values, self.radius * scale)
            expected = best.total - promised
            settled = not expected >= 0.1 * (best.total - self.reward) or self.radius < SMALLEST_RADIUS
            if settled:
                break
            trial = self._require(pieces.evaluate(values, deadline, self._precision(best)))
            if trial.total < best.total:
                self.radius *= 1.5 if best.total - trial.total > 0.5 * expected else 1.0
                best = trial
                self._offer(best)
            else:
                self.radius *= 0.5
        self._remember(best.values)
        self.rounds += 1
        return best, settled

    def _require(self, valuation: Valuation) -> Valuation:
        if valuation.infeasible:
            raise InfeasibleError("a window without any plan")
        return valuation

    def _start(self, pieces: Decomposition, deadline: float) -> Valuation:
        """The present λ, or, if better at the first time, the same with none at the ends of repeated windows."""
        candidates = [pieces.settle(self.values[self._boundaries()])]
        repeated = [i for i, span in enumerate(self.spans) if span.count > 1]
        if repeated and not self.rounds:
            without = candidates[0].copy()
            without[[*repeated, *(i + 1 for i in repeated)]] = 0.0
            candidates.append(without)
        tolerance = 1e-4 * max(1.0, abs(self.reward))
        found = [self._require(pieces.evaluate(values, deadline, tolerance)) for values in candidates]
        best = min(found, key=lambda valuation: valuation.total)
        self._offer(best)
        return best

    def _scale(self, values: Array) -> Array:
        """The size of a step in each λ: its own, or that of its neighbours where it is tiny."""
        size = np.abs(values)
        return np.asarray(np.maximum(size, 0.1 * size.mean(axis=0, keepdims=True) + 0.01 * size.mean() + 1e-9))

    def _precision(self, best: Valuation) -> float:
        """How exactly the total has to be known: a share of the gap that is still open."""
        return max(0.3 * self.known.tolerance, 0.02 * (best.total - self.reward))

    def _offer(self, valuation: Valuation) -> None:
        self.known.offer(valuation.total - valuation.margin, valuation.margin, "pieces")

    def _narrow_boxes(self, best: Valuation, deadline: float) -> None:
        """A plan better than ours has Σ R − λ_start · s_first + λ_end · s_end >= D_i − (total − reward) in each window
        of piece i: the others reach at most their D. With this row the LP narrows the boxes."""
        if not math.isfinite(best.total):
            return
        slack = best.total - self.reward
        pieces = [cut_piece(self.known.problem, self.known.bounds, span) for span in self.spans]
        models = [piece.model(best.values[i], best.values[i + 1]) for i, piece in enumerate(pieces)]
        tasks = [
            (piece.plan_model, _at_least(model, part.bound - slack), piece.bounds, deadline)
            for piece, model, part in zip(pieces, models, best.parts, strict=True)
        ]
        answers = self.known.pool.call_all(tighten_window, tasks)
        for answer in answers:
            if isinstance(answer, InfeasibleError):
                raise answer
        found = {i: answer for i, answer in enumerate(answers) if isinstance(answer, HorizonBounds)}
        before = int(self.known.bounds.unstable.sum())
        self.known.bounds = narrow(self.known.bounds, [self.spans[i] for i in found], list(found.values()))
        self.known.run.tell(f"unstable ReLUs of better plans: {before} -> {int(self.known.bounds.unstable.sum())}")


def _at_least(model: Model, floor: float) -> Model:
    """The model with the row objective >= floor."""
    return replace(
        model,
        matrix=sparse.vstack([model.matrix, sparse.csr_array(model.objective[None])]).tocsr(),
        row_lower=np.append(model.row_lower, floor - model.offset),
        row_upper=np.append(model.row_upper, np.inf),
    )
