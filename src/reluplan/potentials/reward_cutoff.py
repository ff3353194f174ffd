"""Bound tightening by a reward cutoff: steps that cannot violate potentials are left out of the subproblem."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.interval import round_outward
from reluplan.bounds.lp import round_discrete
from reluplan.bounds.reachability import HorizonBounds
from reluplan.encoding.relu import StepColumns
from reluplan.encoding.unroll import unroll
from reluplan.errors import InfeasibleError
from reluplan.optimisation.model import Index, ModelBuilder
from reluplan.optimisation.persistent_lp import PersistentLp
from reluplan.optimisation.piecewise_rows import LinearForm
from reluplan.potentials.domain import StepDomain
from reluplan.potentials.settings import DEFAULT_SETTINGS
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]


def tighten_by_reward_cutoff(
    domain: StepDomain, cutoff: float, deadline: float = math.inf, rounds: int = DEFAULT_SETTINGS.cutoff_rounds
) -> StepDomain | None:
    """The steps of a domain with R >= cutoff, in boxes as tight as the time allows; None if there are none.

    The master's solutions are v = (Aᵀμ − w)/(2λ) with μ >= 0 and A >= 0, so v >= −w/(2λ) in every round: a step whose
    reward is at most the smallest φ that this allows violates none of them. Where bad steps are very bad (20,000 a
    degree), what is left is a small part of the domain, with far fewer patterns and tighter big-Ms. That this pays
    rests on the master; that it is sound does not: `Subproblem.violated` bounds the steps that are left out for any
    values, and the domain that is returned says that it is not the whole one. deadline: of clock.now. rounds: of
    LPs over all variables, each with the bounds of the one before.
    """
    reward = domain.problem.reward
    row = Constraint(PiecewiseLinear.constant_of(cutoff, reward.width) - reward, False, "reward >= cutoff")
    problem = dataclasses.replace(domain.problem, constraints=(*domain.problem.constraints, row))
    bounds = domain.bounds
    try:
        for _ in range(rounds):
            if clock.now() >= deadline:
                break
            bounds = _tighten(problem, bounds, deadline)
    except InfeasibleError:
        return None
    return dataclasses.replace(domain, problem=problem, bounds=bounds, cutoff=max(cutoff, domain.cutoff))


@dataclass(eq=False)
class _Forms:
    """An extension that adds nothing and remembers the affine forms of the step's network."""

    steps: list[StepColumns] = field(default_factory=list)

    def extend(
        self, builder: ModelBuilder, steps: Sequence[StepColumns], bounds: HorizonBounds, reward: LinearForm
    ) -> None:
        self.steps.extend(steps)

    def fill(self, x: Array, units: Array) -> None:
        """Nothing was added."""


def _tighten(problem: Problem, bounds: HorizonBounds, deadline: float) -> HorizonBounds:
    """LP bounds of inputs, next states and unstable units over the whole step model, its reward row included."""
    forms = _Forms()
    plan_model = unroll(problem, bounds, extension=forms)
    lp = PersistentLp(plan_model.model)

    def tightened(columns: Index, lower: Array, upper: Array) -> tuple[Array, Array]:
        sides = zip(columns, lower, upper, strict=True)
        pairs = [_bounds(lp, np.array([c]), np.ones(1), lo, up, deadline) for c, lo, up in sides]
        return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])

    states = [tightened(plan_model.states[t], bounds.state_lower[t], bounds.state_upper[t]) for t in (0, 1)]
    states = [round_discrete(*box, problem.discrete_states) for box in states]
    discrete = np.array([v.is_discrete for v in problem.actions], dtype=bool)
    actions = tightened(plan_model.actions[0], bounds.action_lower[0], bounds.action_upper[0])
    actions = round_discrete(*actions, discrete)
    units = _unit_bounds(problem, lp, forms.steps[0], bounds, deadline)
    return dataclasses.replace(
        bounds,
        state_lower=np.array([low for low, _ in states]),
        state_upper=np.array([high for _, high in states]),
        action_lower=actions[0][None],
        action_upper=actions[1][None],
        unit_lower=units[0][None],
        unit_upper=units[1][None],
    )


def _unit_bounds(
    problem: Problem, lp: PersistentLp, step: StepColumns, bounds: HorizonBounds, deadline: float
) -> tuple[Array, Array]:
    network = problem.dynamics
    lower = bounds.unit_lower[0].copy()
    upper = bounds.unit_upper[0].copy()
    values = np.vstack([np.eye(network.input_count, len(step.base)), step.unit_matrix])
    offsets = np.concatenate([np.zeros(network.input_count), step.unit_offset])
    for layer, units in zip(network.hidden, network.unit_slices, strict=True):
        if clock.now() > deadline:
            break
        width = layer.weights.shape[1]
        matrix = layer.weights @ values[:width]
        offset = layer.weights @ offsets[:width] + layer.bias
        for at in range(units.start, units.stop):
            if lower[at] < 0.0 < upper[at]:
                row, constant = matrix[at - units.start], offset[at - units.start]
                used = np.flatnonzero(row)
                low, high = lower[at] - constant, upper[at] - constant
                low, high = _bounds(lp, step.base[used], row[used], low, high, deadline)
                lower[at] = max(lower[at], low + constant)
                upper[at] = min(upper[at], high + constant)
    return lower, upper


def _bounds(
    lp: PersistentLp, columns: Index, values: Array, low: float, high: float, deadline: float
) -> tuple[float, float]:
    """The LP's bounds of values · x[columns], rounded outward, where they are tighter than known ones."""
    if clock.now() > deadline:
        return low, high
    least = -lp.maximum(columns, -values, deadline)
    most = lp.maximum(columns, values, deadline)
    outward = round_outward(np.array(least), np.array(most))
    return max(low, float(outward[0])), min(high, float(outward[1]))
