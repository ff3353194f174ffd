"""The subproblem: the step that violates given potentials most, and the best reward of a given pattern."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.encoding.unroll import PlanModel, unroll
from reluplan.errors import NumericalError, SolverError
from reluplan.optimisation.highs_program import SIMPLEX, HighsProgram
from reluplan.optimisation.model import Model
from reluplan.optimisation.solvers.base import Progress, SolveOptions, SolveResult, SolveStatus, StopReason
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.potentials.domain import StepDomain
from reluplan.potentials.entry_columns import EntryColumns, EntryExtension
from reluplan.potentials.features import PatternFeatures
from reluplan.problem.rollout import rollout

Array = NDArray[np.float64]
Entries = NDArray[np.int8]

SHORTEST_SOLVE = 0.05
"""Seconds that a MILP is given in any case, so that it may prove something at the deadline too."""


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

    Where the domain leaves out steps with R < cutoff, their violation is less than cutoff − Σ_u min_i v_{u,i}, whatever
    the values v are, so that with D' the maximum over the steps of the domain

        max over all steps of R − φ  <=  max(D', cutoff − Σ_u min_i v_{u,i}),    D' = −inf if no step is in the domain.
    """

    def __init__(self, domain: StepDomain, features: PatternFeatures) -> None:
        self._domain = domain
        self._features = features
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
        early_stop_ratio: float,
        threads: int,
        warm_start: Array | None = None,
        gap: float | None = None,
    ) -> Violations:
        """Maximise R − φ until the bound proves that no violation exceeds the tolerance, or one does that is at least
        `early_stop_ratio` times the bound (inf: the bound alone counts). warm_start: inputs (s, a, x) of a step to
        begin from. gap: of the solver; by default what the tolerance asks for."""
        watch = _Watch(self._entries_of, tolerance, early_stop_ratio)
        options = SolveOptions(
            time_limit=time_limit,
            gap=min(0.05, 0.1 * tolerance / max(1.0, tolerance)) if gap is None else gap,
            threads=threads,
            warm_start=None if warm_start is None else self._assignment(warm_start),
            on_progress=watch.listen,
            should_stop=lambda: watch.settled,
        )
        outcome = self._solve(self._with_potentials(values), options)
        if outcome.status is SolveStatus.UNBOUNDED:
            raise NumericalError(
                "the subproblem is unbounded: the reward of a single step has no upper bound; give bounds to every "
                "action, state and auxiliary that it reads"
            )
        outside = self._violation_outside(values)
        if outcome.status is SolveStatus.INFEASIBLE:
            claimed = outside if warm_start is None else math.inf  # a step to begin from is one: the claim is wrong
            return Violations(self._stacked([]), claimed, False)
        last = [] if outcome.solution is None else [self._entries_of(outcome.solution)]
        bound = max(outcome.dual_bound, outside)
        attained = -math.inf if outcome.objective is None else outcome.objective
        entries = self._stacked([*watch.found, *last])
        return Violations(entries, bound, outcome.is_interrupted, outcome.margin, attained)

    def _stacked(self, found: list[Entries]) -> Entries:
        return np.array(found, dtype=np.int8).reshape(len(found), self._features.unit_count)

    @staticmethod
    def _solve(model: Model, options: SolveOptions) -> SolveResult:
        """The solver's answer; one that fails has proven nothing, and that is an answer too."""
        try:
            return HighsSolver().solve(model, options)
        except SolverError as error:
            return SolveResult.nothing(StopReason.FAILED, str(error))

    def _violation_outside(self, values: Array) -> float:
        """cutoff − Σ_u min_i v_{u,i}: no step that the domain leaves out violates the potentials by more."""
        return self._domain.cutoff - float(values.min(axis=1, initial=math.inf).sum())

    def _assignment(self, inputs: Array) -> Array:
        """The complete solution vector of a step."""
        layout = self._domain.problem.layout
        step = np.zeros((2, layout.auxiliary_count))
        step[0] = inputs[layout.auxiliaries]
        trajectory = rollout(self._domain.problem, inputs[layout.states], inputs[None, layout.actions], step)
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
        switched = columns.switched
        split = columns.split
        entries: Entries = columns.possible.argmax(axis=1).astype(np.int8)
        entries[switched] = np.round(x[columns.binaries[switched]]).astype(np.int8)
        chosen = x[columns.intervals[split]]
        entries[split] = np.where(chosen.max(axis=1) > 0.5, chosen.argmax(axis=1) + 1, 0)
        return entries

    def _pattern_columns(self) -> NDArray[np.int64]:
        columns = self._columns
        return np.concatenate([columns.binaries[columns.switched], columns.intervals[columns.split].ravel()])

    def _pattern_values(self, entries: Entries) -> Array:
        columns = self._columns
        hot = entries[columns.split, None] == np.arange(1, self._features.interval_count + 1)
        return np.concatenate([entries[columns.switched] > 0, hot.ravel()]).astype(np.float64)


@dataclass(eq=False)
class _Watch:
    """Follows the MILP: the patterns of its incumbents, and whether it has said enough.

    settled: the bound is within the tolerance, or a violation above it is at least early_stop_ratio times the bound.
    """

    entries_of: Callable[[Array], Entries]
    tolerance: float
    early_stop_ratio: float
    found: list[Entries] = field(default_factory=list)
    settled: bool = False

    def listen(self, progress: Progress) -> None:
        if progress.solution is not None:
            self.found.append(self.entries_of(progress.solution))
        if progress.bound is not None:
            violation = -math.inf if progress.incumbent is None else progress.incumbent
            self.settled = progress.bound <= self.tolerance or violation > self._enough(progress.bound)

    def _enough(self, bound: float) -> float:
        if not math.isfinite(self.early_stop_ratio):
            return math.inf
        return max(self.tolerance, self.early_stop_ratio * bound)


class _PatternLp:
    """The model with its pattern binaries fixed, one pattern after another; an LP if nothing else is discrete."""

    def __init__(self, model: Model, columns: NDArray[np.int64]) -> None:
        self._columns = columns
        integer = model.integer.copy()
        integer[columns] = False
        self._model = dataclasses.replace(model, integer=integer)
        self._program = None if integer.any() else HighsProgram(self._model, SIMPLEX)

    def solve(self, values: Array, deadline: float = math.inf) -> Array | None:
        """An optimal solution with the pattern fixed, None if there is none, or none by the deadline."""
        if self._program is None:
            lower, upper = self._model.column_lower.copy(), self._model.column_upper.copy()
            lower[self._columns] = upper[self._columns] = values
            fixed = dataclasses.replace(self._model, column_lower=lower, column_upper=upper)
            return HighsSolver().solve(fixed, SolveOptions(max(0.0, deadline - clock.now()), gap=1e-9)).solution
        self._program.set_bounds(self._columns, values, values)
        self._program.run_until(deadline, 2.0 * self._model.matrix.nnz)
        return self._program.solution if self._program.is_optimal else None
