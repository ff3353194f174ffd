"""Cells of actions: together they contain every plan, and the largest of their bounds is one of all plans."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import optimum
from crown_cases import Offers, best_sampled, larger_problem, problem_of
from reluplan import clock
from reluplan.bounds.reachability import forward_bounds, reachable_bounds
from reluplan.clock import Clock, WorkClock
from reluplan.errors import InfeasibleError
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.problem.rollout import rollout
from reluplan.proofs.crown.cells import Cell, whole
from reluplan.proofs.crown.settings import SplittingSettings
from reluplan.proofs.crown.splitting import SplittingProof
from reluplan.proofs.proof_state import ProofState

FEW = SplittingSettings(most_cells=12, iterations=3)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("highs", 1) as workers:
        yield workers


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_halves_contain_every_plan(seed: int) -> None:
    """Of any kind of action and of the first state; discrete values are in one of them alone."""
    problem = problem_of(seed)
    if problem is None:
        return
    cell = whole(reachable_bounds(problem))
    rng = np.random.default_rng(seed)
    for _ in range(6):
        halves = [Cell(*part, 0.0) for part in cell.halves(problem)]
        if not halves:
            break
        for _ in range(20):
            actions, state = (
                rng.uniform(cell.action_lower, cell.action_upper),
                rng.uniform(cell.state_lower, cell.state_upper),
            )
            actions = np.where([a.is_discrete for a in problem.actions], np.round(actions), actions)
            state = np.where(problem.discrete_states, np.round(state), state)
            assert any(
                (part.action_lower <= actions).all()
                and (actions <= part.action_upper).all()
                and (part.state_lower <= state).all()
                and (state <= part.state_upper).all()
                for part in halves
            )
        cell = halves[rng.integers(2)]


@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1))
def test_no_bound_is_below_the_optimum(pool: WorkerPool, seed: int) -> None:
    problem = problem_of(seed, horizon=1)
    if problem is None:
        return
    best, offers = optimum(problem), Offers()
    state = ProofState(problem, offers, reachable_bounds(problem), pool, Clock())
    SplittingProof(FEW).improve(state, math.inf)
    assert best is None or min(offers.bounds) >= best - 1e-6


@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1))
def test_no_sampled_plan_beats_it(pool: WorkerPool, seed: int) -> None:
    problem = larger_problem(seed, horizon=3)
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return
    offers = Offers()
    SplittingProof(FEW).improve(ProofState(problem, offers, bounds, pool, Clock()), math.inf)
    best = best_sampled(problem)
    assert best == -math.inf or min(offers.bounds) >= best - 1e-9


def test_splitting_closes_the_gap_of_a_short_plan(pool: WorkerPool) -> None:
    problem = replace(larger_problem(4, horizon=1), constraints=(), goal=())
    offers = Offers()
    proof = SplittingProof(SplittingSettings(most_cells=200, iterations=3))
    proof.improve(ProofState(problem, offers, forward_bounds(problem), pool, Clock()), math.inf)
    side = np.linspace(-1.0, 1.0, 41)
    best = max(rollout(problem, np.zeros(3), np.array([[x, y]])).total_reward for x in side for y in side)
    assert best <= min(offers.bounds) <= best + 0.05 * max(1.0, abs(best))
    assert min(offers.bounds) < offers.bounds[0]


def test_cells_that_are_interrupted_anywhere_hold(pool: WorkerPool) -> None:
    problem = replace(larger_problem(6, horizon=3), constraints=(), goal=())
    best = best_sampled(problem)
    work = WorkClock()
    with clock.using(work):
        bounds = forward_bounds(problem)
        offers = Offers()
        proof = SplittingProof(SplittingSettings(most_cells=30, iterations=3))
        state = ProofState(problem, offers, bounds, pool, Clock())
        for turn in range(60):
            proof.improve(state, work.now() + 1e-5 * 1.2**turn)
    assert len(offers.bounds) > 3
    assert min(offers.bounds) >= best


def test_cells_below_the_incumbent_are_closed(pool: WorkerPool) -> None:
    problem = replace(larger_problem(4, horizon=2), constraints=(), goal=())
    plan = rollout(problem, np.zeros(3), np.zeros((2, 2)))
    offers = Offers(plan=plan)
    proof = SplittingProof(FEW)
    proof.improve(ProofState(problem, offers, forward_bounds(problem), pool, Clock()), math.inf)
    assert min(offers.bounds) >= plan.total_reward
    assert min(offers.bounds) >= best_sampled(problem)


@pytest.mark.parametrize("horizon", [1, 4])
def test_early_actions_are_split_first(horizon: int) -> None:
    problem = larger_problem(1, horizon=horizon)
    first, _ = whole(forward_bounds(problem)).halves(problem)
    changed = np.argwhere(first[1] < 1.0)
    assert changed.tolist() == [[0, 0]]
