"""Slices of a search: of any length, interrupted at any moment, and with what others have found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_network, random_problem
from reluplan import clock
from reluplan.bounds.reachability import reachable_bounds
from reluplan.problem.check import check
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, rollout
from reluplan.search import PlanSearch
from reluplan.search.time_slice import TimeSlice, finish

SLICES = st.lists(st.sampled_from([0.0, 1e-5, 1e-4, 1e-3]), min_size=1, max_size=6)


class Taker:
    """Takes plans, and raises KeyboardInterrupt at one of them."""

    def __init__(self, interrupted_at: int = -1) -> None:
        self.plans: list[Trajectory] = []
        self._interrupted_at = interrupted_at

    def __call__(self, plan: Trajectory, source: str) -> bool:
        self.plans.append(plan)
        if len(self.plans) == self._interrupted_at:
            raise KeyboardInterrupt
        return True

    @property
    def rewards(self) -> list[float]:
        return [plan.total_reward for plan in self.plans]


def wide(hidden: list[int], horizon: int) -> Problem:
    """Two states that a random network moves, two actions, the less movement the better."""
    network = random_network(np.random.default_rng(0), 4, hidden, 2, dense=False)
    first = PiecewiseLinear.variable(4, 6)
    return Problem(
        name="wide", horizon=horizon, states=(Variable("s"), Variable("r")),
        actions=(Variable("a", "continuous", -1.0, 1.0), Variable("b")), auxiliaries=(),
        initial_lower=np.zeros(2), initial_upper=np.zeros(2), dynamics=network,
        reward=-PiecewiseLinear.maximum([first, -first]),
    )  # fmt: skip


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), SLICES)
def test_plans_of_any_slices_are_exact_and_ever_better(seed: int, slices: list[float]) -> None:
    problem = random_problem(np.random.default_rng(seed), relus=5, horizon=4, auxiliary=bool(seed % 2))
    taker = Taker()
    with clock.using(clock.WorkClock()):
        search = PlanSearch(problem, taker)
        for length in slices:
            search.run(clock.now() + length)
    assert taker.rewards == sorted(taker.rewards)
    for plan in taker.plans:
        assert check(problem, plan).ok
        again = rollout(problem, plan.states[0], plan.actions, plan.auxiliaries)
        assert np.array_equal(again.states, plan.states)


@pytest.mark.parametrize("moment", [1, 2])
def test_after_an_interruption_the_search_goes_on_from_the_best(moment: int) -> None:
    problem = random_problem(np.random.default_rng(101), relus=6, horizon=4)
    taker = Taker(moment)
    with clock.using(clock.WorkClock()):
        search = PlanSearch(problem, taker)
        with pytest.raises(KeyboardInterrupt):
            search.run(clock.now() + 0.02)
        search.run(clock.now() + 0.005)
    assert taker.rewards == sorted(taker.rewards)


def test_tiny_slices_do_what_long_ones_do() -> None:
    problem = random_problem(np.random.default_rng(101), relus=6, horizon=4)
    rewards = []
    for count in (1, 40):
        taker = Taker()
        with clock.using(clock.WorkClock()):
            search = PlanSearch(problem, taker)
            for _ in range(count):
                search.run(clock.now() + 0.01 / count)
        rewards.append(taker.rewards[-1])
    assert rewards[1] == pytest.approx(rewards[0], abs=1e-3)


def test_better_plans_of_others_and_boxes_are_taken_up() -> None:
    problem = random_problem(np.random.default_rng(101), relus=6, horizon=4)
    first, second = Taker(), Taker()
    with clock.using(clock.WorkClock()):
        PlanSearch(problem, first).run(0.01)
        best = first.plans[-1]
        search = PlanSearch(problem, second)
        search.run(clock.now() + 1e-4, reachable_bounds(problem), best)
        search.run(clock.now() + 0.005)
    assert min(second.rewards) >= best.total_reward


@pytest.mark.parametrize(("hidden", "horizon"), [([8], 20_000), ([512, 512], 300)])
def test_the_first_plan_is_one_batch_away(hidden: list[int], horizon: int) -> None:
    """After the work of at most 1e8 operations, or of the rollouts of two plans if that is more."""
    problem = wide(hidden, horizon)
    taker = Taker()
    one = horizon * problem.dynamics.operations
    with clock.using(clock.WorkClock()):
        search = PlanSearch(problem, taker)
        assert clock.now() == 0.0
        search.run(1e-3)
        assert taker.plans
        assert clock.now() <= 1e-3 + (max(1e8, 2.0 * one) + 3e8) / clock.OPERATIONS_PER_SECOND


def test_the_search_goes_on_when_all_is_settled_and_ends_where_nothing_is_to_be_decided() -> None:
    problem = random_problem(np.random.default_rng(2), relus=2, horizon=1)
    fixed = replace(problem, actions=tuple(replace(v, lower=0.0, upper=0.0) for v in problem.actions))
    fixed = replace(fixed, auxiliaries=(), initial_lower=fixed.initial_upper)
    with clock.using(clock.WorkClock()):
        search = PlanSearch(problem, Taker(), heuristics=("simple-plans", "constant-actions"))
        search.run(clock.now() + 0.001)
        assert search.rounds > 1
        assert not search.exhausted
        search = PlanSearch(fixed, Taker(), heuristics=("simple-plans", "constant-actions"))
        search.run(clock.now() + 1.0)
        assert search.exhausted


def test_work_waits_for_a_slice_in_which_it_fits_unless_none_is_long_enough() -> None:
    with clock.using(clock.WorkClock()):
        time = TimeSlice()
        time.begin(2.0)
        clock.spend(1.5e9)
        assert next(time.pause(1.0), "done") is None
        assert next(time.pause(5.0), "done") == "done"
        assert next(time.pause(0.1), "done") == "done"
        with time.at_most(0.2):
            assert next(time.pause(0.5), "done") == "done"
            clock.spend(0.3e9)
            assert next(time.pause(), "done") is None
        assert not time.over
    finish(TimeSlice().pause(1e9))
