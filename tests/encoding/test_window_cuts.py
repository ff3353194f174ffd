"""Cuts of windows: no plan that is better than the incumbent is cut off, and the model knows what the windows prove."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patience import AMPLE
from random_problems import random_problem, with_final_reward
from reluplan.bounds.boxes import AllPlanBounds
from reluplan.bounds.reachability import reachable_bounds
from reluplan.bounds.span import Span
from reluplan.clock import Clock
from reluplan.encoding.extract import extract
from reluplan.encoding.unroll import PlanModel, unroll
from reluplan.encoding.window_cuts import WindowCut, with_window_cuts
from reluplan.errors import InfeasibleError
from reluplan.optimisation.persistent_lp import PersistentLp
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.run import Run
from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.lagrangian.cuts import window_cuts
from reluplan.proofs.lagrangian.decomposition import Decomposition, Key, WindowBound
from reluplan.proofs.lagrangian.proof import LagrangianProof
from reluplan.proofs.lagrangian.subproblem import window_subproblems
from reluplan.proofs.proof_state import ProofState

SPANS = (
    [Span(0, 1), Span(1, 2)],
    [Span(0, 1, 2), Span(2, 1)],
    [Span(0, 2), Span(2, 1)],
    [Span(0, 1), Span(1, 1), Span(2, 1)],
)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("highs", 2) as workers:
        yield workers


def solved(seed: int) -> tuple[Problem, AllPlanBounds, Trajectory] | None:
    """A problem of three steps, half of them with a final reward and a discount, and a plan of it."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=2, horizon=3)
    problem = with_final_reward(rng, problem) if rng.random() < 0.5 else problem
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return None
    found = best_plan(problem, unroll(problem, bounds), 0.3)
    return None if found is None else (problem, bounds, found)


def best_plan(problem: Problem, model: PlanModel, gap: float) -> Trajectory | None:
    solution = HighsSolver().solve(model.model, SolveOptions(gap=gap)).solution
    found = None if solution is None else extract(model, solution)
    return found if found is not None and check(problem, found).ok else None


def relaxation(model: PlanModel) -> float:
    """The LP relaxation's bound."""
    columns = np.arange(model.model.column_count)
    return PersistentLp(model.model).maximum(columns, model.model.objective) + model.model.offset


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), which=st.integers(0, len(SPANS) - 1), size=st.sampled_from([0.0, 0.3, 3.0]))
def test_cuts_of_any_multipliers_keep_every_plan(pool: WorkerPool, seed: int, which: int, size: float) -> None:
    """Over boxes of all plans they hold for all plans: the optimum stays the same, and is a point of the model. The LP
    relaxation with all cuts of one partition is no weaker than their sum, up to what cuts are weaker by."""
    case = solved(seed)
    if case is None:
        return
    problem, bounds, found = case
    subproblems = window_subproblems(problem, bounds, SPANS[which], found)
    known: dict[Key, WindowBound] = {}
    decomposition = Decomposition(subproblems, found, pool, np.random.default_rng(seed), known=known)
    shape = len(subproblems) + 1, 2 * len(problem.states)
    multipliers = decomposition.tied(np.random.default_rng(seed).normal(size=shape) * size)
    total = decomposition.evaluate(multipliers, time.monotonic() + AMPLE, 1e-6).total
    cuts = window_cuts(known, found, 100)
    model = unroll(problem, bounds)
    strengthened = with_window_cuts(model, cuts)
    assert sum(cut.span.count for cut in cuts) >= len(SPANS[which])
    best = best_plan(problem, model, 1e-7)
    assert best is not None
    for plan in (found, best):
        assert min(cut.slack(plan) for cut in cuts) >= -1e-6
        x = strengthened.assignment(plan)
        assert strengthened.model.violation(x) < 1e-5
        assert strengthened.model.value(x) == pytest.approx(plan.total_reward, abs=1e-6)
    again = best_plan(problem, strengthened, 1e-7)
    assert again is not None
    assert again.total_reward == pytest.approx(best.total_reward, abs=1e-4 * max(1.0, abs(best.total_reward)))
    assert relaxation(strengthened) <= total + 1e-5 * max(1.0, abs(total))
    assert relaxation(strengthened) >= best.total_reward - 1e-6


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_the_proof_leaves_cuts_that_better_plans_satisfy(pool: WorkerPool, seed: int) -> None:
    """After a proof that began with a poor plan, and went on after a better one had come."""
    case = solved(seed)
    if case is None:
        return
    problem, bounds, poor = case
    run = Run(problem, Clock(AMPLE), 1e-6)
    run.incumbent.offer_plan(poor, "test")
    state = ProofState(problem, run.incumbent, bounds, pool, run.clock)
    best = best_plan(problem, unroll(problem, bounds), 1e-7)
    assert best is not None
    proof = LagrangianProof()
    proof.improve(state, time.monotonic() + 0.5)
    if best.total_reward > poor.total_reward + 1e-6:
        assert all(cut.slack(best) >= -1e-6 for cut in state.cuts)
    run.incumbent.offer_plan(best, "test")
    proof.improve(state, time.monotonic() + 0.5)
    assert run.incumbent.bound >= best.total_reward - 1e-9


def test_states_without_bounds_get_no_row() -> None:
    case = next(found for found in map(solved, range(50)) if found is not None)
    model = unroll(case[0], case[1])
    model.model.column_lower[model.states[1]] = -math.inf
    count = len(case[0].states)
    values, hinges = np.ones(2 * count), np.zeros(count)
    cut = WindowCut(Span(0, 1), values, hinges, values, hinges, 1.0)
    assert with_window_cuts(model, [cut]).model.row_count == model.model.row_count
    assert with_window_cuts(model, []) is model
