"""Multipliers by sampling, plans that follow them, windows that merge: guides, that no bound may depend on."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from patience import AMPLE
from random_problems import random_problem
from reluplan import clock
from reluplan.bounds.boxes import AllPlanBounds
from reluplan.bounds.reachability import reachable_bounds
from reluplan.bounds.span import Span
from reluplan.clock import Clock, WorkClock
from reluplan.encoding.extract import extract
from reluplan.encoding.unroll import unroll
from reluplan.errors import InfeasibleError
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory, rollout
from reluplan.proofs.lagrangian.decomposition import Decomposition
from reluplan.proofs.lagrangian.following_plan import following_plan
from reluplan.proofs.lagrangian.iterate import DualAscent, Iterate
from reluplan.proofs.lagrangian.merge_windows import merge_windows
from reluplan.proofs.lagrangian.sampled_dual import sampled_multipliers
from reluplan.proofs.lagrangian.settings import (
    LagrangianSettings,
    PopulationSettings,
    SampledDualSettings,
    WindowBudget,
)
from reluplan.proofs.lagrangian.subproblem import window_subproblems
from reluplan.proofs.lagrangian.window_population import WindowPopulation
from reluplan.proofs.proof_state import ProofState

Array = NDArray[np.float64]
FEW = SampledDualSettings(population=PopulationSettings(size=16, generations=10))
SPANS = ([Span(0, 1), Span(1, 1), Span(2, 1)], [Span(0, 2), Span(2, 1)], [Span(0, 1), Span(1, 2)])


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("highs", 1) as workers:
        yield workers


def solved(seed: int) -> tuple[Problem, AllPlanBounds, Trajectory, float] | None:
    """A problem of three steps with its best plan and a proven bound of all; None if it has no plan."""
    problem = random_problem(np.random.default_rng(seed), relus=2, horizon=3)
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return None
    model = unroll(problem, bounds)
    result = HighsSolver().solve(model.model, SolveOptions(gap=1e-7))
    found = None if result.solution is None else extract(model, result.solution)
    if found is None or not check(problem, found).ok:
        return None
    return problem, bounds, found, result.dual_bound


def some_multipliers(seed: int, windows: int, states: int) -> Array:
    multipliers = np.random.default_rng(seed).normal(size=(windows + 1, 2 * states))
    multipliers[[0, -1]] = 0.0
    return multipliers


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), which=st.integers(0, len(SPANS) - 1))
def test_windows_found_are_worth_no_more_than_the_milp_proves(pool: WorkerPool, seed: int, which: int) -> None:
    """Each is a window of its subproblem: its Lagrangian is at most D_i(λ)."""
    case = solved(seed)
    if case is None:
        return
    problem, bounds, found, _ = case
    subproblems = window_subproblems(problem, bounds, SPANS[which], found)
    decomposition = Decomposition(subproblems, found, pool, np.random.default_rng(seed))
    multipliers = some_multipliers(seed, len(subproblems), len(problem.states))
    evaluation = decomposition.evaluate(multipliers, time.monotonic() + AMPLE, 1e-6)
    for i, subproblem in enumerate(subproblems):
        population = WindowPopulation([subproblem], found, np.random.default_rng(seed), FEW.population, [i])
        population.climb(multipliers, math.inf)
        worth = population.best(0, multipliers).lagrangian(multipliers[i], multipliers[i + 1])
        allowed = 1e-4 * max(1.0, abs(evaluation.windows[i].bound))  # what tolerances of rows are worth
        assert (worth <= evaluation.windows[i].bound + allowed).all()


def test_a_search_makes_the_windows_found_better_than_random_ones() -> None:
    """Climbing never loses what it had."""
    case = next(case for case in map(solved, range(100)) if case is not None)
    problem, bounds, found, _ = case
    subproblems = window_subproblems(problem, bounds, SPANS[0], found)
    multipliers = some_multipliers(1, 3, len(problem.states))
    population = WindowPopulation(subproblems, found, np.random.default_rng(0), FEW.population, range(3))
    before = [population.best(i, multipliers).lagrangian(multipliers[i], multipliers[i + 1])[0] for i in range(3)]
    for _ in range(3):
        population.climb(multipliers, math.inf)
        after = [population.best(i, multipliers).lagrangian(multipliers[i], multipliers[i + 1])[0] for i in range(3)]
        assert (np.array(after) >= before).all()
        before = after


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_bounds_hold_with_the_multipliers_found(pool: WorkerPool, seed: int) -> None:
    """Whatever λ the sampling prefers, what the MILPs prove with it is a bound."""
    case = solved(seed)
    if case is None:
        return
    problem, bounds, found, best = case
    subproblems = window_subproblems(problem, bounds, SPANS[0], found)
    decomposition = Decomposition(subproblems, found, pool, np.random.default_rng(seed))
    multipliers = some_multipliers(seed, 3, len(problem.states))
    until = time.monotonic() + 1.0
    better = sampled_multipliers(decomposition, multipliers, np.ones_like(multipliers), until, 1e-3, FEW)
    assert (better[[0, -1]] == 0.0).all()
    assert decomposition.evaluate(better, time.monotonic() + AMPLE, 1e-4).total >= found.total_reward - 1e-9
    assert best >= found.total_reward - 1e-6 * max(1.0, abs(best))


def test_no_time_no_search(pool: WorkerPool) -> None:
    """Where the clock counts work, a search that cannot be afforded is not begun, and λ stay."""
    case = next(case for case in map(solved, range(100)) if case is not None)
    problem, bounds, found, _ = case
    subproblems = window_subproblems(problem, bounds, SPANS[0], found)
    multipliers = some_multipliers(1, 3, len(problem.states))
    with clock.using(WorkClock()):
        decomposition = Decomposition(subproblems, found, pool, np.random.default_rng(0), deadline=-math.inf)
        now = clock.now()
        same = sampled_multipliers(decomposition, multipliers, np.ones_like(multipliers), now, 1e-3, FEW)
        assert clock.now() == now
    assert (same == multipliers).all()


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_that_follows_multipliers_is_a_rollout(seed: int) -> None:
    """From where the plan begins, with actions inside their bounds."""
    case = solved(seed)
    if case is None:
        return
    problem, bounds, found, _ = case
    multipliers = some_multipliers(seed, problem.horizon, len(problem.states))
    plan = following_plan(problem, bounds, found, multipliers, problem.horizon, math.inf, seed, FEW)
    if plan is None:
        return
    again = rollout(problem, found.states[0], plan.actions, found.auxiliaries)
    assert (again.states == plan.states).all()
    low, high = problem.box(problem.actions)
    assert ((plan.actions >= low) & (plan.actions <= high)).all()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_merged_windows_prove_no_less_and_still_a_bound(pool: WorkerPool, seed: int) -> None:
    """D of both together is at most the sum, and at least what the best plan earns."""
    case = solved(seed)
    if case is None:
        return
    problem, bounds, found, _ = case
    state = ProofState(problem, Offers(found), bounds, pool, Clock())
    ascent = DualAscent(state, LagrangianSettings(), time.monotonic() + AMPLE, found)
    multipliers = some_multipliers(seed, problem.horizon, len(problem.states))
    decomposition = ascent.decompose(SPANS[0])
    evaluation = ascent.evaluate(decomposition, multipliers, 1e-6)
    before = Iterate(decomposition, evaluation, multipliers, WindowBudget(), 0.1)
    after = merge_windows(ascent, before)
    assert after.evaluation.total <= evaluation.total
    assert after.evaluation.total >= found.total_reward - 1e-9
    if after.evaluation is not evaluation:
        assert after.is_merged
        assert len(after.spans) == 2
        assert sum(span.length for span in after.spans) == problem.horizon


class Offers:
    """An incumbent that takes any bound."""

    gap_target = 1e-4
    is_proven = False

    def __init__(self, plan: Trajectory) -> None:
        self.plan: Trajectory | None = plan

    def offer_bound(self, value: float, source: str, margin: float = 0.0) -> bool:
        assert self.plan is not None
        assert value + margin >= self.plan.total_reward - 1e-9
        return True
