"""The MILP against the functions that it encodes: fix the inputs, compare with `forward` and `evaluate`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from random_problems import random_function, random_network, random_problem
from reluplan.bounds.boxes import HorizonBounds, tightened
from reluplan.bounds.reachability import reachable_bounds
from reluplan.encoding.cuts import add_ideal_cuts
from reluplan.encoding.unroll import PlanModel, unroll
from reluplan.errors import InfeasibleError, InputError
from reluplan.optimisation.model import Model, ModelBuilder
from reluplan.optimisation.piecewise_rows import PiecewiseEncoder, Side
from reluplan.optimisation.solvers.base import SolveOptions, SolveStatus
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.problem.check import check
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import rollout

Array = NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)


def free_problem(rng: np.random.Generator, hidden: list[int], dense: bool, kind: str = "continuous") -> Problem:
    """Two open states, two actions, no constraints: everything the network can do."""
    network = random_network(rng, 4, hidden, 2, dense)
    bound = 3.0 if kind == "integer" else np.inf
    states = tuple(Variable(f"s{i}", kind, -bound, bound) for i in range(2))  # type: ignore[arg-type]
    actions = tuple(Variable(f"a{i}", "continuous", -1.0, 1.0) for i in range(2))
    zero = PiecewiseLinear.constant_of(0.0, 6)
    return Problem("free", 1, states, actions, (), -np.ones(2), np.ones(2), network, zero)


def with_inputs(model: PlanModel, state: Array, action: Array) -> Model:
    columns = np.concatenate([model.states[0], model.actions[0]])
    lower, upper = model.model.column_lower.copy(), model.model.column_upper.copy()
    lower[columns] = upper[columns] = np.concatenate([state, action])
    return dataclasses.replace(model.model, column_lower=lower, column_upper=upper)


@settings(max_examples=40, deadline=None)
@given(seeds, st.lists(st.integers(1, 6), min_size=1, max_size=4), st.booleans())
def test_fixed_inputs_give_the_output_of_forward(seed: int, hidden: list[int], dense: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = free_problem(rng, hidden, dense)
    plan_model = unroll(problem, reachable_bounds(problem))
    state, action = rng.uniform(-1, 1, 2), rng.uniform(-1, 1, 2)
    expected = problem.dynamics.forward(np.concatenate([state, action]))
    for sign in (1.0, -1.0):  # the outputs are determined: maximising and minimising them must agree
        model = with_inputs(plan_model, state, action)
        objective = np.zeros(model.column_count)
        objective[plan_model.states[1]] = sign
        outcome = HighsSolver().solve(dataclasses.replace(model, objective=objective), SolveOptions(gap=0.0))
        assert outcome.status is SolveStatus.OPTIMAL
        assert outcome.solution is not None
        assert outcome.solution[plan_model.states[1]] == pytest.approx(expected, abs=1e-6)


def test_a_global_big_m_gives_the_same_output() -> None:
    rng = np.random.default_rng(5)
    problem = free_problem(rng, [5, 4], dense=True)
    plan_model = unroll(problem, reachable_bounds(problem), big_m=100.0)
    assert int(plan_model.model.integer.sum()) == problem.dynamics.relu_count
    state, action = np.array([0.3, -0.7]), np.array([0.1, 0.9])
    outcome = HighsSolver().solve(with_inputs(plan_model, state, action), SolveOptions())
    assert outcome.solution is not None
    expected = problem.dynamics.forward(np.concatenate([state, action]))
    assert outcome.solution[plan_model.states[1]] == pytest.approx(expected, abs=1e-4)


def test_integer_states_take_the_nearest_integer() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem = free_problem(rng, [4], dense=True, kind="integer")
        plan_model = unroll(problem, reachable_bounds(problem))
        state, action = rng.integers(-1, 2, 2).astype(float), rng.uniform(-1, 1, 2)
        outcome = HighsSolver().solve(with_inputs(plan_model, state, action), SolveOptions())
        assert outcome.solution is not None
        expected = np.floor(problem.dynamics.forward(np.concatenate([state, action])) + 0.5)
        assert outcome.solution[plan_model.states[1]] == pytest.approx(expected, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from(list(Side)))
def test_encoded_functions_have_their_true_value(seed: int, side: Side) -> None:
    """Pushed to the side that the rows exclude, an encoded function stops exactly at its value."""
    rng = np.random.default_rng(seed)
    function = random_function(rng, [0, 1, 2], 3, depth=3)
    lower, upper = np.full((1, 3), -2.0), np.full((1, 3), 2.0)
    builder = ModelBuilder()
    columns = builder.add_columns(lower, upper)
    encoder = PiecewiseEncoder(builder, columns, lower, upper)
    form = encoder.encode(function, side, "reward")
    directions = {Side.BELOW: (1.0,), Side.ABOVE: (-1.0,), Side.EXACT: (1.0, -1.0)}[side]
    point = rng.uniform(-2, 2, (1, 3))
    for direction in directions:
        model = builder.build()
        lower_x, upper_x = model.column_lower.copy(), model.column_upper.copy()
        lower_x[columns] = upper_x[columns] = point
        objective = np.zeros(model.column_count)
        np.add.at(objective, form.columns[0], direction * form.coefficients)
        fixed = dataclasses.replace(model, column_lower=lower_x, column_upper=upper_x, objective=objective)
        outcome = HighsSolver().solve(fixed, SolveOptions(gap=0.0))
        assert outcome.objective is not None
        value = direction * outcome.objective + form.constant
        assert value == pytest.approx(float(function.evaluate(point)[0]), abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_a_simulated_plan_is_a_complete_start(seed: int) -> None:
    """The assignment of any simulated plan that satisfies the problem satisfies every row, at its own value."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=5, horizon=3)
    problem = dataclasses.replace(problem, constraints=(), goal=(), reward=problem.reward)
    try:
        plan_model = unroll(problem, reachable_bounds(problem))
    except InfeasibleError:
        return
    lower, upper = problem.box(problem.actions)
    actions = rng.uniform(lower, upper, (3, len(lower)))
    actions = np.where([v.is_discrete for v in problem.actions], np.round(actions), actions)
    initial = np.round(rng.uniform(problem.initial_lower, problem.initial_upper))
    initial = np.clip(initial, problem.initial_lower, problem.initial_upper)
    trajectory = rollout(problem, initial, actions)
    low, high = problem.box(problem.states)
    if (trajectory.states < low).any() or (trajectory.states > high).any():
        return
    x = plan_model.assignment(trajectory)
    assert plan_model.model.violation(x) <= 1e-7
    assert plan_model.model.value(x) == pytest.approx(trajectory.total_reward, abs=1e-9)


def test_stable_units_leave_the_model() -> None:
    rng = np.random.default_rng(0)
    problem = free_problem(rng, [8], dense=True)
    bounds = reachable_bounds(problem)
    plan_model = unroll(problem, bounds)
    assert int(plan_model.model.integer.sum()) == int(bounds.unstable.sum())
    none = tightened(bounds, {"unit_lower": np.ones_like(bounds.unit_lower)})
    assert int(unroll(problem, none).model.integer.sum()) == 0


def test_the_model_grows_linearly_with_the_horizon() -> None:
    """500 steps of a reservoir-sized network: more than 40,000 rows, the same number a step."""
    problem = dataclasses.replace(free_problem(np.random.default_rng(1), [32], dense=True), horizon=500)
    one = reachable_bounds(problem.with_horizon(1))
    stacked = HorizonBounds(
        **{
            field.name: np.repeat(getattr(one, field.name)[:1], 501 if field.name.startswith("state") else 500, axis=0)
            for field in dataclasses.fields(one)
            if not field.name.startswith("auxiliary")
        },
        auxiliary_lower=np.zeros((501, 0)),
        auxiliary_upper=np.zeros((501, 0)),
    )
    rows = unroll(problem, stacked).model.row_count
    assert rows == 500 * unroll(problem.with_horizon(1), one).model.row_count
    assert rows >= 40_000


def test_a_non_concave_reward_needs_bounds() -> None:
    function = PiecewiseLinear.maximum([PiecewiseLinear.variable(0, 1), PiecewiseLinear.constant_of(0.0, 1)])
    builder = ModelBuilder()
    endless = np.full((1, 1), np.inf)
    encoder = PiecewiseEncoder(builder, builder.add_columns(-endless, endless), -endless, endless)
    with pytest.raises(InputError, match="the reward has a non-concave"):
        encoder.encode(function, Side.BELOW, "reward")
    encoder.encode(function, Side.ABOVE, "reward")  # convex parts of what is minimised need none


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_ideal_cuts_keep_every_plan_and_tighten_the_relaxation(seed: int) -> None:
    """Simulated plans satisfy every cut; the LP's bound is never weaker, and never below a plan."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=4, horizon=2)
    try:
        plan_model = unroll(problem, reachable_bounds(problem))
    except InfeasibleError:
        return
    cut = add_ideal_cuts(plan_model)
    extra = slice(plan_model.model.row_count, None)
    for _ in range(50):
        start = rng.uniform(problem.initial_lower, problem.initial_upper)
        start = np.where(problem.discrete_states, np.round(start), start)
        low, high = problem.box(problem.actions)
        actions = rng.uniform(low, high, (2, len(low)))
        actions = np.where([v.is_discrete for v in problem.actions], np.round(actions), actions)
        found = rollout(problem, start, actions, np.zeros((3, 0)))
        if check(problem, found).ok:
            x = plan_model.assignment(found)
            assert ((cut.matrix @ x)[extra] <= cut.row_upper[extra] + 1e-6).all()
    relaxed = [m.relaxed() for m in (plan_model.model, cut)]
    before, after = (HighsSolver().solve(m, SolveOptions()).objective for m in relaxed)
    if before is not None and after is not None:
        assert after <= before + 1e-6 * max(1.0, abs(before))


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 5, 7, 9, 10])
def test_the_optimum_is_the_same_with_ideal_cuts(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), relus=5, horizon=3)
    plan_model = unroll(problem, reachable_bounds(problem))
    found = [HighsSolver().solve(m, SolveOptions(gap=1e-7)) for m in (plan_model.model, add_ideal_cuts(plan_model))]
    assert found[0].status is found[1].status
    if found[0].objective is not None and found[1].objective is not None:
        assert found[1].objective == pytest.approx(found[0].objective, rel=1e-5, abs=1e-5)
