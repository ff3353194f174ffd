"""The proof by pieces: value the boundaries, bound the windows, narrow the boxes of better plans, and again."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.reachability import HorizonBounds
from reluplan.encoding.window import Span, narrow
from reluplan.errors import InfeasibleError
from reluplan.optimisation.model import Model, ModelBuilder
from reluplan.proofs.lagrangian.decomposition import Decomposition, Key, Valuation, WindowBound
from reluplan.proofs.lagrangian.multipliers import costates
from reluplan.proofs.lagrangian.partition import Budget, partition, resting_steps
from reluplan.proofs.lagrangian.samples import plan_windows
from reluplan.proofs.lagrangian.steady_state import value_rest
from reluplan.proofs.lagrangian.subproblem import Piece, cut_pieces
from reluplan.proofs.proof_state import Knowledge
from reluplan.tightening.obbt_lp import tighten_window

Array = NDArray[np.float64]

VALUATIONS = 2
"""Proposals of λ, each closer to the best one, before windows grow instead."""
FIRST_BUDGET = Budget(resting=32, moving=64, few=128)
SMALLEST_RADIUS, MOST_SETBACKS, MOST_DOUBLINGS = 0.01, 5, 5
WORTH_NARROWING, MANY_FEWER = 0.8, 0.5
"""Boxes are narrowed again when the gap has fallen to this share of what it was the last time; the horizon is cut anew
when at most this share of the unstable ReLUs is left."""
PATIENCE = 0.35
"""No round of MILPs gets more than this share of the time that is left; windows grow until one takes half of that."""
REST_SHARE, MUCH = 0.4, 0.3
"""Of the time that is left, for values where the plan rests, if this share of the gap is lost there."""
WORTH_ASKING, DOUBTFUL = 0.05, 0.3
"""A window that loses less than this share of the gap is not bounded again; one whose MILP left this share of its loss
open is."""
SAMPLES_SHARE = 0.1
"""Of the time that is left, for simulating windows whenever the horizon is cut."""
SETTLING = 20
"""Steps after a plan has come to rest that the LP of its values looks ahead."""


class PieceProof:
    """OPT <= Σ of window bounds with values of the states where windows meet; see `decomposition`."""

    stage = "pieces"

    def improve(self, known: Knowledge, deadline: float) -> None:
        """Until the bound meets the plan, the deadline, or nothing helps any more."""
        _Rounds(known, deadline).run(deadline)


@dataclass(eq=False)
class _Rounds:
    """The present partition of the horizon and the values of the states.

    values: λ for every step's state (H + 1, 2n), of which the boundaries are in use; first: of the LP.
    radius: of the trust region of λ, relative. budget: of the windows of now. narrowed_at: the gap when boxes were last
    narrowed; is_narrower: since λ was last sought for the rest. bounds: of windows, of these boxes or larger ones.
    refused: partitions that proved less.
    """

    known: Knowledge
    deadline: float
    values: Array = field(init=False)
    first: Array = field(init=False)
    radius: float = field(init=False, default=0.5)
    budget: Budget = field(init=False, default=FIRST_BUDGET)
    narrowed_at: float = field(init=False, default=math.inf)
    is_narrower: bool = field(init=False, default=False)
    bounds: dict[Key, WindowBound] = field(init=False, default_factory=dict)
    setbacks: int = field(init=False, default=0)
    refused: set[tuple[Span, ...]] = field(init=False, default_factory=set)
    pieces: Decomposition = field(init=False)

    @property
    def spans(self) -> list[Span]:
        return [piece.span for piece in self.pieces.pieces]

    @property
    def reward(self) -> float:
        return self.known.plan.total_reward

    def run(self, deadline: float) -> None:
        """While the bound falls, narrow the boxes; when that stops, look for a better λ where the plan rests, then
        anywhere, then for longer windows."""
        self.values = self._costates(deadline)
        self.first = self.values.copy()
        self.pieces = self._decompose(self._partition(self.budget))
        try:
            best = self._start(deadline)
            moves = (self._narrow, self._ask_again, self._value_rest, self._revalue, self._grow)
            while clock.now() < deadline and not self.known.run.is_proven:
                better = next(filter(None, (move(best, deadline) for move in moves)), None)
                if better is None:
                    self.setbacks, self.radius = self.setbacks + 1, 0.3
                    if self.setbacks > MOST_SETBACKS or (self.pieces.groups() < 0).all():
                        return
                best = better or best  # every failed λ has left cuts behind: the next proposal knows more
        except InfeasibleError:
            self.known.offer(self.reward, 0.0, "pieces: no better plan is left")

    def _partition(self, budget: Budget) -> list[Span]:
        return partition(self.known.plan, self.known.bounds.unstable.sum(axis=1), budget)

    def _decompose(self, spans: list[Span]) -> Decomposition:
        """The horizon cut anew, with the boxes of now."""
        return self._decomposition(cut_pieces(self.known.problem, self.known.bounds, spans, self.known.plan))

    def _decomposition(self, pieces: tuple[Piece, ...], free_ends: bool = False) -> Decomposition:
        """Bounds that were proven for larger boxes stay known."""
        rng = np.random.default_rng(self.known.seed)
        now = clock.now()
        until = now + SAMPLES_SHARE * (self.deadline - now)
        return Decomposition(pieces, self.known.plan, self.known.pool, rng, free_ends, self.bounds, until)

    def _cut(self, spans: list[Span]) -> None:
        """Cut the horizon anew; windows that stay keep the cuts that are still inside."""
        before = dict(zip(self.spans, self.pieces.cuts, strict=True))
        self.pieces = self._decompose(spans)
        self.pieces.inherit(before)

    def _narrow(self, best: Valuation, deadline: float) -> Valuation | None:
        """The same λ with narrower boxes, if the gap has fallen enough since the last time; else None."""
        gap = best.total - self.reward
        if gap >= WORTH_NARROWING * self.narrowed_at:
            return None
        self.narrowed_at, self.is_narrower = gap, True
        lossy = {self.spans[i] for i in np.flatnonzero(self._losses(best) >= WORTH_ASKING * gap)}
        before = int(self.known.bounds.unstable.sum())
        self._narrow_boxes(best, deadline)
        fewer = int(self.known.bounds.unstable.sum()) <= MANY_FEWER * before
        self._cut(self._partition(self.budget) if fewer else self.spans)
        self.refused.clear()
        again = [i for i, span in enumerate(self.spans) if span in lossy]
        return self._evaluate(self.values[self._boundaries()], deadline, self._precision(gap), again)

    def _ask_again(self, best: Valuation, deadline: float) -> Valuation | None:
        """The same λ, with more exact bounds of windows that lose no more than their MILPs left open; else None."""
        gap, losses = best.total - self.reward, self._losses(best)
        doubts = self.pieces.counts * [part.doubt if part.closed else 0.0 for part in best.parts]
        again = np.flatnonzero((losses >= WORTH_ASKING * gap) & (doubts > DOUBTFUL * losses)).tolist()
        if not again:
            return None
        found = self._evaluate(best.values, deadline, self._precision(gap), again)
        return found if found.total < best.total else None

    def _grow(self, best: Valuation, deadline: float) -> Valuation | None:
        """The same λ with longer windows, if that proves more; else None, and the windows are what they were."""
        for budget in self._larger_budgets(best):
            spans = self._partition(budget)
            if tuple(spans) in self.refused or not self._affordable(spans, best, deadline):
                continue
            before = self.pieces
            self._cut(spans)
            gap = best.total - self.reward
            found = self._evaluate(self.values[self._boundaries()], deadline, self._precision(gap))
            if found.total < best.total:
                self.budget, self.radius = budget, 0.25
                return found
            self.refused.add(tuple(spans))
            self.pieces = before
        return None

    def _larger_budgets(self, best: Valuation) -> list[Budget]:
        """The budget of now, which may do more than before with narrower boxes, then more where more is lost."""
        rests = np.array([span.count > 1 for span in self.spans])
        losses = self._losses(best)
        longer = [self._enlarged("resting"), self._enlarged("moving")]
        return [self.budget, *(longer if losses[rests].sum() > losses[~rests].sum() else longer[::-1])]

    def _enlarged(self, kind: str) -> Budget:
        """Twice the binaries for windows of one kind, and again until it changes something."""
        budget = self.budget
        for _ in range(MOST_DOUBLINGS):
            budget = replace(budget, **{kind: 2 * getattr(budget, kind)})
            if self._partition(budget) != self.spans:
                break
        return budget

    def _affordable(self, spans: list[Span], best: Valuation, deadline: float) -> bool:
        """Whether the windows differ, and the MILPs of those that they replace were quick."""
        patience = 0.5 * PATIENCE * (deadline - clock.now())
        replaced = [i for i, span in enumerate(self.spans) if span not in spans]
        return bool(replaced) and max(best.parts[i].seconds for i in replaced) <= patience

    def _losses(self, best: Valuation) -> Array:
        """What each piece's bound gives more than the plan earns in it, (pieces,)."""
        worth = [
            plan_windows(piece, self.known.plan).values(best.values[i], best.values[i + 1]).min()
            for i, piece in enumerate(self.pieces.pieces)
        ]
        return np.asarray(self.pieces.counts * (np.array([part.bound for part in best.parts]) - worth))

    def _costates(self, deadline: float) -> Array:
        """λ for every step, without kinks; beyond the LP's horizon the plan rests, and so do they."""
        known, horizon = self.known, self.known.problem.horizon
        begin, end = resting_steps(known.plan)
        steps = horizon if end - begin < SETTLING else min(horizon, begin + SETTLING)
        limit = min(deadline - clock.now(), max(1.0, 0.2 * (deadline - clock.now())))
        found = costates(known.problem, known.bounds, known.plan, steps, limit)
        if steps < horizon:
            rest = np.repeat(found[begin + 1 : begin + 2], horizon - begin, axis=0)
            found = np.vstack([found[: begin + 1], rest])
        return np.hstack([found, np.zeros_like(found)])

    def _boundaries(self) -> list[int]:
        return [0, *(span.end for span in self.spans)]

    def _remember(self, values: Array) -> None:
        """λ of the boundaries, for partitions to come; a repeated window has the same all through."""
        self.values[self._boundaries()] = values
        for i, span in enumerate(self.spans):
            if span.count > 1:
                self.values[span.first : span.end + 1] = values[i]

    def _evaluate(self, values: Array, deadline: float, tolerance: float, again: Collection[int] = ()) -> Valuation:
        """What a λ at the boundaries proves, and offer it; again: pieces to ask even if their bounds are known."""
        valuation = self.pieces.evaluate(self.pieces.settle(values), _patient(deadline), tolerance, again)
        if valuation.infeasible:
            raise InfeasibleError("a window without any plan")
        self.known.offer(valuation.total - valuation.margin, valuation.margin, "pieces")
        return valuation

    def _start(self, deadline: float) -> Valuation:
        """What the first λ proves: the plan's LP's, but none where the plan rests, which is quick to prove."""
        for span in self.spans:
            if span.count > 1:
                self.values[span.first : span.end + 1] = 0.0
        return self._evaluate(self.values[self._boundaries()], deadline, 1e-4 * max(1.0, abs(self.reward)))

    def _value_rest(self, best: Valuation, deadline: float) -> Valuation | None:
        """A better λ where the plan rests: what is lost there counts many times, and the MILPs are small. None if it is
        little, or if the boxes are still those of the last search."""
        losses, gap = self._losses(best), best.total - self.reward
        rests = [i for i, span in enumerate(self.spans) if span.count > 1 and losses[i] > MUCH * gap]
        if not rests or not self.is_narrower:
            return None
        at, span = rests[0], self.spans[rests[0]]
        rest = self._decomposition(self.pieces.pieces[at : at + 1], free_ends=True)
        rest.inherit({span: self.pieces.cuts[at]})
        sizes = np.maximum(np.abs(best.values[at]), np.abs(self.first[span.first]))
        until = clock.now() + REST_SHARE * (deadline - clock.now())
        first = [best.values[at], self.first[span.first]]
        found = value_rest(rest, first, self._steps(sizes[None])[0], until, 0.1 * self.known.tolerance)
        self.is_narrower = False
        self.pieces.inherit({span: rest.cuts[0]})
        values = best.values.copy()
        values[at : at + 2] = found
        trial = self._evaluate(values, deadline, self._precision(gap))
        if trial.total >= best.total:
            return None
        self._remember(trial.values)
        return trial

    def _revalue(self, best: Valuation, deadline: float) -> Valuation | None:
        """A λ that proves clearly more than the best one, or None."""
        gap = best.total - self.reward
        for _ in range(VALUATIONS):
            if (self.pieces.groups() < 0).all() or clock.now() > deadline or self.radius < SMALLEST_RADIUS:
                return None
            values, promised = self.pieces.propose(best.values, self.radius * self._scale(best), best.total)
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
        """The size of a step in each λ: its own, that of the plan's LP, or that of its neighbours where both are tiny.

        None beside windows that lose little, where it would only cost MILPs, and none where the plan rests, which has a
        search of its own: errors there count many times.
        """
        scale = self._steps(np.maximum(np.abs(best.values), np.abs(self.first[self._boundaries()])))
        losses, gap = self._losses(best), best.total - self.reward
        for i, span in enumerate(self.spans):
            if span.count > 1:
                scale[i : i + 2] = 0.0
            if i > 0 and max(losses[i - 1], losses[i]) < WORTH_ASKING * gap:
                scale[i] = 0.0
        return scale

    @staticmethod
    def _steps(sizes: Array) -> Array:
        """The size of a step where λ has these sizes (k, 2n); kinks take those of the slopes."""
        slopes = np.abs(sizes[:, : sizes.shape[1] // 2])
        steps = np.maximum(slopes, 0.1 * slopes.mean(axis=0, keepdims=True) + 0.01 * slopes.mean() + 1e-9)
        return np.hstack([steps, steps])

    def _precision(self, gap: float) -> float:
        """How exactly the total has to be known: a share of the gap that is still open."""
        return max(0.3 * self.known.tolerance, 0.02 * gap) if math.isfinite(gap) else 1e-4 * abs(self.reward)

    def _narrow_boxes(self, best: Valuation, deadline: float) -> None:
        """A plan better than ours has Σ R − λ_start · f(s_first) + λ_end · f(s_end) >= D_i − (total − reward) in each
        window of piece i: the others reach at most their D. With this row the LP narrows the boxes."""
        if not math.isfinite(best.total):
            return
        slack = best.total - self.reward
        pieces = self.pieces.pieces
        models = [piece.model(best.values[i], best.values[i + 1]) for i, piece in enumerate(pieces)]
        tasks = [
            (piece.plan_model, _at_least(model, part.bound - slack), piece.bounds, deadline)
            for piece, model, part in zip(pieces, models, best.parts, strict=True)
        ]
        answers = self.known.pool.call_all(tighten_window, tasks, deadline)
        for answer in answers:
            if isinstance(answer, InfeasibleError):
                raise answer
        found = {i: answer for i, answer in enumerate(answers) if isinstance(answer, HorizonBounds)}
        before = int(self.known.bounds.unstable.sum())
        self.known.bounds = narrow(self.known.bounds, [self.spans[i] for i in found], list(found.values()))
        self.known.run.tell(f"unstable ReLUs of better plans: {before} -> {int(self.known.bounds.unstable.sum())}")


def _patient(deadline: float) -> float:
    """When MILPs that start now have to end."""
    now = clock.now()
    return min(deadline, now + max(2.0, PATIENCE * (deadline - now)))


def _at_least(model: Model, floor: float) -> Model:
    """The model with the row objective >= floor."""
    builder = ModelBuilder.continuing(model)
    builder.add_entries(builder.add_rows(floor - model.offset, np.inf), np.arange(model.column_count), model.objective)
    return builder.build()
