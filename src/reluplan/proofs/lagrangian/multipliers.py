"""First multipliers: what a unit of each state is worth along a plan (the co-states of its LP)."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.span import Span
from reluplan.encoding.unroll import unroll
from reluplan.errors import OutOfTimeError
from reluplan.optimisation.persistent_lp import row_duals
from reluplan.problem.discounting import SMALLEST_FACTOR
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.lagrangian.samples import plan_window

Array = NDArray[np.float64]


def plan_multipliers(
    problem: Problem, bounds: HorizonBounds, trajectory: Trajectory, steps: int, time_limit: float
) -> Array:
    """λ_t for t = 1..steps+1, shape (steps + 1, n): the marginal value of s_t in the LP of the plan's own pattern.

    With every integer of the plan model fixed as in the plan it is an LP; the multiplier of F(s_t, a_t) − s_{t+1} = 0
    is the rate at which its optimum grows with s_{t+1}, and λ is that rate at the step itself, divided by γ^t. Any
    numbers are valid multipliers; these are good ones. λ_1 is zero, as are those of
    discrete states, and all of them if the LP is not solved in time.
    """
    span = Span(0, steps)
    is_whole = steps == problem.horizon
    short = problem.part(
        0,
        steps,
        problem.initial_lower,
        problem.initial_upper,
        keeps_initial_rows=True,
        goal=problem.goal if is_whole else (),
        final_reward=problem.final_reward if is_whole else None,
    )
    multipliers = np.zeros((steps + 1, len(problem.states)))
    deadline = clock.now() + time_limit
    try:
        model = unroll(short, bounds.hull(span), deadline=deadline)
    except OutOfTimeError:
        return multipliers
    fixed = model.assignment(plan_window(span, trajectory))
    lower, upper = model.model.column_lower.copy(), model.model.column_upper.copy()
    lower[model.model.integer] = upper[model.model.integer] = fixed[model.model.integer]
    lp = dataclasses.replace(model.model, column_lower=lower, column_upper=upper)
    duals = row_duals(lp, max(0.0, deadline - clock.now()))
    if duals is not None:
        linked = model.link_rows >= 0
        multipliers[1:][linked] = -duals[model.link_rows[linked]]
        factors = short.discount_factors[:, None]
        multipliers = np.where(factors > SMALLEST_FACTOR, multipliers / np.maximum(factors, SMALLEST_FACTOR), 0.0)
    return multipliers
