"""Bound tightening by MILP of what the LPs left loose: over single steps, then over windows of several.

A side of a unit or of a state is asked about only if simulated windows never come near it, most promising first:

    a unit that may switch, but was never seen on (off): max In <= 0 (min In >= 0) would make it stable;
    a side of a state beyond everything seen by a tenth of the box: max s' (min s') may cut it.

The answer is the dual bound of a small MILP, its margin included, for the last step of windows of 1, 2, ... steps. A
window from S_{t-k} to t knows more than the box S_t, whose corners no plan may reach.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds, Plans, equal_steps, intersected, tightened
from reluplan.bounds.lp import round_discrete
from reluplan.bounds.span import Span, windows_ending_at
from reluplan.encoding.window import Window, cut_window
from reluplan.errors import InfeasibleError, NoBetterPlanError, NoPlanExistsError
from reluplan.optimisation.solvers.base import SolveOptions, SolveResult, SolveStatus
from reluplan.optimisation.workers.pool import Job, WorkerPool
from reluplan.problem.problem import Problem
from reluplan.tightening.propagation import nothing_left, propagate
from reluplan.tightening.settings import MilpTighteningSettings
from reluplan.tightening.witnesses import Witnesses, find_witnesses

Array = NDArray[np.float64]

DEFAULT = MilpTighteningSettings()


def tighten_by_milp(
    problem: Problem,
    bounds: Plans,
    pool: WorkerPool,
    deadline: float,
    seed: int = 0,
    tell: Callable[[str], None] = lambda text: None,
    settings: MilpTighteningSettings = DEFAULT,
) -> Plans:
    """Boxes of the same plans, by the deadline (of clock.now).

    If a window has no solution, raises NoPlanExistsError or NoBetterPlanError, as the bounds claim.
    """
    rng = np.random.default_rng(seed)
    for length in settings.lengths:
        if length > problem.horizon or clock.now() > deadline:
            break
        spans = windows_ending_at(equal_steps(bounds), length)
        questions = _questions(problem, bounds, spans, rng, deadline, settings)
        try:
            answers = _ask(questions, pool, deadline, settings)
            if not answers:
                continue
            before = int(bounds.unstable.sum())
            bounds = _apply(problem, bounds, answers, deadline, settings)
        except InfeasibleError as error:
            raise error if isinstance(error, PROVEN) else nothing_left(problem, bounds, error) from None
        after = int(bounds.unstable.sum())
        tell(f"unstable units: {before} -> {after} by {len(answers)} of {len(questions)} MILPs over {length} steps")
    return bounds


PROVEN = (NoPlanExistsError, NoBetterPlanError)


class _LastStep(Window):
    """A window whose last step is asked about."""

    def __str__(self) -> str:
        last, length = self.span.end, self.span.length
        return f"step {last}" if length == 1 else f"steps {last - length + 1} to {last}"

    @cached_property
    def preactivations(self) -> tuple[Array, Array]:
        return self.plan_model.steps[-1].preactivations(self.problem.dynamics)


@dataclass(frozen=True, eq=False)
class _Question:
    """How large can sign · value become? value: a state after the last step, or a unit's In at it.

    gain: what may be expected, from 0 to 1, times the number of windows that an answer serves.
    """

    window: _LastStep
    kind: Literal["state", "unit"]
    index: int
    sign: float
    gain: float
    settings: MilpTighteningSettings

    @property
    def field(self) -> str:
        """The field of HorizonBounds that has the side."""
        return f"{self.kind}_{'upper' if self.sign > 0 else 'lower'}"

    @property
    def known(self) -> float:
        """The side so far."""
        return float(getattr(self.window.bounds, self.field)[-1, self.index])

    @property
    def width(self) -> float:
        """Of what is known of the value."""
        lower, upper = (getattr(self.window.bounds, f"{self.kind}_{side}") for side in ("lower", "upper"))
        return float(upper[-1, self.index] - lower[-1, self.index])

    def job(self) -> Job:
        model = self.window.plan_model.model
        objective, offset = np.zeros(model.column_count), 0.0
        if self.kind == "unit":
            matrix, offsets = self.window.preactivations
            objective[self.window.plan_model.steps[-1].base] = self.sign * matrix[self.index]
            offset = self.sign * float(offsets[self.index])
        else:
            objective[self.window.plan_model.states[-1, self.index]] = self.sign
        gap = self.settings.precision * self.width / max(1.0, abs(self.known))
        options = SolveOptions(time_limit=self.settings.seconds, gap=gap)
        return Job(dataclasses.replace(model, objective=objective, offset=offset), options)

    def side(self, result: SolveResult) -> float:
        """The side that the result proves, if it is better than the one known."""
        if result.status is SolveStatus.INFEASIBLE:
            raise InfeasibleError(f"a MILP proved that no plan satisfies all constraints at {self.window}")
        return self.sign * min(self.sign * self.known, result.proven_bound)

    def is_moved(self, side: float) -> bool:
        """Whether it was worth the question: the unit is stable, or the state's box clearly smaller."""
        if self.kind == "unit":
            return self.sign * side <= 0.0
        return abs(side - self.known) >= 0.5 * self.settings.loose * self.width


def _questions(
    problem: Problem,
    bounds: HorizonBounds,
    spans: Sequence[Span],
    rng: np.random.Generator,
    deadline: float,
    settings: MilpTighteningSettings,
) -> list[_Question]:
    """All questions about the windows, those with the largest expected gain first."""
    questions: list[_Question] = []
    for span in spans:
        if clock.now() > deadline:
            break
        cut = cut_window(problem, bounds, span)
        window = _LastStep(span, cut.problem, cut.bounds)
        seen = find_witnesses(window.problem, window.bounds, settings.samples, rng, settings.at_corners)
        questions += [*_about_units(window, seen, settings), *_about_states(window, seen, settings)]
    return sorted(questions, key=lambda question: -question.gain)


def _about_units(window: _LastStep, seen: Witnesses, settings: MilpTighteningSettings) -> Iterator[_Question]:
    """Units never seen on or never seen off; the further from it, compared with the bound, the likelier a proof."""
    lower, upper = window.bounds.unit_lower[-1], window.bounds.unit_upper[-1]
    for unit in np.flatnonzero(window.bounds.unstable[-1]).tolist():
        sides = ((1.0, upper[unit], seen.unit_largest[unit]), (-1.0, -lower[unit], -seen.unit_least[unit]))
        for sign, bound, extreme in sides:
            if extreme <= 0.0:
                share = extreme / (extreme - bound) if math.isfinite(extreme) else 0.5
                yield _Question(window, "unit", unit, sign, share * window.span.count, settings)


def _about_states(window: _LastStep, seen: Witnesses, settings: MilpTighteningSettings) -> Iterator[_Question]:
    lower, upper = window.bounds.state_lower[-1], window.bounds.state_upper[-1]
    for i in np.flatnonzero((seen.state_largest > seen.state_least) & np.isfinite(upper - lower)).tolist():
        width = upper[i] - lower[i]
        for sign, beyond in ((1.0, upper[i] - seen.state_largest[i]), (-1.0, seen.state_least[i] - lower[i])):
            if beyond >= settings.loose * width:
                yield _Question(window, "state", i, sign, beyond / width * window.span.count, settings)


def _ask(
    questions: list[_Question], pool: WorkerPool, deadline: float, settings: MilpTighteningSettings
) -> list[tuple[_Question, float]]:
    """Questions with the sides that were proven; as many as the time allows and as long as it pays."""
    answers: list[tuple[_Question, float]] = []
    size = settings.batch * pool.worker_count
    for start in range(0, len(questions), size):
        batch = questions[start : start + size]
        results = pool.solve_all([question.job() for question in batch], deadline=deadline)
        found = [(question, question.side(result)) for question, result in zip(batch, results, strict=True)]
        answers += found
        moved = sum(question.is_moved(side) for question, side in found)
        if moved < settings.pays * len(batch) or clock.now() > deadline:
            break
    return answers


def _apply(
    problem: Problem,
    bounds: Plans,
    answers: list[tuple[_Question, float]],
    deadline: float,
    settings: MilpTighteningSettings,
) -> Plans:
    """The bounds with all answers, and what LPs make of them."""
    found: dict[Span, dict[str, Array]] = {}
    for question, side in answers:
        window = question.window
        arrays = found.setdefault(window.span, window.bounds.copied().arrays())
        arrays[question.field][-1, question.index] = side
    for arrays in found.values():
        low, high = round_discrete(arrays["state_lower"], arrays["state_upper"], problem.discrete_states)
        arrays["state_lower"], arrays["state_upper"] = low, high
    windows = [tightened(bounds.hull(span), arrays) for span, arrays in found.items()]
    bounds = intersected(bounds, list(found), windows)
    ends = {start + span.length for span in found for start in span.starts()}
    moved = ends.union(end - 1 for end in ends) - {problem.horizon}
    return propagate(problem, bounds, deadline, moved, settings.propagation)
