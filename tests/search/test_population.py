"""Populations: what they sample, where they move, and that they find known optima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import optimum
from random_problems import random_problem
from reluplan import clock
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.check import check
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory
from reluplan.search import PlanSearch, PlanSink
from reluplan.search.box import search_box
from reluplan.search.context import Context
from reluplan.search.cross_entropy import fitted
from reluplan.search.merit import Merit, Score
from reluplan.search.noise import coloured
from reluplan.search.path_integral import weighted
from reluplan.search.population import Population, Sample, Update, evolve
from reluplan.search.settings import DEFAULTS, PopulationSettings
from reluplan.search.time_slice import TimeSlice, finish


def into(found: list[Trajectory]) -> PlanSink:
    def sink(plan: Trajectory, source: str) -> bool:
        found.append(plan)
        return True

    return sink


def context_of(problem: Problem) -> Context:
    rng = np.random.default_rng(0)
    return Context(problem, search_box(problem, None), TimeSlice(), lambda *_: True, rng, Merit.of(problem))


@pytest.mark.parametrize("length", [1, 2, 7, 20])
def test_noise_has_variance_one_and_is_smoother_for_larger_exponents(length: int) -> None:
    rng = np.random.default_rng(0)
    jumps = []
    for exponent in (0.0, 1.0, 3.0):
        noise = coloured(rng, np.full(20_000, exponent), length, 1)[..., 0]
        assert (noise**2).mean(axis=0) == pytest.approx(np.ones(length), abs=0.1)
        jumps.append(np.abs(np.diff(noise, axis=1)).sum())
    assert length <= 2 or jumps == sorted(jumps, reverse=True)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([fitted, weighted]))
def test_a_population_moves_to_its_best_plans(seed: int, update: Update) -> None:
    problem = random_problem(np.random.default_rng(seed), relus=4, horizon=3, auxiliary=bool(seed % 2))
    context = context_of(problem)
    before = Population.everywhere(context)
    shares, exponents = before.draw(context, 200)
    target = shares.take(np.array([7]))
    away = sum(((a - b) ** 2).reshape(200, -1).sum(axis=1) for a, b in zip(shares.parts, target.parts, strict=True))
    score = Score(-away, np.zeros(200), np.zeros(200))
    after = update(before, Sample(shares, exponents, score, penalty=1.0), DEFAULTS.population)

    def distance(population: Population) -> float:
        steps = population.mean.minus(target).parts
        return float(sum((part**2).sum() for part in steps))

    assert distance(after) < distance(before)
    assert all((part >= DEFAULTS.population.smallest_spread).all() for part in after.spread.parts)
    assert all(((part >= 0.0) & (part <= 1.0)).all() for part in shares.parts)


@pytest.mark.parametrize("name", ["cross-entropy", "path-integral"])
@pytest.mark.parametrize("seed", [0, 4, 9])
def test_the_optimum_of_small_problems_is_found_and_never_beaten(seed: int, name: str) -> None:
    problem = random_problem(np.random.default_rng(seed), relus=2, horizon=1 + seed % 2, auxiliary=seed % 3 == 0)
    best = optimum(problem)
    found: list[Trajectory] = []
    with clock.using(clock.WorkClock()):
        PlanSearch(problem, into(found), heuristics=(name,)).run(0.003)
    assert all(check(problem, plan).ok for plan in found)
    if best is None:
        assert not found
    else:
        assert best - 1e-3 <= found[-1].total_reward <= best + 1e-4


def hidden_hill(horizon: int, action: Variable) -> Problem:
    """s' = s + a from 0; only the last state pays, and only above a threshold far away: no gradient leads there."""
    width = 3
    beyond = PiecewiseLinear.variable(0, width) - PiecewiseLinear.constant_of(0.6 * horizon, width)
    nothing = PiecewiseLinear.constant_of(0.0, width)
    return Problem(
        name="hill", horizon=horizon, states=(Variable("s"),), actions=(action,), auxiliaries=(),
        initial_lower=np.zeros(1), initial_upper=np.zeros(1),
        dynamics=ReluNetwork(2, (), Layer(np.array([[1.0, 1.0]]), np.zeros(1))),
        reward=nothing, final_reward=PiecewiseLinear.maximum([beyond, nothing]),
    )  # fmt: skip


@pytest.mark.parametrize("update", [fitted, weighted])
@pytest.mark.parametrize("action", [Variable("a", "continuous", -1.0, 1.0), Variable("a", "integer", -1.0, 1.0)])
def test_smooth_noise_finds_what_gradients_do_not_see(
    action: Variable, update: Callable[[Population, Sample, object], Population]
) -> None:
    context = context_of(hidden_hill(20, action))
    finish(evolve(context, Population.everywhere(context), update, "test"))
    assert context.best is not None
    assert context.best.total_reward > 7.0


def test_a_forbidden_region_is_gone_round_or_jumped_over_but_not_entered() -> None:
    """|s' − 5| >= 2 at every step, |a| <= 5, to be at 9 in the end: one jump over the hole."""
    problem = hidden_hill(10, Variable("a", "continuous", -5.0, 5.0))
    away = PiecewiseLinear.variable(2, 3) - PiecewiseLinear.constant_of(5.0, 3)
    hole = PiecewiseLinear.constant_of(2.0, 3) - PiecewiseLinear.maximum([away, -away])
    last = PiecewiseLinear.variable(0, 3) - PiecewiseLinear.constant_of(9.0, 3)
    problem = replace(
        problem,
        constraints=(Constraint(hole, False, "abs(s' - 5) >= 2"),),
        final_reward=-PiecewiseLinear.maximum([last, -last]),
    )
    found: list[Trajectory] = []
    with clock.using(clock.WorkClock()):
        PlanSearch(problem, into(found), heuristics=("cross-entropy",)).run(0.005)
    assert all(check(problem, plan).ok for plan in found)
    assert found[-1].total_reward == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("update", [fitted, weighted])
def test_what_may_not_be_entered_is_searched_where_violations_cost_little(update: Update) -> None:
    """|s' − 4| >= 3 at every step, |a| <= 1, to be at 8 in the end: no plan is there. With the whole penalty the
    population stays before the hole; with a small one it ends behind it."""
    problem = hidden_hill(10, Variable("a", "continuous", -1.0, 1.0))
    away = PiecewiseLinear.variable(2, 3) - PiecewiseLinear.constant_of(4.0, 3)
    hole = PiecewiseLinear.constant_of(3.0, 3) - PiecewiseLinear.maximum([away, -away])
    last = PiecewiseLinear.variable(0, 3) - PiecewiseLinear.constant_of(8.0, 3)
    constraint = Constraint(hole, False, "abs(s' - 4) >= 3")
    problem = replace(problem, constraints=(constraint,), final_reward=-PiecewiseLinear.maximum([last, -last]))
    ends = []
    for first_share in (1.0, 0.01):
        context = context_of(problem)
        context.settings = replace(DEFAULTS, population=replace(DEFAULTS.population, rising=10_000))
        kept = finish(evolve(context, Population.everywhere(context), update, "test", first_share))
        assert kept is not None
        ends.append(float(context.box.at(kept.shares).actions[0].sum()))
        assert context.found  # what is passed on keeps every constraint
        assert context.best is not None
        assert context.best.states[-1, 0] <= 1.0 + 1e-6
    assert ends[0] <= 1.1
    assert ends[1] >= 7.0


@pytest.mark.parametrize("update", [fitted, weighted])
def test_the_penalty_rises_until_violations_cost_all_of_it(update: Update) -> None:
    """|s'| <= 1 is broken by every plan but few: with 1 % of the penalty at first, and all of it in the end."""
    problem = hidden_hill(6, Variable("a", "continuous", -1.0, 1.0))
    state = PiecewiseLinear.variable(2, 3)
    inside = PiecewiseLinear.maximum([state, -state]) - PiecewiseLinear.constant_of(1.0, 3)
    problem = replace(problem, constraints=(Constraint(inside, False, "abs(s') <= 1"),))
    context = context_of(problem)
    penalties: list[float] = []

    def noted(population: Population, sample: Sample, settings: PopulationSettings) -> Population:
        penalties.append(sample.penalty)
        assert sample.merits == pytest.approx(sample.score.reward - sample.penalty * sample.score.violation)
        return update(population, sample, settings)

    kept = finish(evolve(context, Population.everywhere(context), noted, "test", 0.01))
    assert kept is not None
    full = context.merit.penalty
    assert penalties[0] == pytest.approx(0.01 * full)
    assert penalties == sorted(penalties)
    assert kept.penalty == full or not kept.score.violation.any()


def test_where_a_sample_takes_too_long_there_is_none() -> None:
    problem = random_problem(np.random.default_rng(0), relus=4, horizon=3)
    context = context_of(problem)
    context.settings = replace(DEFAULTS, population=replace(DEFAULTS.population, operations=1e3))
    assert finish(evolve(context, Population.everywhere(context), fitted, "test")) is None
