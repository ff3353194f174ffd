"""Bounds contain everything that can happen: sampled points, simulated plans, and what the LP relaxation allows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_network, random_problem
from reluplan.bounds.interval import layer_interval
from reluplan.bounds.lp import StepBounds, bound_step
from reluplan.bounds.reachability import reachable_bounds
from reluplan.errors import InfeasibleError, InputError
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.check import check
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import simulate

seeds = st.integers(0, 2**32 - 1)


def row(coefficients: list[float], constant: float) -> Constraint:
    """coefficients · w + constant <= 0."""
    return Constraint(PiecewiseLinear(np.array(coefficients), constant), False, "row")


@settings(max_examples=40, deadline=None)
@given(seeds, st.lists(st.integers(1, 6), min_size=0, max_size=3), st.booleans())
def test_step_bounds_contain_every_sample(seed: int, hidden: list[int], constrained: bool) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, hidden, 2)
    lower = rng.uniform(-2, 0, 3)
    upper = lower + rng.uniform(0, 3, 3)
    constraints = [row([1.0, -1.0, 0.5], -0.5)] if constrained else []
    samples = rng.uniform(lower, upper, (500, 3))
    for constraint in constraints:
        samples = samples[constraint.function.evaluate(samples) <= 0.0]
    if not len(samples):
        return
    units, outputs = network.evaluate(samples)
    for by_lp in (True, False):
        bounds = bound_step(network, lower, upper, constraints, 3, np.zeros(3, dtype=bool), np.inf if by_lp else 0.0)
        assert (bounds.input_lower <= samples).all()
        assert (samples <= bounds.input_upper).all()
        assert (bounds.unit_lower <= units).all()
        assert (units <= bounds.unit_upper).all()
        assert (bounds.output_lower <= outputs).all()
        assert (outputs <= bounds.output_upper).all()


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_lp_bounds_are_never_looser_than_intervals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, [5, 5], 2)
    lower, upper = -np.ones(3), np.ones(3)
    with_lp = bound_step(network, lower, upper, [], 3, np.zeros(3, dtype=bool))
    without = bound_step(network, lower, upper, [], 3, np.zeros(3, dtype=bool), deadline=0.0)
    assert (with_lp.unit_lower >= without.unit_lower - 1e-9).all()
    assert (with_lp.unit_upper <= without.unit_upper + 1e-9).all()
    assert (with_lp.output_upper <= without.output_upper + 1e-6).all()


def test_first_layer_lp_bounds_are_exact_over_the_constraints() -> None:
    """x in [0, 1]², x_0 + x_1 <= 1: the pre-activation x_0 + x_1 − 0.5 reaches 0.5, not 1.5."""
    network = ReluNetwork.sequential([[[1.0, 1.0]], [[1.0]]], [[-0.5], [0.0]])
    bounds = bound_step(network, np.zeros(2), np.ones(2), [row([1.0, 1.0], -1.0)], 2, np.zeros(2, dtype=bool))
    assert bounds.unit_upper[0] == pytest.approx(0.5, abs=1e-6)
    assert bounds.unit_upper[0] >= 0.5
    assert bounds.output_upper[0] == pytest.approx(0.5, abs=1e-6)


def test_intervals_survive_infinite_sides() -> None:
    layer = Layer(np.array([[1.0, 0.0], [-2.0, 1.0], [0.0, 3.0]]), np.zeros(3))
    low, high = layer_interval(layer, np.array([-np.inf, -1.0]), np.array([1.0, 1.0]))
    assert not np.isnan(low).any()
    assert not np.isnan(high).any()
    assert low[0] == -np.inf
    assert high[0] == pytest.approx(1.0)
    assert high[1] == np.inf
    assert high[2] == pytest.approx(3.0)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_reachable_boxes_contain_every_feasible_trajectory(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = dataclasses.replace(random_problem(rng, relus=6, horizon=3), goal=())
    lower, upper = problem.box(problem.actions)
    discrete = np.array([v.is_discrete for v in problem.actions])
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        bounds = None
    for _ in range(30):
        actions = rng.uniform(lower, upper, (3, len(lower)))
        actions = np.where(discrete, np.round(actions), actions)
        initial = np.clip(
            np.round(rng.uniform(-2, 2, len(problem.states))), problem.initial_lower, problem.initial_upper
        )
        trajectory = simulate(problem, initial, actions)
        if check(problem, trajectory).max_violation > 0.0:
            continue
        assert bounds is not None, "a feasible plan exists, yet the bounds claim a proof of infeasibility"
        assert (bounds.state_lower <= trajectory.states).all()
        assert (trajectory.states <= bounds.state_upper).all()
        inputs = np.hstack([trajectory.states[:-1], actions])
        units = problem.dynamics.preactivations(inputs)
        assert (bounds.unit_lower <= units).all()
        assert (units <= bounds.unit_upper).all()


def chain(horizon: int, **changes: object) -> Problem:
    """s' = relu(s) − relu(−s) + a, with a in [−1, 1], from s = 0."""
    network = ReluNetwork.sequential(
        [[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [[1, -1, 1, -1]]], [[0] * 4, [0]]
    )
    problem = Problem(
        "chain", horizon, (Variable("s"),), (Variable("a", "continuous", -1.0, 1.0),), (),
        np.zeros(1), np.zeros(1), network, PiecewiseLinear.variable(2, 3),
    )  # fmt: skip
    return dataclasses.replace(problem, **changes)  # type: ignore[arg-type]


def test_unbounded_states_get_proven_reachable_bounds() -> None:
    bounds = reachable_bounds(chain(5))
    assert bounds.state_upper[-1, 0] >= 5.0
    assert np.isfinite(bounds.state_upper).all()


def test_equal_boxes_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import reluplan.bounds.reachability as reach

    calls = []

    def counting(*arguments: Any) -> StepBounds:
        calls.append(1)
        return bound_step(*arguments)

    monkeypatch.setattr(reach, "bound_step", counting)
    reachable_bounds(chain(200, states=(Variable("s", "continuous", -2.0, 2.0),)))
    assert len(calls) < 10


def test_the_deadline_keeps_bounds_valid() -> None:
    problem = chain(4)
    late = reachable_bounds(problem, deadline=0.0)
    assert (late.state_upper >= reachable_bounds(problem).state_upper - 1e-9).all()


def test_an_unbounded_input_is_named() -> None:
    problem = chain(2, actions=(Variable("push"),))
    with pytest.raises(InputError, match="'push'"):
        reachable_bounds(problem)


def test_constraints_bound_what_has_no_bounds() -> None:
    """flow >= 0 and flow <= level bound the flow, and imply level >= 0."""
    rows = (row([0.0, -1.0, 0.0], 0.0), row([-1.0, 1.0, 0.0], 0.0))
    bounds = reachable_bounds(chain(3, actions=(Variable("flow"),), constraints=rows, initial_upper=np.ones(1) * 2))
    assert bounds.action_lower[0, 0] == pytest.approx(0.0, abs=1e-6)
    assert bounds.action_upper[0, 0] == pytest.approx(2.0, abs=1e-6)
    assert bounds.state_lower[1, 0] == pytest.approx(0.0, abs=1e-6)


def test_an_unreachable_goal_is_proven_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="satisfies the goal"):
        reachable_bounds(chain(3, goal=(row([-1.0, 0.0, 0.0], 4.0),)))
    reachable_bounds(chain(4, goal=(row([-1.0, 0.0, 0.0], 4.0),)))


def test_impossible_constraints_are_proven_infeasible_at_their_step() -> None:
    with pytest.raises(InfeasibleError, match="at step 1 no state and action"):
        reachable_bounds(chain(3, constraints=(row([-1.0, 0.0, 0.0], 2.5),)))


def test_leaving_the_state_bounds_is_proven_infeasible() -> None:
    problem = chain(3, initial_lower=np.full(1, 9.0), initial_upper=np.full(1, 9.0))
    with pytest.raises(InfeasibleError, match="'s' lies outside its bounds"):
        reachable_bounds(dataclasses.replace(problem, states=(Variable("s", "continuous", -1.0, 1.0),)))
