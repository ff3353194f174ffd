"""Stages that take turns: what they are rated by, interruptions at every moment, and runs that can be repeated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from brute_force import optimum
from patience import plan_patiently
from random_problems import random_network, random_problem
from reluplan.errors import InputError
from reluplan.planning.log import Event
from reluplan.planning.planner import plan
from reluplan.planning.rating import Rating, Standing, weights
from reluplan.planning.result import PlanResult
from reluplan.planning.settings import PortfolioSettings
from reluplan.problem.check import check
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import simulate
from reluplan.problem.tolerance import TOLERANCE

values = st.floats(-1e6, 1e6)


@given(reward=values, better=st.floats(0, 1e6), gap=st.floats(0, 1e6), closed=st.floats(0, 1), target=st.floats(0, 10))
def test_a_gain_is_never_negative_and_counts_halvings_alike(
    reward: float, better: float, gap: float, closed: float, target: float
) -> None:
    before = Standing(reward, reward + better + gap, target)
    after = Standing(reward + closed * better, reward + better + closed * gap, target)
    gain = after.gain_since(before)
    assert 0.0 <= gain < math.inf
    assert before.gain_since(before) == 0.0
    assert Standing(None, math.inf, target).gain_since(Standing(None, math.inf, target)) == 0.0
    assert Standing(reward, math.inf, target).gain_since(Standing(None, math.inf, target)) == 1.0


def test_halving_the_gap_gains_the_same_whatever_is_left() -> None:
    gains = [Standing(0.0, g / 2, 0.0).gain_since(Standing(0.0, g, 0.0)) for g in (1e6, 1.0, 1e-3)]
    assert gains == pytest.approx([math.log(2.0)] * 3)
    assert Standing(0.0, 0.5, 1.0).gain_since(Standing(0.0, 1.0, 1.0)) == 0.0  # below the target all is done


def test_catching_up_counts_less_the_farther_behind_a_bound_is() -> None:
    """Halving the own gap is worth promise · (gap / own gap) · ln 2."""
    gap = 1.0
    for own in (1.0, 10.0, 1000.0):
        before, after = (Standing(0.0, gap, 1e-6, own_bound=bound) for bound in (2.0 * own, own))
        assert after.gain_since(before, promise=0.3) == pytest.approx(0.3 * gap / own * math.log(2.0))


def test_a_first_bound_of_its_own_is_worth_more_the_nearer_it_is() -> None:
    """promise · gap / own gap, where others have proven more."""
    for own in (1.0, 2.0, 1000.0):
        before, after = (Standing(0.0, 1.0, 1e-6, own_bound=bound) for bound in (math.inf, own))
        assert after.gain_since(before, promise=0.3) == pytest.approx(0.3 / own)
        assert after.nearness == pytest.approx(1.0 / own)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_proof_has_its_first_turn_before_the_search_goes_on(threads: int) -> None:
    """What a proof shows at once must not wait for seconds of a search that has found the best plan."""
    events: list[Event] = []
    problem = random_problem(np.random.default_rng(3), relus=24, horizon=8)
    plan(problem, gap=1e-9, time_limit=8.0, threads=threads, on_event=events.append)
    begun = [event.stage for event in events if event.message == "begins"]
    turns = begun[begun.index("lagrangian") :]
    if "search" in turns:
        first = turns[: turns.index("search")]
        assert {"lagrangian", "relaxation", "prefix", "crown"} <= set(first)


def test_old_gains_fade_with_the_seconds_spent_in_vain() -> None:
    """A long turn in vain counts more than a short one."""
    rates = []
    for seconds in (0.0, 1.0, 2.0, 4.0):
        rating = Rating(PortfolioSettings(), patience=2.0)
        rating.record(1.0, math.log(2.0), math.log(2.0))
        if seconds:
            rating.record(seconds, 0.0, 0.0)
        rates.append(rating.gap_per_second)
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < rates[0] / 2.0 ** (4.0 / 2.0)


def test_what_gains_nothing_waits_longer_each_time() -> None:
    settings = PortfolioSettings()
    vain, other, search = (Rating(settings, 2.0), Rating(settings, 2.0), Rating(settings, 2.0, least=0.5))
    assert weights([vain, other, search], settings).tolist() == [settings.first_weight, settings.first_weight, 0.5]
    found = []
    for _ in range(6):
        vain.record(1.0, 0.0, 0.0)
        other.record(0.1, 0.0, 0.0)
        found.append(weights([vain, other, search], settings))
    of_vain = [each[0] for each in found]
    assert of_vain == sorted(of_vain, reverse=True)
    assert of_vain[-1] < 0.4 * of_vain[0]
    assert all(each[:2].sum() == pytest.approx(settings.exploration) for each in found)  # nobody gains
    search.record(1e3, 0.0, 0.0)
    assert weights([vain, other, search], settings)[2] == pytest.approx(0.5 * settings.search_hope)
    vain.record(1.0, 2.0, 1.0)
    assert weights([vain, other, search], settings)[0] == 1.0


@given(st.lists(st.tuples(st.floats(0.0, 1e9), st.floats(0.0, 1e3)), min_size=1, max_size=8))
def test_every_stage_has_its_turns_however_long_it_was_in_vain(known: list[tuple[float, float]]) -> None:
    settings = PortfolioSettings()
    ratings = []
    for seconds, gain in known:
        rating = Rating(settings, patience=2.0)
        rating.record(max(seconds, 1e-3), gain, gain)
        ratings.append(rating)
    found = weights(ratings, settings)
    assert (found > 0.0).all()
    assert np.isfinite(found).all()
    assert found.max() <= max(1.0, settings.exploration) + 1e-9


def blas_threads() -> list[int]:
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def drift(horizon: int = 12) -> Problem:
    """Two states that a random network moves: every stage has something to do, and none is done at once."""
    network = random_network(np.random.default_rng(4), 3, [8], 2)
    states = tuple(Variable(f"s{i}", "continuous", -4.0, 4.0) for i in range(2))
    near = [PiecewiseLinear.variable(3 + i, 5) for i in range(2)]
    reward = -(PiecewiseLinear.maximum([near[0], -near[0]]) + PiecewiseLinear.maximum([near[1], -near[1]]))
    start = np.array([2.0, -2.0])
    return Problem(
        "drift", horizon, states, (Variable("a", "continuous", -1.0, 1.0),), (), start, start, network, reward
    )


def assert_honest(problem: Problem, result: PlanResult, best: float) -> None:
    """What is said to be a plan is one, and what is said to be a bound is above the best plan."""
    assert result.bound is None or result.bound >= best - 1e-9
    if result.trajectory is not None:
        found = result.trajectory
        again = simulate(problem, found.states[0], found.actions, found.auxiliaries)
        assert again.total_reward == result.reward
        assert check(problem, again).max_violation <= TOLERANCE


def test_matrix_products_leave_the_milp_beside_them_its_core() -> None:
    """One thread less while stages take turns, and as many as before in the end."""
    before = blas_threads()
    seen: list[int] = []
    plan(drift(), gap=1e-9, time_limit=2.0, threads=2, on_event=lambda event: seen.append(max(blas_threads())))
    assert 1 in seen
    assert max(seen) <= 2
    assert blas_threads() == before


@pytest.mark.slow
def test_an_interruption_at_any_event_leaves_what_is_known() -> None:
    """Ctrl-C at the n-th event of the run, for n = 1, 2, 4, ... until the run is over before it."""
    problem = drift()
    best = plan_patiently(problem, lambda found: found.status == "optimal", gap=1e-4).reward
    assert best is not None
    number = 1
    while True:
        seen: list[str] = []

        def press(event: Event) -> None:
            seen.append(event.stage)  # noqa: B023
            if len(seen) == number:  # noqa: B023
                raise KeyboardInterrupt

        result = plan(problem, gap=1e-9, time_limit=1.0, threads=1 + number % 2, on_event=press)
        assert_honest(problem, result, best)
        if len(seen) < number:
            break
        assert result.interrupted
        number = 2 * number


@pytest.mark.parametrize("seed", range(6))
def test_turns_equal_brute_force(seed: int) -> None:
    """In turns on one thread and beside each other on two."""
    problem = random_problem(np.random.default_rng(200 + seed), relus=3, horizon=2, auxiliary=seed % 3 == 0)
    best = optimum(problem)
    for threads in (1, 2):
        result = plan_patiently(
            problem, lambda found: best is None or found.status == "optimal", gap=1e-3, threads=threads
        )
        if best is None:
            assert result.status in ("infeasible", "no_plan")
        else:
            assert_honest(problem, result, best)
            assert result.status == "optimal"


def test_shares_say_who_had_which_part_of_the_time() -> None:
    result = plan(drift(), gap=1e-9, time_limit=2.0)
    names = [share.stage for share in result.shares]
    assert len(names) == len(set(names))
    assert names
    assert all(share.turns >= 1 and share.seconds > 0.0 and share.halvings >= 0.0 for share in result.shares)
    assert result.to_dict()["shares"]


@pytest.mark.parametrize("method", ["auto", "base"])
def test_limits_in_work_give_the_same_result_every_time(method: str) -> None:
    """Plans, bounds and the order of the turns, to the last bit; other seeds may differ."""
    problem = drift(8)
    first, second = (
        plan(problem, method=method, time_limit=0.3, gap=1e-9, seed=3, deterministic=True) for _ in range(2)
    )
    assert first.trajectory is not None
    assert second.trajectory is not None
    assert (first.trajectory.actions == second.trajectory.actions).all()
    assert (first.reward, first.bound, first.status) == (second.reward, second.bound, second.status)
    assert [(s.stage, s.turns, s.seconds) for s in first.shares] == [
        (s.stage, s.turns, s.seconds) for s in second.shares
    ]


def test_work_is_counted_on_one_thread_only() -> None:
    with pytest.raises(InputError, match="--deterministic goes with one thread"):
        plan(drift(), threads=2, deterministic=True)
