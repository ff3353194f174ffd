"""Problems for back-substitution, and an incumbent that keeps every bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from random_problems import random_function, random_network, random_problem, with_final_reward
from reluplan.bounds.reachability import reachable_bounds
from reluplan.bounds.unrolled.plan_network import have_lines
from reluplan.errors import InfeasibleError
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, rollout


@dataclass
class Offers:
    """An incumbent without a plan, that keeps every bound."""

    plan: Trajectory | None = None
    is_proven: bool = False
    gap_target: float = 1e-4

    def __post_init__(self) -> None:
        self.bounds: list[float] = []

    def offer_bound(self, value: float, source: str, margin: float = 0.0) -> bool:
        self.bounds.append(value + margin)
        return True


def problem_of(seed: int, horizon: int = 2) -> Problem | None:
    """A small one of any kind, if it has finite boxes and perhaps a plan."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=2, horizon=horizon, auxiliary=bool(rng.random() < 0.3))
    problem = with_final_reward(rng, problem) if rng.random() < 0.5 else problem
    try:
        return problem if have_lines(reachable_bounds(problem)) else None
    except InfeasibleError:
        return None


def larger_problem(seed: int, horizon: int = 6) -> Problem:
    """Two layers, rows, a goal, a final reward and a discount; too large for brute force."""
    rng = np.random.default_rng(seed)
    states = tuple(Variable(f"s{i}", "continuous", -6.0, 6.0) for i in range(3))
    actions = tuple(Variable(f"a{i}", "continuous", -1.0, 1.0) for i in range(2))
    width = 8
    network = random_network(rng, 5, [8, 6], 3, dense=bool(rng.random() < 0.5))
    row = random_function(rng, [0, 1, 2, 3, 4], width, 1) - PiecewiseLinear.constant_of(3.0, width)
    goal = random_function(rng, [0, 1, 2], width, 1) - PiecewiseLinear.constant_of(4.0, width)
    return Problem(
        "larger",
        horizon,
        states,
        actions,
        (),
        np.zeros(3),
        np.zeros(3),
        network,
        random_function(rng, list(range(width)), width),
        (Constraint(row, False, "row"),),
        goal=(Constraint(goal, False, "goal"),),
        final_reward=random_function(rng, [0, 1, 2], width),
        discount=0.9,
    )


def best_sampled(problem: Problem, count: int = 100) -> float:
    """The best of random plans that keep every row and bound."""
    rng = np.random.default_rng(3)
    best = -math.inf
    for _ in range(count):
        actions = np.clip(rng.normal(size=(problem.horizon, 2)) * rng.choice([0.3, 1.0, 9.0]), -1.0, 1.0)
        one = rollout(problem, problem.initial_lower, actions)
        w = np.hstack([one.states[:-1], one.actions, one.states[1:]])
        ends = np.hstack([one.states[-1], np.zeros(5)])
        rows = [row.violation(w).max() for row in problem.constraints]
        rows += [float(row.violation(ends)) for row in problem.goal]
        if max(rows, default=0.0) <= 0.0 and np.abs(one.states).max() <= 6.0:
            best = max(best, one.total_reward)
    return best
