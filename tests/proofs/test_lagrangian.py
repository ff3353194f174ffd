"""The Lagrangian decomposition: whatever multipliers, windows and boxes are, no bound is below the optimum."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from brute_force import optimum
from patience import AMPLE
from random_problems import random_problem
from reluplan.bounds.boxes import AllPlanBounds, BetterPlanBounds, HorizonBounds, intersected
from reluplan.bounds.reachability import reachable_bounds
from reluplan.bounds.span import Span
from reluplan.clock import Clock
from reluplan.encoding.extract import extract
from reluplan.encoding.hinges import add_hinges, features
from reluplan.encoding.unroll import unroll
from reluplan.errors import InfeasibleError
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.optimisation.model import Index, ModelBuilder
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.run import Run
from reluplan.problem.check import check
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, simulate
from reluplan.proofs.interval import IntervalProof
from reluplan.proofs.lagrangian.decomposition import Decomposition
from reluplan.proofs.lagrangian.multipliers import plan_multipliers
from reluplan.proofs.lagrangian.partition import partition, steady_steps
from reluplan.proofs.lagrangian.proof import LagrangianProof
from reluplan.proofs.lagrangian.samples import plan_window, plan_windows
from reluplan.proofs.lagrangian.settings import LagrangianSettings, PartitionSettings, WindowBudget
from reluplan.proofs.lagrangian.steady_state import steady_multipliers
from reluplan.proofs.lagrangian.subproblem import window_subproblem, window_subproblems
from reluplan.proofs.proof_state import ProofState
from reluplan.tightening.obbt_lp import tighten_by_reward_cutoff

Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("highs", 2) as workers:
        yield workers


def small_problem(seed: int, horizon: int = 2) -> Problem:
    rng = np.random.default_rng(seed)
    return random_problem(rng, relus=2, horizon=horizon)


def best_plan(problem: Problem, bounds: HorizonBounds, gap: float) -> Trajectory | None:
    model = unroll(problem, bounds)
    solution = HighsSolver().solve(model.model, SolveOptions(gap=gap)).solution
    found = None if solution is None else extract(model, solution)
    return found if found is not None and check(problem, found).ok else None


def best_reward(problem: Problem, bounds: HorizonBounds, found: Trajectory) -> float:
    """The optimum by the whole MILP, whose own tests compare it with brute force; at least the plan's."""
    best = best_plan(problem, bounds, gap=1e-7)
    return found.total_reward if best is None else max(found.total_reward, best.total_reward)


def solved(seed: int) -> tuple[Problem, AllPlanBounds, Trajectory] | None:
    """A problem with a plan (as good as a loose gap makes it), or None if it has none or none was found."""
    problem = small_problem(seed)
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return None
    found = best_plan(problem, bounds, gap=0.5)
    return None if found is None else (problem, bounds, found)


def proof_state(run: Run, bounds: BetterPlanBounds, pool: WorkerPool) -> ProofState:
    return ProofState(run.problem, run.incumbent, bounds, pool, run.clock)


SPANS = ([Span(0, 1), Span(1, 1)], [Span(0, 1, 2)], [Span(0, 2)])


def hinged_box() -> tuple[ModelBuilder, Index, Array, Array, Array]:
    """Six states in boxes: with the hinge inside, at either edge, beyond them, and none."""
    hinges = np.array([0.5, -1.0, 2.0, 5.0, -5.0, -np.inf])
    lower, upper = np.full(6, -1.0), np.full(6, 2.0)
    builder = ModelBuilder()
    return builder, builder.add_columns(lower, upper), lower, upper, hinges


@given(seed=st.integers(0, 10_000))
def test_hinges_are_encoded_exactly(seed: int) -> None:
    """With the states fixed, each column below a hinge can only be max(0, c − s), whichever way it is pulled."""
    rng = np.random.default_rng(seed)
    builder, states, lower, upper, hinges = hinged_box()
    columns, binaries = add_hinges(builder, states, lower, upper, hinges)
    assert ((binaries >= 0) == [True, False, False, False, False, False]).all()
    builder.add_cost(columns, rng.choice([-1.0, 1.0], 6))
    model = builder.build()
    point = rng.choice([-1.0, 0.5, 2.0, rng.uniform(-1.0, 2.0)], 6)
    low, high = model.column_lower.copy(), model.column_upper.copy()
    low[states] = high[states] = point
    solution = (
        HighsSolver().solve(dataclasses.replace(model, column_lower=low, column_upper=high), SolveOptions()).solution
    )
    assert solution is not None
    assert solution[columns] == pytest.approx(features(point, hinges)[6:], abs=1e-6)


def test_assignments_of_windows_are_feasible_and_worth_what_they_earn() -> None:
    """The complete vector of a simulated window satisfies its model, and its value is Σ R − V(s_first) + V(s_end)."""
    tried = 0
    for seed in range(40):
        case = solved(seed)
        if case is None:
            continue
        problem, bounds, found = case
        subproblems = window_subproblems(problem, bounds, [Span(0, 1), Span(1, 1)], found)
        multipliers = np.random.default_rng(seed).normal(size=(3, 2 * len(problem.states)))
        for i, subproblem in enumerate(subproblems):
            model = subproblem.model(multipliers[i], multipliers[i + 1])
            x = subproblem.assignment(plan_window(subproblem.span, found))
            tried += 1
            assert model.violation(x) < 1e-5
            expected = plan_windows(subproblem, found).lagrangian(multipliers[i], multipliers[i + 1])
            assert model.value(x) == pytest.approx(expected[0], abs=1e-6)
    assert tried > 20


def test_a_steady_state_gets_multipliers_that_lose_less(pool: WorkerPool) -> None:
    """s' = 0.9 s + a, heating by a in 0..10 costs a, but what exceeds 3 only half; below 20 each degree costs 10.

    From a cold state one big step is cheap, so slopes below and above the steady state differ.
    """
    network = ReluNetwork.sequential([[[0.9, 1.0]]], [[0.0]])
    w = [PiecewiseLinear.variable(i, 3) for i in range(3)]
    constant = partial(PiecewiseLinear.constant_of, width=3)
    cost = PiecewiseLinear.maximum([-w[1], w[1] * -0.5 - constant(1.5)])
    cold = PiecewiseLinear.maximum([constant(20.0) - w[2], constant(0.0)])
    problem = Problem(
        "heating", 40, (Variable("s", "continuous", 0.0, 21.0),), (Variable("a", "continuous", 0.0, 10.0),), (),
        np.full(1, 20.0), np.full(1, 20.0), network, cost - cold * 10.0,
    )  # fmt: skip
    rest = simulate(problem, np.full(1, 20.0), np.full((40, 1), 2.0))
    wide = dataclasses.replace(problem, initial_lower=np.zeros(1), initial_upper=np.full(1, 21.0))
    subproblems = window_subproblems(problem, reachable_bounds(wide), [Span(0, 1), Span(1, 1, 38), Span(39, 1)], rest)
    alone = Decomposition(subproblems[1:2], rest, pool, np.random.default_rng(0), free_ends=True)
    found = np.array([1.0, 0.0])
    for _ in range(6):  # each search stops when most of the loss is gone
        found = steady_multipliers(alone, [found], np.ones(2), time.monotonic() + AMPLE, 1e-3)

    def loss(value: Array) -> float:
        return alone.evaluate(np.tile(value, (2, 1)), time.monotonic() + AMPLE, 1e-6).total - 38 * -2.0

    linear = min(loss(np.array([slope, 0.0])) for slope in np.linspace(0.0, 2.0, 21))
    assert -1e-6 <= loss(found) < 0.5 * linear


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), which=st.integers(0, len(SPANS) - 1), size=st.sampled_from([0.0, 0.3, 3.0]))
@example(seed=215, which=2, size=0.0)  # its best step lies on a rounding tie, whose better side no plan reaches
def test_any_multipliers_and_windows_prove_a_bound(pool: WorkerPool, seed: int, which: int, size: float) -> None:
    case = solved(seed)
    if case is None:
        return
    problem, bounds, found = case
    subproblems = window_subproblems(problem, bounds, SPANS[which], found)
    decomposition = Decomposition(subproblems, found, pool, np.random.default_rng(seed))
    multipliers = np.random.default_rng(seed).normal(size=(len(subproblems) + 1, 2 * len(problem.states))) * size
    evaluation = decomposition.evaluate(decomposition.tied(multipliers), time.monotonic() + AMPLE, 1e-3)
    best = best_reward(problem, bounds, found)
    assert not evaluation.infeasible
    assert evaluation.total >= best - 1e-9
    if len(subproblems) == 1 and subproblems[0].span.count == 1:  # the whole model, with both sides of a rounding tie
        whole = HighsSolver().solve(unroll(problem, bounds).model, SolveOptions(gap=1e-7))
        assert evaluation.total == pytest.approx(whole.objective, abs=1e-2)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_the_whole_proof_stays_above_the_optimum(pool: WorkerPool, seed: int) -> None:
    """A poor plan makes the boxes of better plans matter: the optimum must stay inside."""
    case = solved(seed)
    if case is None:
        return
    problem, bounds, found = case
    run = Run(problem, Clock(AMPLE), 1e-5)
    run.incumbent.offer_plan(found, "test")
    state = proof_state(run, bounds, pool)
    IntervalProof().improve(state, time.monotonic() + AMPLE)
    LagrangianProof().improve(state, time.monotonic() + AMPLE)
    best = best_reward(problem, bounds, found)
    assert run.incumbent.bound >= best - 1e-9
    assert not any("dropped" in note for note in run.log.notes)
    if best > found.total_reward + 1e-3:
        better = best_plan(problem, bounds, gap=1e-6)
        if better is not None:
            assert_inside(state.boxes, better, problem)


def assert_inside(bounds: HorizonBounds, better: Trajectory, problem: Problem) -> None:
    slack = 1e-5
    inputs = np.hstack([better.states[:-1], better.actions, better.auxiliaries[:-1]])
    units = problem.dynamics.preactivations(inputs)
    for values, low, high in (
        (better.states, bounds.state_lower, bounds.state_upper),
        (better.actions, bounds.action_lower, bounds.action_upper),
        (units, bounds.unit_lower, bounds.unit_upper),
    ):
        assert (values >= low - slack).all()
        assert (values <= high + slack).all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_boxes_keep_every_plan_above_the_reward_cutoff(seed: int) -> None:
    """Simulated plans whose reward reaches the cutoff lie inside the boxes that the LP leaves."""
    case = solved(seed)
    if case is None:
        return
    problem, bounds, found = case
    window = window_subproblem(problem, bounds, Span(0, problem.horizon))
    cutoff = found.total_reward - 0.1
    model = window.plan_model
    try:
        tightened = tighten_by_reward_cutoff(model, model.model, cutoff, bounds)
    except InfeasibleError:
        pytest.fail("the plan itself is above the cutoff")
    assert_inside(tightened, found, problem)
    assert (tightened.state_upper - tightened.state_lower <= bounds.state_upper - bounds.state_lower + 1e-9).all()


@pytest.mark.parametrize("seed", [2, 4])
def test_the_proof_against_brute_force(pool: WorkerPool, seed: int) -> None:
    case = solved(seed)
    assert case is not None
    problem, bounds, found = case
    run = Run(problem, Clock(AMPLE), 1e-5)
    run.incumbent.offer_plan(found, "test")
    LagrangianProof().improve(proof_state(run, bounds, pool), time.monotonic() + AMPLE)
    best = optimum(problem)
    assert best is not None
    assert best - 1e-9 <= run.incumbent.bound <= best + 1e-2


def test_the_goal_cuts_only_the_last_window() -> None:
    """Windows that end before the horizon, or are repeated, do not know the goal; the last one does."""
    problem, bounds, _ = next(case for case in map(solved, range(50)) if case is not None and case[0].goal)
    assert window_subproblem(problem, bounds, Span(1, 1)).problem.goal == problem.goal
    assert window_subproblem(problem, bounds, Span(0, 2)).problem.goal == problem.goal
    assert window_subproblem(problem, bounds, Span(0, 1)).problem.goal == ()
    assert window_subproblem(problem, bounds, Span(0, 1, 2)).problem.goal == ()
    assert window_subproblem(problem, bounds, Span(1, 1)).problem.initial_constraints == ()


def test_hulls_contain_windows_and_tightening_intersects() -> None:
    bounds = reachable_bounds(small_problem(4, horizon=6))
    span = Span(1, 2, 2)
    hull = bounds.hull(span)
    for start in span.starts():
        assert (hull.state_lower <= bounds.state_lower[start : start + 3]).all()
        assert (hull.unit_upper >= bounds.unit_upper[start : start + 2]).all()
    again = intersected(bounds, [span], [hull])
    assert (again.state_lower == bounds.state_lower).all()
    assert (again.unit_upper == bounds.unit_upper).all()


@given(
    horizon=st.integers(1, 80), rest=st.integers(0, 80), budget=st.integers(1, 100), seed=st.integers(0, 100),
)  # fmt: skip
def test_partitions_cover_every_step_once(horizon: int, rest: int, budget: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.normal(size=(horizon + 1, 2)), axis=0)
    states[min(rest, horizon) :] = states[min(rest, horizon)]
    found = Trajectory(states, np.zeros((horizon, 1)), np.zeros((horizon + 1, 0)), np.zeros(horizon))
    series = np.zeros((horizon + 1, 0))
    spans = partition(found, series, rng.integers(0, 20, horizon), WindowBudget(budget, 2 * budget, 2 * budget))
    assert [step for span in spans for step in range(span.first, span.end)] == list(range(horizon))
    begin, end = steady_steps(found, series)
    assert 0 <= begin <= end <= horizon


def test_multipliers_of_the_plan_are_marginal_values() -> None:
    """With the LP's own optimum as the plan, a little more of s_2 is worth λ_2 a unit (where the LP is smooth)."""
    network = ReluNetwork.sequential([[[0.9, 1.0]]], [[0.0]])
    problem = Problem(
        "decay", 4, (Variable("s", "continuous", -100.0, 100.0),), (Variable("a", "continuous", -1.0, 1.0),), (),
        np.zeros(1), np.zeros(1), network, PiecewiseLinear(np.array([0.0, -0.5, 1.0])),
    )  # fmt: skip
    best = simulate(problem, np.zeros(1), np.ones((4, 1)))
    multipliers = plan_multipliers(problem, reachable_bounds(problem), best, 4, 10.0)
    # R_t = s_{t+1} − a_t / 2: a unit of s_2 earns 1 + 0.9 + 0.9² + 0.9³ when it appears at s_2
    assert multipliers[:, 0] == pytest.approx([0.0, 3.439, 2.71, 1.9, 1.0])


def test_a_steady_plan_is_proven_for_any_horizon(pool: WorkerPool) -> None:
    """From 5, move by at most 1 a step towards 0 and stay: the same few MILPs prove 20 or 2,000 steps."""
    network = ReluNetwork.sequential([[[1.0, 1.0]]], [[0.0]])
    distance = PiecewiseLinear.maximum(
        [PiecewiseLinear(np.array([0, 0, 1.0])), PiecewiseLinear(np.array([0, 0, -1.0]))]
    )
    for horizon in (20, 2_000):
        problem = Problem(
            "home", horizon, (Variable("s", "continuous", -10.0, 10.0),), (Variable("a", "continuous", -1.0, 1.0),), (),
            np.full(1, 5.0), np.full(1, 5.0), network, -distance,
        )  # fmt: skip
        actions = np.zeros((horizon, 1))
        actions[:5] = -1.0
        run = Run(problem, Clock(AMPLE), 1e-4)
        run.incumbent.offer_plan(simulate(problem, np.full(1, 5.0), actions), "test")
        LagrangianProof().improve(proof_state(run, reachable_bounds(problem), pool), time.monotonic() + AMPLE)
        assert run.incumbent.plan is not None
        assert run.incumbent.plan.total_reward == -10.0
        assert run.incumbent.is_proven


def hinged_problem() -> Problem:
    """Two steps that end where they began: to the left and back earns 0.1, to the right and back half of that. Many
    units that may switch make a window of each step."""
    count = 100
    hidden = Layer(np.column_stack([np.zeros(count), np.ones(count)]), np.linspace(-0.5, 0.5, count))
    output = np.zeros((1, 2 + count))
    output[0, :2] = 1.0
    s, a, _ = (PiecewiseLinear.variable(i, 3) for i in range(3))
    right = PiecewiseLinear.maximum([s, s * 0.0])
    reward = PiecewiseLinear.absolute(s) - PiecewiseLinear.absolute(a) * 0.45 - a * 4.0 - right * 0.05
    return Problem(
        "hinge", 2, (Variable("s", "continuous", -1.0, 1.0),), (Variable("a", "continuous", -1.0, 1.0),), (),
        np.zeros(1), np.zeros(1), ReluNetwork(2, (hidden,), Layer(output, np.zeros(1))), reward,
        goal=(Constraint(s, True, "s = 0"),),
    )  # fmt: skip


def test_a_better_plan_between_two_turns_moves_no_hinge_of_what_is_proven(pool: WorkerPool) -> None:
    """Window bounds of the first turn mean its hinges; with those of the second plan the optimum was cut off."""
    problem = hinged_problem()
    poor, better, best = (
        simulate(problem, np.zeros(1), np.array([[a], [-a]], dtype=np.float64)) for a in (0.1, 1.0, -1.0)
    )
    settings = LagrangianSettings(partition=PartitionSettings(most_doublings=0))
    run = Run(problem, Clock(AMPLE), 1e-4)
    proof = LagrangianProof(settings)
    bounds: BetterPlanBounds = reachable_bounds(problem)
    for plan in (poor, better):
        assert run.incumbent.offer_plan(plan, "test")
        state = proof_state(run, bounds, pool)
        proof.improve(state, time.monotonic() + 10.0)
        bounds = state.boxes
    assert run.incumbent.bound >= best.total_reward - 1e-9
    assert (best.states >= bounds.state_lower - 1e-9).all()
