"""From a solver's solution to an exact plan: extract, roll out and, if tolerances leaked, repair by an LP."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.encoding.unroll import PlanModel
from reluplan.optimisation.model import Index, Model
from reluplan.optimisation.scaling import column_sizes, is_wide, row_sizes
from reluplan.optimisation.solvers.adapter import FEASIBILITY_TOLERANCE
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.problem.rollout import Trajectory, rollout

Array = NDArray[np.float64]

MARGINS = (0.0, 1e-6, 1e-5, 1e-4)
"""How far a repair moves constraints inward, relative to what is smaller than one, least first."""


def extract(plan_model: PlanModel, x: Array) -> Trajectory:
    """Simulate the actions of a solution vector, after moving them exactly into their domains."""
    problem = plan_model.problem
    initial = np.clip(x[plan_model.states[0]], problem.initial_lower, problem.initial_upper)
    initial = np.where(problem.discrete_states, np.round(initial), initial)
    actions = _into_domain(plan_model, x[plan_model.actions], actions=True)
    auxiliaries = _into_domain(plan_model, x[plan_model.auxiliaries], actions=False)
    return rollout(problem, initial, actions, problem.with_series(auxiliaries))


def repairs(plan_model: PlanModel, x: Array, deadline: float) -> Iterator[Trajectory]:
    """Exact plans near a solution vector x.

    With every integer column fixed the model is an LP without big-M leaks: its optimum is the best plan of that
    pattern. First the solver's own integers, then those of the simulated trajectory; constraints and roundings move
    inward by growing margins, so that what was feasible within tolerances is feasible when simulated; constraints alone
    where predictions cannot leave their ties. Integers of wide range stay free, and rows move inward by what rounding
    them may change. Ends at the deadline (of clock.now); a Ctrl-C during an LP is raised.
    """
    simulated = plan_model.assignment(extract(plan_model, x))
    only_constraints = plan_model.inner_rows
    both = np.concatenate([plan_model.rounding_rows, only_constraints])
    choices = [both, only_constraints] if len(plan_model.rounding_rows) else [both]
    for margin in MARGINS:
        for pattern, rows in itertools.product((x, simulated), choices):
            remaining = deadline - clock.now()
            if remaining <= 0.0:
                return
            model = _fixed_pattern(plan_model, pattern, margin, rows)
            outcome = HighsSolver().solve(model, SolveOptions(time_limit=remaining))
            if outcome.is_interrupted:
                raise KeyboardInterrupt
            if outcome.solution is not None:
                yield extract(plan_model, outcome.solution)


def _into_domain(plan_model: PlanModel, values: Array, actions: bool) -> Array:
    variables = plan_model.problem.actions if actions else plan_model.problem.auxiliaries
    lower, upper = plan_model.problem.box(variables)
    discrete = np.array([v.is_discrete for v in variables], dtype=bool)
    return np.clip(np.where(discrete, np.round(values), values), lower, upper)


def _fixed_pattern(plan_model: PlanModel, x: Array, margin: float, inner: Index) -> Model:
    """The model with integers fixed as in x, and state bounds and the inner rows moved inward by the margin."""
    model, wide = plan_model.model, is_wide(plan_model.model)
    lower, upper = model.column_lower.copy(), model.column_upper.copy()
    fixed = model.integer & ~wide
    lower[fixed] = upper[fixed] = np.round(x[fixed])
    states = plan_model.states[1:].ravel()
    inward = _inward(margin, column_sizes(model)[states])
    movable = ~model.integer[states] & (upper[states] - lower[states] > 2 * inward)
    lower[states[movable]] += inward[movable]
    upper[states[movable]] -= inward[movable]
    row_lower, row_upper = model.row_lower.copy(), model.row_upper.copy()
    inward = _inward(margin, row_sizes(model)[inner]) + 0.5 * (abs(model.matrix) @ wide)[inner]
    movable = row_upper[inner] - row_lower[inner] > 2 * inward
    row_lower[inner[movable]] += inward[movable]
    row_upper[inner[movable]] -= inward[movable]
    return dataclasses.replace(
        model,
        column_lower=lower,
        column_upper=upper,
        row_lower=row_lower,
        row_upper=row_upper,
        integer=np.zeros_like(model.integer),
    )


def _inward(margin: float, sizes: Array) -> Array:
    """margin · min(1, size), and twice the solver's tolerance, which is relative to the size; nothing for no margin."""
    return margin * np.minimum(1.0, sizes) + 2.0 * FEASIBILITY_TOLERANCE * sizes * (margin > 0.0)
