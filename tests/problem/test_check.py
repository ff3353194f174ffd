"""The check finds a planted violation of every family at its step and with its amount, and nothing in a valid plan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_problem
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.check import Violation, check
from reluplan.problem.expression import Constraint, Scope, parse_constraints
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, rollout
from reluplan.problem.tolerance import TOLERANCE

HORIZON = 4
STATES = (
    Variable("free"),
    Variable("boxed", "continuous", -1.0, 2.0),
    Variable("count", "integer", -5.0, 5.0),
    Variable("flag", "boolean", 0.0, 1.0),
    Variable("target"),
)
ACTIONS = (Variable("push", "continuous", 0.0, 1.0), Variable("shift", "integer", -2.0, 2.0))
AUXILIARIES = (Variable("slack", "continuous", -1.0, 1.0),)
quick = settings(deadline=None, max_examples=40)
steps = st.integers(1, HORIZON)
states_steps = st.integers(1, HORIZON + 1)
amounts = st.floats(1e-3, 50.0)


def rows(*texts: str) -> tuple[Constraint, ...]:
    current = [variable.name for variable in (*STATES, *ACTIONS, *AUXILIARIES)]
    later = [f"{variable.name}'" for variable in (*STATES, *AUXILIARIES)]
    scope = Scope({name: at for at, name in enumerate([*current, *later])}, {}, len(current) + len(later))
    return tuple(row for text in texts for row in parse_constraints(text, scope, "test"))


def plant() -> Problem:
    """States that stay as they are; every family of constraints has variables of its own."""
    count = len(STATES) + len(ACTIONS) + len(AUXILIARIES)
    return Problem(
        name="plant",
        horizon=HORIZON,
        states=STATES,
        actions=ACTIONS,
        auxiliaries=AUXILIARIES,
        initial_lower=np.array([-100.0, 0.0, 0.0, 0.0, -100.0]),
        initial_upper=np.array([100.0, 0.0, 0.0, 0.0, 100.0]),
        dynamics=ReluNetwork.sequential([np.eye(len(STATES), count)], [np.zeros(len(STATES))]),
        reward=PiecewiseLinear.variable(0, 14),
        constraints=rows("push <= 0.5 + abs(free)", "slack' == slack"),
        initial_constraints=rows("free + target >= -3"),
        goal=rows("0 <= target + slack", "free == 0"),
    )


PLANT = plant()


def valid() -> Trajectory:
    zeros = np.zeros
    return Trajectory(zeros((HORIZON + 1, 5)), zeros((HORIZON, 2)), zeros((HORIZON + 1, 1)), zeros(HORIZON))


def planted(part: str, step: int, column: int, value: float) -> Trajectory:
    trajectory = valid()
    getattr(trajectory, part)[step - 1, column] = value
    return trajectory


def assert_found(trajectory: Trajectory, text: str, step: int, amount: float, only: bool = True) -> None:
    report = check(PLANT, trajectory)
    (found,) = [violation for violation in report.violations if violation.constraint == text]
    assert found.step == step
    assert found.amount == pytest.approx(amount, rel=1e-12)
    assert report.ok is (report.max_violation <= TOLERANCE)
    assert report.max_violation == report.violations[0].amount
    if only:
        assert report.violations == (found,)


def test_a_valid_plan_has_no_violation() -> None:
    report = check(PLANT, valid())
    assert report.ok
    assert report.max_violation == 0.0
    assert report.violations == ()
    # Initial values, bounds of all variables, integrality, rounding ties, and the rows of C, I and G.
    assert report.constraint_count == 5 + 8 + 3 + 2 + 2 + 1 + 2


@quick
@given(states_steps, amounts, st.booleans())
def test_state_bounds(step: int, amount: float, above: bool) -> None:
    value = 2.0 + amount if above else -1.0 - amount
    trajectory = planted("states", step, 1, value)
    amount = value - 2.0 if above else -1.0 - value
    assert_found(trajectory, "-1 <= boxed <= 2", step, amount, only=step > 1)


@quick
@given(steps, amounts)
def test_action_bounds(step: int, amount: float) -> None:
    value = -amount
    assert_found(planted("actions", step, 0, value), "0 <= push <= 1", step, amount)


@quick
@given(states_steps, amounts)
def test_auxiliary_bounds(step: int, amount: float) -> None:
    value = 1.0 + amount
    assert_found(planted("auxiliaries", step, 0, value), "-1 <= slack <= 1", step, value - 1.0, only=False)


@quick
@given(steps, st.integers(-2, 2), st.floats(1e-3, 0.49), st.booleans())
def test_integrality_of_actions(step: int, whole: int, amount: float, above: bool) -> None:
    value = whole + (amount if above else -amount)
    off = abs(value - whole)
    assert_found(planted("actions", step, 1, value), "shift is integer", step, off, only=abs(value) <= 2.0)


@quick
@given(st.integers(2, HORIZON + 1), st.floats(1e-3, 0.49))
def test_integrality_of_states(step: int, amount: float) -> None:
    assert_found(planted("states", step, 2, 3.0 + amount), "count is integer", step, 3.0 + amount - 3.0)
    assert_found(planted("states", step, 3, amount), "flag is boolean", step, amount)


@quick
@given(amounts)
def test_initial_values(amount: float) -> None:
    assert_found(planted("states", 1, 1, -amount), "initial value of boxed", 1, amount, only=amount <= 1.0)
    assert_found(planted("states", 1, 0, 100.0 + amount), "initial value of free", 1, 100.0 + amount - 100.0)


@quick
@given(amounts)
def test_initial_rows(amount: float) -> None:
    value = -3.0 - amount
    assert_found(planted("states", 1, 4, value), "free + target >= -3", 1, -3.0 - value)


@quick
@given(steps, st.floats(1e-3, 0.5))
def test_rows_of_every_step(step: int, amount: float) -> None:
    value = 0.5 + amount
    assert_found(planted("actions", step, 0, value), "push <= 0.5 + abs(free)", step, value - 0.5)


@quick
@given(st.integers(2, HORIZON), st.floats(1e-3, 0.9), st.booleans())
def test_equalities_of_every_step(step: int, amount: float, above: bool) -> None:
    """slack' == slack is broken twice, on the way up and back; the first of equal violations is named."""
    value = amount if above else -amount
    assert_found(planted("auxiliaries", step, 0, value), "slack' == slack", step - 1, amount)


@quick
@given(amounts)
def test_goals_read_the_final_state_and_its_auxiliaries(amount: float) -> None:
    assert_found(planted("states", HORIZON + 1, 4, -amount), "0 <= target + slack", HORIZON + 1, amount)
    assert check(PLANT, planted("states", HORIZON, 4, -amount)).ok
    small = min(amount, 1.0)
    slack = planted("auxiliaries", HORIZON + 1, 0, -small)
    assert_found(slack, "0 <= target + slack", HORIZON + 1, small, only=False)


@quick
@given(amounts, st.booleans())
def test_goal_equalities(amount: float, above: bool) -> None:
    value = amount if above else -amount
    assert_found(planted("states", HORIZON + 1, 0, value), "free == 0", HORIZON + 1, amount)


def test_the_worst_step_is_named_and_the_worst_violation_comes_first() -> None:
    trajectory = valid()
    trajectory.states[2, 1], trajectory.states[3, 1] = 2.5, 4.0
    trajectory.actions[0, 0] = 1.25
    report = check(PLANT, trajectory)
    assert report.violations == (
        Violation("-1 <= boxed <= 2", 4, 2.0),
        Violation("push <= 0.5 + abs(free)", 1, 0.75),
        Violation("0 <= push <= 1", 1, 0.25),
    )


@pytest.mark.parametrize(("amount", "ok"), [(0.5 * TOLERANCE, True), (2.0 * TOLERANCE, False)])
def test_a_plan_may_miss_by_the_tolerance(amount: float, ok: bool) -> None:
    report = check(PLANT, planted("actions", 2, 0, -amount))
    assert report.ok is ok
    assert report.max_violation == amount


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("step", range(1, HORIZON + 2))
def test_a_state_that_is_no_number_is_no_plan(value: float, step: int) -> None:
    """Not even if the state has no bounds."""
    report = check(PLANT, planted("states", step, 0, value))
    assert not report.ok
    assert report.max_violation == np.inf
    assert step in [violation.step for violation in report.violations if violation.amount == np.inf]


def test_a_reward_that_is_no_number_is_no_plan() -> None:
    for value in (np.nan, np.inf, -np.inf):
        trajectory = valid()
        trajectory.rewards[1] = value
        assert not check(PLANT, trajectory).ok


@quick
@given(st.integers(0, 10**6))
def test_the_report_is_the_maximum_over_all_families(seed: int) -> None:
    """Against a plain loop, for random problems and random trajectories."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=3, horizon=3, auxiliary=bool(seed % 2))
    trajectory = rollout(
        problem,
        rng.normal(scale=2.0, size=len(problem.states)),
        rng.normal(size=(3, len(problem.actions))),
        rng.normal(size=(4, len(problem.auxiliaries))),
    )
    worst = 0.0
    for t in range(4):
        now = [*trajectory.states[t], *(trajectory.actions[t] if t < 3 else []), *trajectory.auxiliaries[t]]
        variables = problem.input_variables if t < 3 else problem.states + problem.auxiliaries
        for variable, value in zip(variables, now, strict=True):
            worst = max(worst, variable.lower - value, value - variable.upper)
            worst = max(worst, abs(value - round(value)) if variable.is_discrete else 0.0)
        after = [*trajectory.states[t + 1], *trajectory.auxiliaries[t + 1]] if t < 3 else []
        w = np.zeros(problem.layout.width)
        if t < 3:
            w[:] = [*now, *after]
        else:
            w[problem.layout.states], w[problem.layout.auxiliaries] = trajectory.states[t], trajectory.auxiliaries[t]
        for row in problem.constraints if t < 3 else problem.goal:
            value = float(row.function.evaluate(w))
            worst = max(worst, abs(value) if row.equality else value)
    first = trajectory.states[0]
    worst = max(worst, *(problem.initial_lower - first), *(first - problem.initial_upper))
    assert check(problem, trajectory).max_violation == pytest.approx(worst, rel=1e-9, abs=1e-12)
    assert check(problem, trajectory).reward == pytest.approx(float(trajectory.rewards.sum()), rel=1e-12)
