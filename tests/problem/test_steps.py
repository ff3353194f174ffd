"""Batches of steps: the same as one plan at a time, and satisfied where the check says so."""

from __future__ import annotations

import numpy as np
import pytest

from random_problems import random_function, random_network, random_problem
from reluplan import clock
from reluplan.errors import OutOfTimeError
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.problem.relu_compiler import ReluCompiler, pad
from reluplan.problem.rollout import Array, rollout, step_vectors
from reluplan.problem.steps import evaluate_steps, rollout_batch

COUNT = 20


def _plans(problem: Problem, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Initial states, actions and auxiliaries of some plans, within their boxes or within ±3."""

    def draw(lower: Array, upper: Array, *shape: int) -> Array:
        low, high = np.maximum(lower, -3.0), np.minimum(upper, 3.0)
        return rng.uniform(low, np.maximum(low, high), (COUNT, *shape, len(lower)))

    initial = draw(problem.initial_lower, problem.initial_upper)
    actions = draw(*problem.box(problem.actions), problem.horizon)
    auxiliaries = draw(*problem.box(problem.auxiliaries), problem.horizon + 1)
    return problem.round_states(initial), actions, auxiliaries


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_is_many_rollouts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=5, horizon=4, auxiliary=seed % 2 == 0)
    initial, actions, auxiliaries = _plans(problem, rng)
    states, active = rollout_batch(problem, initial, actions, auxiliaries)
    for i in range(COUNT):
        plan = rollout(problem, initial[i], actions[i], auxiliaries[i])
        np.testing.assert_allclose(states[i], plan.states, rtol=1e-9, atol=1e-9)
        inputs = np.hstack([plan.states[:-1], actions[i], auxiliaries[i, :-1]])
        units = problem.dynamics.preactivations(inputs)
        clear = np.abs(units) > 1e-9
        np.testing.assert_array_equal(active[:, i][clear], units[clear] > 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_steps_agree_with_the_rollout_and_the_check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = random_problem(rng, relus=5, horizon=1, auxiliary=seed % 2 == 0)
    problem = whole.part(
        0, 1, whole.initial_lower, whole.initial_upper, keeps_initial_rows=False, goal=(), final_reward=None
    )
    initial, actions, auxiliaries = _plans(problem, rng)
    steps = evaluate_steps(problem, np.hstack([initial, actions[:, 0], auxiliaries[:, 0]]), auxiliaries[:, 1])
    satisfied, rewards = steps.satisfy(), steps.rewards()
    rows = {constraint.text for constraint in problem.constraints}
    for i in range(COUNT):
        plan = rollout(problem, initial[i], actions[i], auxiliaries[i])
        np.testing.assert_allclose(steps.w[i], step_vectors(plan.states, plan.actions, plan.auxiliaries)[0])
        assert rewards[i] == pytest.approx(plan.total_reward)
        broken = [v.constraint for v in check(problem, plan).broken]
        assert satisfied[i] == (not rows.intersection(broken))
    assert len(steps.take(satisfied)) == satisfied.sum()


def test_a_batch_ends_at_its_deadline() -> None:
    rng = np.random.default_rng(0)
    problem = random_problem(rng, relus=5, horizon=50)
    plans = _plans(problem, rng)
    work = COUNT * problem.dynamics.operations / clock.OPERATIONS_PER_SECOND
    with clock.using(clock.WorkClock()):
        with pytest.raises(OutOfTimeError):
            rollout_batch(problem, *plans, deadline=9.5 * work)
        assert clock.now() == pytest.approx(10.0 * work)


@pytest.mark.parametrize("seed", range(10))
def test_compiled_functions_have_their_values(seed: int) -> None:
    """Functions of inputs and outputs of a network, as further outputs of it."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, [4, 2], 2)
    functions = [random_function(rng, list(range(5)), 5, depth=3) for _ in range(3)]
    compiler = ReluCompiler(3, network.hidden, network.output, slice(3, 5))
    rows = [compiler.append(function) for function in functions]
    weights = np.array([pad(row, compiler.width) for row, _ in rows])
    compiled = ReluNetwork(3, tuple(compiler.hidden), Layer(weights, np.array([bias for _, bias in rows])))
    x = rng.normal(size=(50, 3))
    w = np.hstack([x, network.forward(x)])
    expected = np.stack([function.evaluate(w) for function in functions], axis=-1)
    np.testing.assert_allclose(compiled.forward(x), expected, rtol=1e-9, atol=1e-9)


def test_a_part_of_a_problem_has_the_rows_that_hold_there() -> None:
    problem = random_problem(np.random.default_rng(1), horizon=5)
    lower, upper = problem.initial_lower - 1.0, problem.initial_upper + 1.0
    part = problem.part(0, 2, lower, upper, keeps_initial_rows=False, goal=(), final_reward=None)
    assert (part.horizon, part.initial_constraints, part.goal) == (2, (), ())
    np.testing.assert_array_equal([part.initial_lower, part.initial_upper], [lower, upper])
    first = problem.part(0, 5, lower, upper, keeps_initial_rows=True, goal=problem.goal, final_reward=None)
    assert (first.initial_constraints, first.goal) == (problem.initial_constraints, problem.goal)
    assert first.constraints is problem.constraints
