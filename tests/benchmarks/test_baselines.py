"""The baselines judge plans as the product does, climb along true gradients, and return only checked plans."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.baselines.__main__ import METHODS
from benchmarks.baselines.best import Best
from benchmarks.baselines.rollouts import Array, Rollouts
from benchmarks.baselines.slopes import gradient
from benchmarks.systems.obstacles import SYSTEM as OBSTACLES
from reluplan.errors import InputError
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import simulate
from systems import DRAINING, TANK, TANK_OPTIMUM

SECONDS = 0.5


@pytest.fixture
def puck(tmp_path: Path) -> Problem:
    """The puck close to an obstacle; pushes and a few random units stand in for the trained network."""
    rng = np.random.default_rng(0)
    hidden = Layer(rng.normal(size=(6, 4)), rng.normal(size=6))
    output = Layer(np.hstack([np.zeros((2, 2)), 0.5 * np.eye(2), 0.05 * rng.normal(size=(2, 6))]), np.zeros(2))
    network = ReluNetwork(4, (hidden,), output)
    problem = Problem.load(replace(OBSTACLES, network=lambda: network).make(tmp_path)).with_horizon(6)
    near = np.array([1.0, 1.0, 0.0, 0.0])
    return replace(problem, initial_lower=near, initial_upper=near)


@pytest.fixture
def write_problem(tmp_path: Path) -> Callable[[str], Problem]:
    def write(text: str) -> Problem:
        path = tmp_path / "problem.toml"
        path.write_text(text)
        return Problem.load(path)

    return write


@pytest.fixture
def tank(write_problem: Callable[[str], Problem]) -> Problem:
    return write_problem(TANK)


def random_plans(problem: Problem, count: int) -> Array:
    lower, upper = problem.box(problem.actions)
    return np.random.default_rng(2).uniform(lower, upper, (count, problem.horizon, len(lower)))


def test_plans_are_judged_as_the_product_does(puck: Problem, tank: Problem) -> None:
    for problem in (puck, tank):
        plans = random_plans(problem, 40)
        judged = Rollouts(problem).judge(plans)
        for plan, reward, broken, allowed in zip(plans, judged.rewards, judged.broken, judged.allowed, strict=True):
            report = check(problem, simulate(problem, problem.initial_lower, plan))
            assert reward == pytest.approx(report.reward)
            assert allowed == report.ok
            assert (broken > 1e-3) <= (not report.ok)
        assert 0 < judged.allowed.sum() < len(plans)


def test_gradients_are_those_of_the_penalised_reward(puck: Problem) -> None:
    """Central differences at random plans, where no maximum is tied."""
    rollouts = Rollouts(puck)
    plans = random_plans(puck, 5)
    best = Best(rollouts, math.inf)
    best.weight = 7.0
    found = gradient(rollouts, rollouts.states(plans), plans, best.weight)
    rng = np.random.default_rng(3)
    for _ in range(20):
        direction = rng.normal(size=plans.shape)
        ahead, behind = (best.scores(plans + sign * 1e-7 * direction) for sign in (1.0, -1.0))
        np.testing.assert_allclose((found * direction).sum(axis=(1, 2)), (ahead - behind) / 2e-7, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_only_checked_plans_are_returned(method: str, puck: Problem) -> None:
    best = METHODS[method](Rollouts(puck), time.monotonic() + SECONDS, 0)
    found = best.checked()
    assert found is not None
    assert check(puck, found).ok
    assert found.total_reward == pytest.approx(best.reward)


@pytest.mark.parametrize("method", METHODS)
def test_easy_problems_are_nearly_solved(method: str, tank: Problem) -> None:
    found = METHODS[method](Rollouts(tank), time.monotonic() + SECONDS, 0).checked()
    assert found is not None
    assert TANK_OPTIMUM - 0.5 <= found.total_reward <= TANK_OPTIMUM + 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_there_is_no_plan_where_none_is_allowed(method: str, tank: Problem) -> None:
    impossible = replace(tank, initial_lower=np.array([20.0]), initial_upper=np.array([20.0]))
    assert METHODS[method](Rollouts(impossible), time.monotonic() + 0.2, 0).checked() is None


@pytest.mark.parametrize("method", METHODS)
def test_whole_numbered_actions_stay_whole(method: str, write_problem: Callable[[str], Problem]) -> None:
    problem = write_problem(TANK.replace("bounds = [0, 3]", 'bounds = [0, 3]\nkind = "integer"'))
    found = METHODS[method](Rollouts(problem), time.monotonic() + 0.2, 0).checked()
    assert found is not None
    assert set(found.actions.ravel()) <= {0.0, 1.0, 2.0, 3.0}


def test_what_the_baselines_do_not_know_is_refused(write_problem: Callable[[str], Problem]) -> None:
    with pytest.raises(InputError, match="one first state"):
        Rollouts(write_problem(DRAINING))
