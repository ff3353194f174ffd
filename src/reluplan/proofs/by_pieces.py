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
from reluplan.proofs.windows import plan_windows

Array = NDArray[np.float64]

VALUATIONS = 2
"""Proposals of λ, each closer to the best one, before windows grow instead."""
FIRST_BUDGET, FEW_BINARIES = 32, 128
"""Binaries of a window at first; all windows up to the rest become one when they have few together."""
SMALLEST_RADIUS, MOST_SETBACKS = 0.01, 5
PATIENCE = 0.2
"""No MILP gets more than this share of the time that is left, and windows grow until one of them takes it."""
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
    setbacks: int = field(init=False, default=0)
    pieces: Decomposition = field(init=False)

    def __post_init__(self) -> None:
        self.values = np.zeros((self.known.problem.horizon + 1, len(self.known.problem.states)))

    @property
    def reward(self) -> float:
        return self.known.plan.total_reward

    def run(self, deadline: float) -> None:
        """While the bound falls, narrow the boxes; when that stops, look for a better λ; then for longer windows."""
        self.values = self._costates(deadline)
        self._cut()
        narrowed_at = math.inf
        try:
            best = self._start(deadline)
            while time.monotonic() < deadline:
                gap = best.total - self.reward
                if gap <= self.known.tolerance:
                    return
                if gap < 0.8 * narrowed_at:
                    self._narrow_boxes(best, deadline)
                    narrowed_at = gap
                    self._cut()
                    best = self._evaluate(self.values[self._boundaries()], deadline, self._precision(gap))
                    continue
                better = self._revalue(best, deadline)
                if better is None and not self._grow(best, deadline):
                    self.setbacks, self.radius = self.setbacks + 1, 0.3
                    if self.setbacks > MOST_SETBACKS or (self.pieces.groups() < 0).all():
                        return
                    continue  # every failed λ has left cuts behind: the next proposal knows more
                best = better or self._evaluate(self.values[self._boundaries()], deadline, self._precision(gap))
        except InfeasibleError:
            self.known.offer(self.reward, 0.0, "pieces: no better plan is left")

    def _cut(self) -> None:
        """The horizon cut anew, with the boxes and the budget of now."""
        self.spans = self._partition()
        pieces = tuple(cut_piece(self.known.problem, self.known.bounds, span) for span in self.spans)
        rng = np.random.default_rng(self.known.seed)
        self.pieces = Decomposition(pieces, self.known.plan, self.known.pool, rng)

    def _partition(self) -> list[Span]:
        binaries = self.known.bounds.unstable.sum(axis=1)
        return partition(self.known.plan, binaries, self.budget, FEW_BINARIES)

    def _grow(self, best: Valuation, deadline: float) -> bool:
        """Let windows have twice the binaries; False if that changes nothing, or some MILP is slow already."""
        slowest = max(part.seconds for part in best.parts)
        if slowest > 0.5 * PATIENCE * (deadline - time.monotonic()):
            return False
        before, pieces = self.spans, self.pieces
        self.budget, self.radius = 2 * self.budget, 0.25
        self._cut()
        if self.spans == before:
            self.pieces = pieces
        return self.spans != before

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

    def _evaluate(self, values: Array, deadline: float, tolerance: float) -> Valuation:
        """What a λ at the boundaries proves; it is offered, and remembered if it is finite."""
        valuation = self.pieces.evaluate(self.pieces.settle(values), _patient(deadline), tolerance)
        if valuation.infeasible:
            raise InfeasibleError("a window without any plan")
        self.known.offer(valuation.total - valuation.margin, valuation.margin, "pieces")
        return valuation

    def _start(self, deadline: float) -> Valuation:
        """The λ of the plan's LP, or the same with none at the ends of repeated windows, whichever proves more."""
        candidates = [self.values[self._boundaries()]]
        repeated = [i for i, span in enumerate(self.spans) if span.count > 1]
        if repeated:
            without = candidates[0].copy()
            without[[*repeated, *(i + 1 for i in repeated)]] = 0.0
            candidates.append(without)
        tolerance = 1e-4 * max(1.0, abs(self.reward))
        found = [self._evaluate(values, deadline, tolerance) for values in candidates]
        best = min(found, key=lambda valuation: valuation.total)
        self._remember(best.values)
        return best

    def _revalue(self, best: Valuation, deadline: float) -> Valuation | None:
        """A λ that proves clearly more than the best one, or None."""
        gap = best.total - self.reward
        for _ in range(VALUATIONS):
            if (self.pieces.groups() < 0).all() or time.monotonic() > deadline or self.radius < SMALLEST_RADIUS:
                return None
            values, promised = self.pieces.propose(best.values, self.radius * self._scale(best))
            expected = best.total - promised
            if not expected >= 0.1 * gap:
                return None
            trial = self._evaluate(values, deadline, self._precision(gap))
            if best.total - trial.total >= 0.05 * gap:
                self.radius *= 1.5 if best.total - trial.total > 0.5 * expected else 1.0
                self._remember(trial.values)
                return trial
            self.radius *= 0.4
        return None

    def _scale(self, best: Valuation) -> Array:
        """The size of a step in each λ: its own, or that of its neighbours where it is tiny.

        None where a repeated window is as good as the plan: what moves there is multiplied by its count.
        """
        size = np.abs(best.values)
        scale = np.asarray(np.maximum(size, 0.1 * size.mean(axis=0, keepdims=True) + 0.01 * size.mean() + 1e-9))
        for i, piece in enumerate(self.pieces.pieces):
            worth = plan_windows(piece, self.known.plan).values(best.values[i], best.values[i + 1]).min()
            loss = piece.span.count * (best.parts[i].bound - worth)
            if piece.span.count > 1 and loss < 0.01 * (best.total - self.reward):
                scale[i : i + 2] = 0.0
        return scale

    def _precision(self, gap: float) -> float:
        """How exactly the total has to be known: a share of the gap that is still open."""
        return max(0.3 * self.known.tolerance, 0.02 * gap) if math.isfinite(gap) else 1e-4 * abs(self.reward)

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


def _patient(deadline: float) -> float:
    """When MILPs that start now have to end."""
    now = time.monotonic()
    return min(deadline, now + max(2.0, PATIENCE * (deadline - now)))


def _at_least(model: Model, floor: float) -> Model:
    """The model with the row objective >= floor."""
    return replace(
        model,
        matrix=sparse.vstack([model.matrix, sparse.csr_array(model.objective[None])]).tocsr(),
        row_lower=np.append(model.row_lower, floor - model.offset),
        row_upper=np.append(model.row_upper, np.inf),
    )
