"""Propagation and MILP bounds: they contain every plan, cut what they should, and ask no more than they must."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import optimum
from patience import AMPLE
from random_problems import random_network, random_problem
from reluplan.bounds.boxes import HorizonBounds, equal_steps
from reluplan.bounds.lp import bound_step
from reluplan.bounds.reachability import reachable_bounds, reachable_within
from reluplan.bounds.span import Span, windows_ending_at
from reluplan.clock import Clock
from reluplan.errors import InfeasibleError
from reluplan.network.relu_network import ReluNetwork
from reluplan.optimisation.model import Array, Index
from reluplan.optimisation.persistent_lp import PersistentLp
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.run import Run
from reluplan.problem.check import check
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, simulate
from reluplan.proofs.interval import IntervalProof
from reluplan.proofs.proof_state import ProofState
from reluplan.proofs.single_steps import SingleStepProof
from reluplan.tightening.obbt_milp import tighten_by_milp
from reluplan.tightening.propagation import propagate
from reluplan.tightening.witnesses import find_witnesses

seeds = st.integers(0, 2**32 - 1)


def random_plan(problem: Problem, rng: np.random.Generator) -> Trajectory:
    """Any actions within their bounds, from any initial state."""
    lower, upper = problem.box(problem.actions)
    discrete = np.array([v.is_discrete for v in problem.actions])
    actions = rng.uniform(lower, upper, (problem.horizon, len(lower)))
    initial = rng.uniform(problem.initial_lower, problem.initial_upper)
    initial = np.where(problem.discrete_states, np.round(initial), initial)
    return simulate(problem, initial, np.where(discrete, np.round(actions), actions))


def with_goal_at(problem: Problem, trajectory: Trajectory, radius: float) -> Problem:
    """The goal: end where the trajectory ends, give or take a radius in every state."""
    width, rows = problem.layout.width, []
    for i, end in enumerate(trajectory.states[-1]):
        apart = PiecewiseLinear.variable(i, width) - PiecewiseLinear.constant_of(float(end), width)
        away = PiecewiseLinear.maximum([apart, -apart]) - PiecewiseLinear.constant_of(radius, width)
        rows.append(Constraint(away, False, "near"))
    return dataclasses.replace(problem, goal=tuple(rows))


def assert_contains(problem: Problem, bounds: HorizonBounds, plans: list[Trajectory]) -> None:
    for found in plans:
        assert (bounds.state_lower <= found.states + 1e-9).all()
        assert (found.states <= bounds.state_upper + 1e-9).all()
        assert (bounds.action_lower <= found.actions + 1e-9).all()
        assert (found.actions <= bounds.action_upper + 1e-9).all()
        units = problem.dynamics.preactivations(np.hstack([found.states[:-1], found.actions]))
        assert (bounds.unit_lower <= units + 1e-9).all()
        assert (units <= bounds.unit_upper + 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from([0.05, 0.3, 1.0]))
def test_propagation_keeps_every_plan_that_reaches_the_goal(seed: int, radius: float) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=6, horizon=4)
    problem = with_goal_at(problem, random_plan(problem, rng), radius)
    plans = [found for _ in range(200) if check(problem, found := random_plan(problem, rng)).max_violation <= 0.0]
    try:
        bounds = propagate(problem, reachable_bounds(problem))
    except InfeasibleError:
        assert not plans
        return
    assert_contains(problem, bounds, plans)


@pytest.mark.parametrize("seed", range(12))
def test_milp_bounds_keep_every_plan(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=8, horizon=5)
    if seed % 2:
        problem = with_goal_at(problem, random_plan(problem, rng), 0.5)
    plans = [found for _ in range(300) if check(problem, found := random_plan(problem, rng)).max_violation <= 0.0]
    try:
        before = reachable_bounds(problem)
        with WorkerPool("highs", 2) as pool:
            after = tighten_by_milp(problem, before, pool, time.monotonic() + AMPLE, seed)
    except InfeasibleError:
        assert not plans
        return
    assert_contains(problem, after, plans)
    for name in ("state", "action", "unit"):
        assert (getattr(after, f"{name}_lower") >= getattr(before, f"{name}_lower") - 1e-9).all()
        assert (getattr(after, f"{name}_upper") <= getattr(before, f"{name}_upper") + 1e-9).all()


def test_milps_settle_what_the_relaxation_cannot() -> None:
    """relu(x) − relu(x − 1/2) <= 1/2, but the triangles allow 3/4: the unit that subtracts 0.6 is never on."""
    network = ReluNetwork.sequential([[[1.0], [1.0]], [[1.0, -1.0]], [[1.0]]], [[0.0, -0.5], [-0.6], [0.0]])
    problem = Problem(
        "never", 3, (Variable("s"),), (Variable("x", "continuous", -1.0, 1.0),), (), np.zeros(1), np.zeros(1),
        dataclasses.replace(
            network, input_count=2,
            hidden=tuple(dataclasses.replace(h, weights=np.insert(h.weights, 0, 0.0, axis=1)) for h in network.hidden),
            output=dataclasses.replace(network.output, weights=np.insert(network.output.weights, 0, 0.0, axis=1)),
        ),
        PiecewiseLinear.variable(2, 3),
    )  # fmt: skip
    before = reachable_bounds(problem)
    assert before.unstable[:, 2].all()
    with WorkerPool("highs", 1) as pool:
        after = tighten_by_milp(problem, before, pool, time.monotonic() + AMPLE)
    assert not after.unstable[:, 2].any()
    assert after.unstable[:, :2].all()
    assert after.state_upper[1:].max() <= 1e-6


def test_windows_know_what_boxes_forget() -> None:
    """p' = a and q' = −a: the box of the next step allows p + q = 2, no plan does; relu(p + q − 1/2) is never on."""
    network = ReluNetwork.sequential([[[1.0, 1.0, 0.0]], [[0.0], [0.0]]], [[-0.5], [0.0, 0.0]])
    moved = np.zeros((2, 4))
    moved[:, 2] = [1.0, -1.0]
    network = dataclasses.replace(network, output=dataclasses.replace(network.output, weights=moved))
    problem = Problem(
        "mirror", 6, (Variable("p"), Variable("q")), (Variable("a", "continuous", -1.0, 1.0),), (),
        np.zeros(2), np.zeros(2), network, PiecewiseLinear.variable(3, 5),
    )  # fmt: skip
    assert not reachable_bounds(problem).unstable.any()  # back-substitution knows it too
    before = reachable_bounds(problem, deadline=0.0)
    assert before.unstable[1:].all()
    with WorkerPool("highs", 2) as pool:
        after = tighten_by_milp(problem, before, pool, time.monotonic() + AMPLE)
    assert not after.unstable.any()


def walker(horizon: int, goal: float) -> Problem:
    """From 0 by at most 1 a step to the goal or beyond."""
    row = Constraint(PiecewiseLinear.constant_of(goal, 3) - PiecewiseLinear.variable(0, 3), False, "far enough")
    return Problem(
        "walker", horizon, (Variable("s"),), (Variable("a", "continuous", -1.0, 1.0),), (), np.zeros(1), np.zeros(1),
        ReluNetwork.sequential([[[1.0, 1.0]]], [[0.0]]), PiecewiseLinear.variable(1, 3), goal=(row,),
    )  # fmt: skip


def test_a_goal_reaches_back_to_the_first_step() -> None:
    bounds = propagate(walker(6, 5.0), reachable_bounds(walker(6, 5.0)))
    assert bounds.state_lower[:, 0] == pytest.approx([0, 0, 1, 2, 3, 4, 5], abs=1e-3)
    assert bounds.action_lower.max() == pytest.approx(0.0, abs=1e-3)
    assert bounds.state_upper[:, 0] == pytest.approx([0, 1, 2, 3, 4, 5, 6], abs=1e-3)


def test_propagation_stops_where_nothing_is_cut() -> None:
    """Without a goal and without state bounds the forward bounds are all there is: no LP is solved."""
    problem = dataclasses.replace(walker(6, 5.0), goal=())
    before = reachable_bounds(problem)
    after = propagate(problem, before, deadline=np.inf)
    assert all(
        (getattr(after, f.name) == getattr(before, f.name)).all() for f in dataclasses.fields(before)
    )  # fmt: skip


def test_over_a_box_alone_the_first_layer_needs_no_lp(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    maximum = PersistentLp.maximum

    def counting(lp: PersistentLp, columns: Index, values: Array, deadline: float = np.inf) -> float:
        asked.append(columns)
        return maximum(lp, columns, values, deadline)

    monkeypatch.setattr(PersistentLp, "maximum", counting)
    network = random_network(np.random.default_rng(0), 3, [20], 2)
    bound_step(network, -np.ones(3), np.ones(3), [], 3, np.zeros(3, dtype=bool))
    assert len(asked) == 4  # both sides of both outputs


def test_boxes_without_a_point_leave_no_plan() -> None:
    """A proof that leaves nothing at a step says so with a box from +inf to −inf."""
    problem = dataclasses.replace(walker(4, 0.0), goal=())
    empty = reachable_bounds(problem).copied()
    empty.state_lower[2], empty.state_upper[2] = np.inf, -np.inf
    with pytest.raises(InfeasibleError):
        reachable_within(problem, empty)


def test_windows_end_at_every_step_once_and_equal_ones_are_joined() -> None:
    runs = [Span(0, 1), Span(1, 1), Span(2, 1, 5), Span(7, 1)]
    for length in (1, 2, 3, 4):
        spans = windows_ending_at(runs, length)
        ends = [start + span.length for span in spans for start in span.starts()]
        assert sorted(ends) == list(range(length, 9))
        assert all(span.length == length for span in spans)
    assert Span(2, 2, 4, stride=1) in windows_ending_at(runs, 2)


def test_equal_steps_are_runs() -> None:
    problem = dataclasses.replace(walker(9, 0.0), states=(Variable("s", "continuous", -2.0, 2.0),), goal=())
    runs = equal_steps(reachable_bounds(problem))
    assert [run.first for run in runs] == [0, 1, 2]
    assert runs[-1] == Span(2, 1, 7)


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_witnesses_are_real(seed: int) -> None:
    """What they saw lies within every proven bound, up to the tolerance of a constraint."""
    rng = np.random.default_rng(seed)
    problem = dataclasses.replace(random_problem(rng, relus=5, horizon=2), goal=(), initial_constraints=())
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return
    seen = find_witnesses(problem, bounds, 200, rng)
    for least, largest, lower, upper in (
        (seen.state_least, seen.state_largest, bounds.state_lower[-1], bounds.state_upper[-1]),
        (seen.unit_least, seen.unit_largest, bounds.unit_lower[-1], bounds.unit_upper[-1]),
    ):
        assert (least >= lower - 1e-5).all()
        assert (largest <= upper + 1e-5).all()


@settings(max_examples=15, deadline=None)
@given(seeds, st.booleans())
def test_single_steps_bound_the_optimum_and_lps_bound_it_better(seed: int, auxiliary: bool) -> None:
    problem = random_problem(np.random.default_rng(seed), relus=2, horizon=2, auxiliary=auxiliary)
    best = optimum(problem)
    run = Run(problem, Clock(), 1e-4)
    with WorkerPool("highs", 1) as pool:
        try:
            state = ProofState(problem, run.incumbent, propagate(problem, reachable_bounds(problem)), pool, run.clock)
            IntervalProof().improve(state, np.inf)
            boxes = run.incumbent.bound
            SingleStepProof().improve(state, np.inf)
        except InfeasibleError:
            assert best is None
            return
    assert run.incumbent.bound <= boxes
    assert best is None or run.incumbent.bound >= best
