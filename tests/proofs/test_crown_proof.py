"""Back-substitution through the whole plan: no bound is below the optimum, whatever slopes and multipliers are."""

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
from reluplan.bounds.boxes import AllPlanBounds, BetterPlanBounds, HorizonBounds
from reluplan.bounds.reachability import forward_bounds, reachable_bounds
from reluplan.bounds.unrolled.plan_network import FunctionBoxes, PlanBoxes, PlanNetworks
from reluplan.clock import Clock, WorkClock
from reluplan.errors import InfeasibleError
from reluplan.network.relu_network import ReluNetwork
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import rollout
from reluplan.proofs.crown.parameters import Parameters
from reluplan.proofs.crown.proof import CrownProof
from reluplan.proofs.crown.relaxation import PlanRelaxation
from reluplan.proofs.crown.settings import CrownSettings
from reluplan.proofs.crown.start import best_start, box_shares, first_parameters
from reluplan.proofs.interval import interval_bound
from reluplan.proofs.proof_state import ProofState

seeds = st.integers(0, 2**32 - 1)
QUICK = CrownSettings(cycle=15, warm_up=10)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("highs", 1) as workers:
        yield workers


def state_of(problem: Problem, bounds: BetterPlanBounds, pool: WorkerPool) -> tuple[ProofState, Offers]:
    offers = Offers()
    return ProofState(problem, offers, bounds, pool, Clock()), offers


def relaxation_of(problem: Problem, bounds: BetterPlanBounds | None = None) -> PlanRelaxation:
    networks = PlanNetworks(problem)
    found = reachable_bounds(problem) if bounds is None else bounds
    return PlanRelaxation(problem, networks, PlanBoxes(problem, networks, found))


def random_parameters(rng: np.random.Generator, relaxation: PlanRelaxation) -> Parameters:
    """Any slopes and shares, any multipliers with their signs."""
    first = first_parameters(relaxation, box_shares(relaxation.problem, 1))
    arrays = {name: rng.random(array.shape) for name, array in first.arrays()}
    arrays["state_pushes"] -= 0.5
    return Parameters(**arrays)


@settings(max_examples=12)
@given(seeds)
def test_no_bound_is_below_the_optimum(seed: int) -> None:
    problem = problem_of(seed, horizon=1)
    if problem is None or (best := optimum(problem)) is None:
        return
    relaxation = relaxation_of(problem)
    rng = np.random.default_rng(seed)
    values = [relaxation.value(random_parameters(rng, relaxation)).value for _ in range(5)]
    values += [relaxation.value(first_parameters(relaxation, box_shares(problem, k))).value for k in (0, 1, 2)]
    assert min(values) >= best - 1e-6


@settings(max_examples=6)
@given(seeds)
def test_whatever_is_offered_is_a_bound(pool: WorkerPool, seed: int) -> None:
    problem = problem_of(seed)
    if problem is None or (best := optimum(problem)) is None:
        return
    state, offers = state_of(problem, reachable_bounds(problem), pool)
    proof = CrownProof(QUICK)
    proof.improve(state, math.inf)
    proof.improve(state, math.inf)  # stuck, it has nothing to add
    assert offers.bounds
    assert min(offers.bounds) >= best - 1e-6


@settings(max_examples=20)
@given(seeds, st.booleans())
def test_derivatives_are_those_of_finite_differences(seed: int, discrete: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = problem_of(seed, 3) if discrete else larger_problem(seed)
    if problem is None:
        return
    relaxation = relaxation_of(problem)
    here = random_parameters(rng, relaxation)
    slopes = relaxation.derivatives(relaxation.value(here))
    for name, array in here.arrays():
        direction = rng.normal(size=array.shape)
        if name.endswith("slopes"):
            low, high = unit_boxes(relaxation, name)
            direction[(low >= 0.0) | (high <= 0.0)] = 0.0  # lines of stable units have no slope to choose
        ends = [relaxation.value(replace(here, **{name: array + h * direction})).bound for h in (1e-7, -1e-7)]
        expected = float((getattr(slopes, name) * direction).sum())
        assert (ends[0] - ends[1]) / 2e-7 == pytest.approx(expected, rel=1e-3, abs=1e-4)


def unit_boxes(relaxation: PlanRelaxation, name: str) -> tuple[np.ndarray, np.ndarray]:
    parts: dict[str, HorizonBounds | FunctionBoxes] = {
        "unit_slopes": relaxation.boxes.bounds,
        "step_slopes": relaxation.boxes.step,
        "final_slopes": relaxation.boxes.final,
        "first_slopes": relaxation.boxes.first,
    }
    return parts[name].unit_lower, parts[name].unit_upper


@settings(max_examples=8)
@given(seeds)
def test_no_sampled_plan_beats_an_optimised_bound(pool: WorkerPool, seed: int) -> None:
    problem = larger_problem(seed)
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return
    state, offers = state_of(problem, bounds, pool)
    try:
        CrownProof(QUICK).improve(state, math.inf)
    except InfeasibleError:
        assert best_sampled(problem) == -math.inf
        return
    assert min(offers.bounds) >= best_sampled(problem) - 1e-9


def test_optimised_slopes_beat_intervals_and_plain_back_substitution(pool: WorkerPool) -> None:
    """Plain back-substitution on every problem, intervals on average by far."""
    gains = []
    for seed in range(4):
        problem = replace(larger_problem(seed), constraints=(), goal=())
        bounds = forward_bounds(problem)
        relaxation = relaxation_of(problem, bounds)
        plain = relaxation.value(first_parameters(relaxation, box_shares(problem, problem.horizon))).value
        interval = sum(interval_bound(problem, bounds))
        state, offers = state_of(problem, bounds, pool)
        CrownProof(QUICK).improve(state, math.inf)
        assert min(offers.bounds) <= plain + 1e-6
        gains.append((interval - min(offers.bounds)) / max(1.0, abs(interval)))
    assert np.mean(gains) > 0.1


def test_multipliers_of_rows_and_of_boxes_count() -> None:
    """Max Σ a with Σ over steps limited by a row, and then by the state's bound alone."""
    network = ReluNetwork.sequential([np.array([[1.0, 1.0]])], [np.zeros(1)])
    states, action = (Variable("s", "continuous", 0.0, 2.0),), Variable("a", "continuous", 0.0, 1.0)
    reward = PiecewiseLinear.variable(1, 3)
    problem = Problem("fill", 10, states, (action,), (), np.zeros(1), np.zeros(1), network, reward)
    row = PiecewiseLinear.variable(1, 3) * 2.0 - PiecewiseLinear.constant_of(0.1, 3)
    for case, best in ((problem, 2.0), (replace(problem, constraints=(Constraint(row, False, "2 a <= 0.1"),)), 0.5)):
        bounds = forward_bounds(case, deadline=-1.0)
        relaxation = relaxation_of(case, AllPlanBounds(**bounds.arrays(), because="a test"))
        with WorkerPool("highs", 1) as workers:
            state, offers = state_of(case, relaxation.boxes.bounds, workers)  # type: ignore[arg-type]
            CrownProof().improve(state, math.inf)
        assert best - 1e-9 <= min(offers.bounds) <= best + 0.1


def test_it_goes_on_where_it_stopped_at_any_moment(pool: WorkerPool) -> None:
    """Turns that end at any moment give bounds that hold, each at least as good as those before, and end up where one
    long turn does; little is done after a deadline."""
    problem = replace(larger_problem(5), constraints=(), goal=())
    best = best_sampled(problem)
    work = WorkClock()
    with clock.using(work):
        bounds = forward_bounds(problem)
        began = work.now()
        state, whole = state_of(problem, bounds, pool)
        CrownProof(QUICK).improve(state, math.inf)
        total = work.now() - began
        state, offers = state_of(problem, bounds, pool)
        proof = CrownProof(QUICK)
        for _ in range(30):
            deadline = work.now() + total / 12.0
            proof.improve(state, deadline)
            late = (work.now() - deadline) * clock.OPERATIONS_PER_SECOND
            assert late <= 60 * problem.horizon * problem.dynamics.operations
    assert min(offers.bounds) >= best
    assert min(offers.bounds) <= min(whole.bounds) + 0.05 * abs(min(whole.bounds))


def test_smaller_boxes_give_better_bounds_from_the_same_slopes(pool: WorkerPool) -> None:
    problem = replace(larger_problem(2), constraints=(), goal=())
    bounds = forward_bounds(problem)
    state, offers = state_of(problem, bounds, pool)
    proof = CrownProof(QUICK)
    proof.improve(state, math.inf)
    before = min(offers.bounds)
    arrays = state.boxes.copied().arrays()
    arrays["action_upper"][:] = 0.0
    smaller = AllPlanBounds(**arrays, because="a test")
    state, offers = state_of(problem, smaller, pool)
    proof.improve(state, math.inf)
    assert min(offers.bounds) < before


def test_without_finite_boxes_nothing_is_offered(pool: WorkerPool) -> None:
    network = ReluNetwork.sequential([np.array([[1.0, 1.0]])], [np.zeros(1)])
    states, action = (Variable("s"),), Variable("a", "continuous", 0.0, math.inf)
    reward = PiecewiseLinear.variable(0, 3)
    problem = Problem("open", 3, states, (action,), (), np.zeros(1), np.zeros(1), network, reward)
    state, offers = state_of(problem, forward_bounds(problem), pool)
    CrownProof().improve(state, math.inf)
    assert offers.bounds == []


def test_the_margin_covers_coefficients_that_grow() -> None:
    """Five steps that each multiply a state by 1,000: rounding is a share of what is added up, not of the result."""
    network = ReluNetwork.sequential([np.array([[1000.0, 1.0]])], [np.zeros(1)])
    states, action = (Variable("s", "continuous", -1e18, 1e18),), Variable("a", "continuous", -1.0, 1.0)
    reward = PiecewiseLinear.variable(2, 3)
    problem = Problem("grow", 5, states, (action,), (), np.ones(1), np.ones(1), network, reward)
    found = relaxation_of(problem).value(first_parameters(relaxation_of(problem), box_shares(problem, 5)))
    assert found.margin >= 1e-15 * abs(found.bound)
    assert found.value >= rollout(problem, np.ones(1), np.ones((5, 1))).total_reward


def test_the_start_is_the_best_of_all_windows() -> None:
    relaxation = relaxation_of(larger_problem(1))
    _, found = best_start(relaxation, QUICK, math.inf)
    shares = [box_shares(relaxation.problem, k) for k in (0, 1, 2, 4, 6)]
    others = [relaxation.value(replace(found.parameters, box_shares=part)).value for part in shares]
    assert found.value == pytest.approx(min(others))


def test_what_is_too_large_for_the_turn_is_not_begun(pool: WorkerPool) -> None:
    problem = replace(larger_problem(1), constraints=(), goal=())
    state, offers = state_of(problem, forward_bounds(problem), pool)
    work = WorkClock()
    with clock.using(work):
        CrownProof().improve(state, work.now() + 1e-9)
        CrownProof(CrownSettings(most_bytes=100.0)).improve(state, math.inf)
    assert offers.bounds == []
    assert work.now() == 0.0
