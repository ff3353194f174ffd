"""The LP relaxation of the whole horizon and of its windows: bounds and boxes hold for all better plans."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patience import AMPLE
from random_problems import random_problem, with_final_reward
from reluplan.bounds.boxes import BetterPlanBounds
from reluplan.bounds.reachability import reachable_bounds
from reluplan.clock import Clock
from reluplan.encoding.extract import extract
from reluplan.encoding.unroll import unroll
from reluplan.errors import InfeasibleError, NoBetterPlanError
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.run import Run
from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.lagrangian.lp_windows import lp_bounds, relax, total_bound, windows_of
from reluplan.proofs.lagrangian.prefix import PrefixProof
from reluplan.proofs.lagrangian.relaxation import RelaxationProof
from reluplan.proofs.lagrangian.settings import PrefixSettings
from reluplan.proofs.proof_state import ProofState


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("highs", 1) as workers:
        yield workers


def problem_of(seed: int) -> Problem:
    """Three steps, half of the time with a final reward and a discount, sometimes with an auxiliary."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=2, horizon=3, auxiliary=bool(rng.random() < 0.2))
    return with_final_reward(rng, problem) if rng.random() < 0.5 else problem


def plan_of(problem: Problem, bounds: BetterPlanBounds, gap: float) -> Trajectory | None:
    model = unroll(problem, bounds)
    solution = HighsSolver().solve(model.model, SolveOptions(gap=gap)).solution
    found = None if solution is None else extract(model, solution)
    return found if found is not None and check(problem, found).ok else None


def assert_contains(bounds: BetterPlanBounds, problem: Problem, plan: Trajectory) -> None:
    inputs = np.hstack([plan.states[:-1], plan.actions, plan.auxiliaries[:-1]])
    units = problem.dynamics.preactivations(inputs)
    for name, values in (("state", plan.states), ("action", plan.actions), ("unit", units)):
        assert (values >= getattr(bounds, f"{name}_lower") - 1e-5).all()
        assert (values <= getattr(bounds, f"{name}_upper") + 1e-5).all()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), gap=st.sampled_from([0.5, 0.05]))
def test_bounds_and_boxes_hold_for_better_plans(pool: WorkerPool, seed: int, gap: float) -> None:
    """The optimum, by the whole MILP, stays within the boxes of plans that are better than a poor one."""
    problem = problem_of(seed)
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return
    poor, best = plan_of(problem, bounds, gap), plan_of(problem, bounds, 1e-7)
    if poor is None or best is None:
        return
    run = Run(problem, Clock(AMPLE), 1e-6)
    run.incumbent.offer_plan(poor, "test")
    state = ProofState(problem, run.incumbent, bounds, pool, run.clock)
    proof = RelaxationProof()
    try:
        proof.improve(state, time.monotonic() + AMPLE)
        proof.improve(state, time.monotonic() + AMPLE)
    except NoBetterPlanError:
        assert best.total_reward <= poor.total_reward + 1e-6
        return
    assert run.incumbent.bound >= best.total_reward - 1e-9
    if best.total_reward > poor.total_reward + 1e-5:
        assert_contains(state.boxes, problem, best)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), seconds=st.sampled_from([AMPLE, 0.3]))
def test_prefixes_prove_bounds_boxes_and_cuts(pool: WorkerPool, seed: int, seconds: float) -> None:
    """Whole turns, and turns that end in the middle of a MILP; a better plan comes between two of them."""
    problem = problem_of(seed)
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return
    poor, best = plan_of(problem, bounds, 0.5), plan_of(problem, bounds, 1e-7)
    if poor is None or best is None:
        return
    run = Run(problem, Clock(AMPLE), 1e-6)
    state = ProofState(problem, run.incumbent, bounds, pool, run.clock)
    proof = PrefixProof(PrefixSettings(first=1))
    try:
        for plan in (poor, best):
            run.incumbent.offer_plan(plan, "test")
            proof.improve(state, time.monotonic() + seconds)
            assert run.incumbent.bound >= best.total_reward - 1e-9
            if best.total_reward > poor.total_reward + 1e-5 and plan is poor:
                assert_contains(state.boxes, problem, best)
                assert all(cut.slack(best) >= -1e-6 for cut in state.cuts)
    except NoBetterPlanError:
        assert run.incumbent.reward is not None
        assert best.total_reward <= run.incumbent.reward + 1e-6
    finally:
        proof.close()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), length=st.integers(1, 3))
def test_windows_add_up_to_the_whole(seed: int, length: int) -> None:
    """With the LP's own multipliers nothing is lost by cutting it; with any others the sum is a bound."""
    problem = problem_of(seed)
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return
    windows = windows_of(problem, bounds, length)
    whole = relax(problem, windows, time.monotonic() + AMPLE)
    best = plan_of(problem, bounds, 1e-7)
    if whole is None or best is None:
        return
    found = lp_bounds(windows, whole.multipliers, time.monotonic() + AMPLE)
    assert found is not None
    total = total_bound(windows, found)
    assert min(total, whole.bound) >= best.total_reward - 1e-9
    other = lp_bounds(windows, whole.multipliers * 0.3, time.monotonic() + AMPLE)
    assert other is not None
    assert total_bound(windows, other) >= best.total_reward - 1e-9
    assert total == pytest.approx(whole.bound, abs=1e-4 * max(1.0, abs(whole.bound)))
