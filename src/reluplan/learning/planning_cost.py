"""What a network costs a planner: ReLUs that may be on or off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.lp import StepBounds, bound_step
from reluplan.data.transitions import Transitions
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]


def unstable_in_box(network: ReluNetwork, lower: Array, upper: Array) -> int:
    """The number of ReLUs that the planner's bounds leave undecided for inputs in a box."""
    continuous = np.zeros(network.input_count, dtype=bool)
    return _undecided(bound_step(network, lower, upper, [], network.input_count, continuous), network.relu_count)


def unstable_in_problem(problem: Problem, relu_count: int, transitions: Transitions) -> int:
    """The same for a problem's constraints and whole box, not only what is reachable from its first state.

    The learned ReLUs are the first of its dynamics. A variable without a bound gets that of the data.
    """
    inputs = problem.layout.input_count
    rows = [c for c in problem.constraints if not c.function.support()[inputs:].any()]
    discrete = np.array([variable.is_discrete for variable in problem.input_variables], dtype=bool)
    lower, upper = _finite_box(problem, transitions)
    bounds = bound_step(problem.dynamics, lower, upper, rows, problem.layout.width, discrete)
    return _undecided(bounds, relu_count)


def _finite_box(problem: Problem, transitions: Transitions) -> tuple[Array, Array]:
    lower, upper = problem.box(problem.input_variables)
    names = (*transitions.state_names, *transitions.action_names)
    columns = dict(zip(names, np.hstack([transitions.states, transitions.actions]).T, strict=True))
    for at, variable in enumerate(problem.input_variables):
        if variable.name in columns:
            values = columns[variable.name]
            lower[at] = lower[at] if np.isfinite(lower[at]) else values.min()
            upper[at] = upper[at] if np.isfinite(upper[at]) else values.max()
    return lower, upper


def _undecided(bounds: StepBounds, relu_count: int) -> int:
    return int(((bounds.unit_lower < 0.0) & (bounds.unit_upper > 0.0))[:relu_count].sum())
