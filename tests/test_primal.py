"""The primal search: gradients, linear programs around a plan, and what the whole search finds."""

from __future__ import annotations

import time

import numpy as np
import pytest

from brute_force import optimum
from random_problems import random_problem
from reluplan.check import check
from reluplan.primal import search_plans
from reluplan.primal.box import search_box
from reluplan.primal.decisions import Decisions
from reluplan.primal.merit import Merit
from reluplan.primal.rollout import roll_out
from reluplan.problem import Problem
from reluplan.run import Clock, Run
from reluplan.simulate import Trajectory


def searched(problem: Problem, seconds: float = 3.0) -> Run:
    run = Run(problem, Clock(), 1e-4)
    search_plans(problem, None, time.monotonic() + seconds, run.offer_plan)
    return run


@pytest.mark.parametrize("seed", range(12))
def test_the_gradient_is_the_slope_of_the_merit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=6, horizon=4, auxiliary=bool(seed % 2))
    if problem.discrete_states.any():
        return
    merit = Merit(problem, 3.0)
    decisions = search_box(problem, None).random(rng, 1)
    _, gradient = merit.gradient(roll_out(problem, decisions))
    for name in ("initial", "actions", "auxiliaries"):
        values = getattr(decisions, name)
        for index in np.ndindex(values.shape):
            step = np.zeros_like(values)
            step[index] = 1e-7
            parts = {field: getattr(decisions, field) for field in ("initial", "actions", "auxiliaries")}
            ends = [Decisions(**{**parts, name: values + sign * step}) for sign in (-1.0, 1.0)]
            low, high = (merit.score(roll_out(problem, end)).merit(3.0)[0] for end in ends)
            assert getattr(gradient, name)[index] == pytest.approx((high - low) / 2e-7, abs=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_beats_the_optimum_and_all_are_checked(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), relus=2, horizon=1 + seed % 2, auxiliary=seed % 3 == 0)
    best = optimum(problem)
    accepted: list[Trajectory] = []
    run = Run(problem, Clock(), 1e-4)

    def sink(trajectory: Trajectory, source: str) -> bool:
        if run.offer_plan(trajectory, source):
            accepted.append(trajectory)
            return True
        return False

    search_plans(problem, None, time.monotonic() + 5.0, sink)
    assert all(check(problem, trajectory).ok for trajectory in accepted)
    if best is None:
        assert not accepted
    elif accepted:
        assert accepted[-1].total_reward <= best + 1e-4
