"""The subproblem: the step that violates given potentials most, and the best reward of a given pattern."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.errors import NumericalError, SolverError
from reluplan.milp.model import Model
from reluplan.milp.unroll import PlanModel, unroll
from reluplan.potentials.domain import StepDomain
from reluplan.potentials.encode import EntryColumns, EntryExtension
from reluplan.potentials.features import PatternFeatures
from reluplan.simulate import simulate
from reluplan.solvers.base import Progress, SolveOptions, SolveResult, SolveStatus
from reluplan.solvers.highs import HighsSolver
from reluplan.solvers.highs_model import ENTRY_LIMITS, pass_model
from reluplan.solvers.lp import run_until

Array = NDArray[np.float64]
Entries = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Violations:
    """What one solve of the subproblem found: patterns (k, K) in the order found, and D >= max of R − φ.

    dual_bound: D, over the WHOLE domain, −inf only if that is empty, +inf if nothing was proven; margin: the error that
    the solver's proof of D may carry; attained: the largest R − φ of a step that was found.
    """

    entries: Entries
    dual_bound: float
    interrupted: bool
    margin: float = 0.0
    attained: float = -math.inf


class Subproblem:
    """max R(s, a, x, s', x') − φ(pattern) over the steps of a domain; one model, only its objective changes.

    Where the domain leaves out steps with R < floor, their violation is less than floor − Σ_u min_i v_{u,i}, whatever
    the values v are, so that with D' the maximum over the steps of the domain

        max over all steps of R − φ  <=  max(D', floor − Σ_u min_i v_{u,i}),      D' = −inf if no step is in the domain.
    """

    def __init__(self, domain: StepDomain, features: PatternFeatures) -> None:
        self._domain, self._features = domain, features
        self._pattern_lp: _PatternLp | None = None

    @cached_property
    def _encoded(self) -> tuple[PlanModel, EntryColumns]:
        """The model and its entries, built when they are first needed: not at all if the time is over before."""
        extension = EntryExtension(self._features, [])
        plan_model = unroll(self._domain.problem, self._domain.bounds, extension=extension)
        return plan_model, extension.entries[0]

    @property
    def _plan_model(self) -> PlanModel:
        return self._encoded[0]

    @property
    def _columns(self) -> EntryColumns:
        return self._encoded[1]

    @property
    def model(self) -> Model:
        """The model with the reward alone as its objective."""
        return self._plan_model.model

    def violated(
        self,
        values: Array,
        time_limit: float,
        tolerance: float,
        enough: float,
        threads: int,
        start: Array | None = None,
        gap: float | None = None,
    ) -> Violations:
        """Maximise R − φ until the bound proves that no violation exceeds the tolerance, or one does that is at least
        `enough` times the bound (inf: the bound alone counts). start: inputs (s, a, x) of a step to begin from. gap:
        of the solver; by default what the tolerance asks for."""
        found: list[Entries] = []
        settled = False

        def listen(progress: Progress) -> None:
            nonlocal settled
            if progress.solution is not None:
                found.append(self._entries_of(progress.solution))
            if progress.bound is not None:
                violation = -math.inf if progress.incumbent is None else progress.incumbent
                plenty = math.isfinite(enough) and violation > max(tolerance, enough * progress.bound)
                settled = progress.bound <= tolerance or plenty

        outcome = self._solve(
            self._with_potentials(values),
            SolveOptions(
                time_limit=time_limit,
                gap=min(0.05, 0.1 * tolerance / max(1.0, tolerance)) if gap is None else gap,
                threads=threads,
                start=None if start is None else self._assignment(start),
                on_progress=listen,
                should_stop=lambda: settled,
            ),
        )
        if outcome.status is SolveStatus.UNBOUNDED:
            raise NumericalError(
                "the subproblem is unbounded: the reward of a single step has no upper bound; give bounds to every "
                "action, state and auxiliary that it reads"
            )
        outside = self._violation_outside(values)
        if outcome.status is SolveStatus.INFEASIBLE:
            claimed = outside if start is None else math.inf  # a step to begin from is one: the claim is wrong
            return Violations(np.zeros((0, self._features.unit_count), dtype=np.int8), claimed, False)
        if outcome.solution is not None:
            found.append(self._entries_of(outcome.solution))
        entries = np.array(found, dtype=np.int8).reshape(len(found), self._features.unit_count)
        bound = max(outcome.dual_bound, outside)
        attained = -math.inf if outcome.objective is None else outcome.objective
        return Violations(entries, bound, outcome.message == "interrupted", outcome.margin, attained)

    @staticmethod
    def _solve(model: Model, options: SolveOptions) -> SolveResult:
        """The solver's answer; one that fails has proven nothing, and that is an answer too."""
        try:
            return HighsSolver().solve(model, options)
        except SolverError as error:
            return SolveResult(SolveStatus.NO_SOLUTION, None, None, math.inf, 0.0, message=str(error))

    def _violation_outside(self, values: Array) -> float:
        """floor − Σ_u min_i v_{u,i}: no step that the domain leaves out violates the potentials by more."""
        return self._domain.floor - float(values.min(axis=1, initial=math.inf).sum())

    def _assignment(self, inputs: Array) -> Array:
        """The complete solution vector of a step."""
        layout = self._domain.problem.layout
        step = np.zeros((2, layout.auxiliary_count))
        step[0] = inputs[layout.auxiliaries]
        trajectory = simulate(self._domain.problem, inputs[layout.states], inputs[None, layout.actions], step)
        return self._plan_model.assignment(trajectory)

    def best_reward(self, entries: Entries, deadline: float = math.inf) -> tuple[float, Array] | None:
        """R*(pattern) = max R over the steps with this pattern, and inputs (s, a, x) that attain it; None if empty, or
        if it is not found by the deadline (of clock.now).

        A unit that cannot switch in this domain has no column, and no other entries than the possible ones.
        """
        if not self._columns.possible[np.arange(len(entries)), entries].all():
            return None
        if self._pattern_lp is None:
            self._pattern_lp = _PatternLp(self.model, self._pattern_columns())
        values = self._pattern_values(entries)
        solution = self._pattern_lp.solve(values, deadline)
        if solution is None:
            return None
        plan = self._plan_model
        inputs = np.concatenate([solution[plan.states[0]], solution[plan.actions[0]], solution[plan.auxiliaries[0]]])
        return self.model.value(solution), inputs

    def _with_potentials(self, values: Array) -> Model:
        columns, coefficients, constant = self._columns.linear_form(values, largest=False)
        objective = self.model.objective.copy()
        np.subtract.at(objective, columns, coefficients)
        return dataclasses.replace(self.model, objective=objective, offset=self.model.offset - constant)

    def _entries_of(self, x: Array) -> Entries:
        """The pattern of a solution, as its binaries say; a unit without any keeps its largest possible entry."""
        columns = self._columns
        entries: Entries = columns.possible.argmax(axis=1).astype(np.int8)
        switched = columns.binaries >= 0
        entries[switched] = np.round(x[columns.binaries[switched]]).astype(np.int8)
        split = columns.intervals[:, 0] >= 0
        chosen = x[columns.intervals[split]]
        entries[split] = np.where(chosen.max(axis=1) > 0.5, chosen.argmax(axis=1) + 1, 0)
        return entries

    def _pattern_columns(self) -> NDArray[np.int64]:
        columns = self._columns
        switched, split = columns.binaries >= 0, columns.intervals[:, 0] >= 0
        return np.concatenate([columns.binaries[switched], columns.intervals[split].ravel()])

    def _pattern_values(self, entries: Entries) -> Array:
        columns = self._columns
        switched, split = columns.binaries >= 0, columns.intervals[:, 0] >= 0
        hot = entries[split, None] == np.arange(1, self._features.interval_count + 1)
        return np.concatenate([entries[switched] > 0, hot.ravel()]).astype(np.float64)


class _PatternLp:
    """The model with its pattern binaries fixed, one pattern after another; an LP if nothing else is discrete."""

    def __init__(self, model: Model, columns: NDArray[np.int64]) -> None:
        self._columns = columns.astype(np.int32)
        integer = model.integer.copy()
        integer[columns] = False
        self._model = dataclasses.replace(model, integer=integer)
        self._highs: Any = None if integer.any() else _load(self._model)

    def solve(self, values: Array, deadline: float = math.inf) -> Array | None:
        """An optimal solution with the pattern fixed, None if there is none, or none by the deadline."""
        if self._highs is None:
            lower, upper = self._model.column_lower.copy(), self._model.column_upper.copy()
            lower[self._columns] = upper[self._columns] = values
            fixed = dataclasses.replace(self._model, column_lower=lower, column_upper=upper)
            return HighsSolver().solve(fixed, SolveOptions(max(0.0, deadline - clock.now()), gap=1e-9)).solution
        self._highs.changeColsBounds(len(values), self._columns, values, values)
        run_until(self._highs, deadline, 2.0 * self._model.matrix.nnz)
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return np.array(self._highs.getSolution().col_value)


def _load(model: Model) -> Any:
    create: Any = highspy.Highs  # its constructor has no types
    highs = create()
    options = {"output_flag": False, "presolve": "off", "threads": 1, "solver": "simplex"}
    for option, value in {**options, **ENTRY_LIMITS}.items():
        highs.setOptionValue(option, value)
    pass_model(highs, model, relaxed=True)
    return highs
