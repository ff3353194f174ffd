"""Back-substitution through many steps: functions keep values, boxes keep every plan, interruptions harm nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_function, random_network, random_problem
from reluplan import clock
from reluplan.bounds.boxes import AllPlanBounds, BetterPlanBounds, ForwardBounds
from reluplan.bounds.reachability import forward_bounds
from reluplan.bounds.unrolled.blocks import BlockNetwork, relu_lines
from reluplan.bounds.unrolled.functions import functions_network
from reluplan.bounds.unrolled.plan_network import PlanBoxes, PlanNetworks, have_lines, unit_intervals
from reluplan.bounds.unrolled.rounding import rounding_lines
from reluplan.bounds.unrolled.windows import WindowSettings, refined_functions, window_bounds
from reluplan.clock import WorkClock
from reluplan.errors import InfeasibleError
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, rollout, state_vectors, step_vectors

seeds = st.integers(0, 2**32 - 1)
ALWAYS = WindowSettings(worthwhile=-1.0)
"""Takes what is found, however little it is."""


def free_problem(seed: int, horizon: int = 4, kinds: tuple[str, ...] = ("continuous", "integer", "boolean")) -> Problem:
    """Every kind of state, wide bounds, no rows: any actions make a plan as long as its states stay within bounds."""
    rng = np.random.default_rng(seed)
    sides = {"continuous": (-50.0, 50.0), "integer": (-50.0, 50.0), "boolean": (0.0, 1.0)}
    drawn = [str(rng.choice(kinds)) for _ in range(rng.integers(1, 4))]
    states = tuple(Variable(f"s{i}", kind, *sides[kind]) for i, kind in enumerate(drawn))  # type: ignore[arg-type]
    actions = tuple(Variable(f"a{i}", "continuous", -1.0, 1.0) for i in range(2))
    width = 2 * len(states) + 2
    hidden = [[5], [4, 4], []][rng.integers(3)]
    network = random_network(rng, len(states) + 2, hidden, len(states), dense=bool(rng.random() < 0.5))
    reward = random_function(rng, list(range(width)), width)
    zeros = np.zeros(len(states))
    return Problem("free", horizon, states, actions, (), zeros, zeros, network, reward)


def plans_of(problem: Problem, count: int = 40) -> list[Trajectory]:
    rng = np.random.default_rng(7)
    lower, upper = problem.box(problem.states)
    found = []
    for _ in range(count):
        actions = np.clip(rng.normal(size=(problem.horizon, 2)) * rng.choice([0.3, 1.0, 9.0]), -1.0, 1.0)
        one = rollout(problem, problem.initial_lower, actions)
        if ((one.states >= lower) & (one.states <= upper)).all():
            found.append(one)
    return found


def assert_contains(problem: Problem, bounds: BetterPlanBounds, plans: list[Trajectory]) -> None:
    for one in plans:
        units, outputs = problem.dynamics.evaluate(np.hstack([one.states[:-1], one.actions]))
        for values, name in ((one.states, "state"), (units, "unit"), (outputs, "output")):
            assert (values >= getattr(bounds, f"{name}_lower") - 1e-9).all()
            assert (values <= getattr(bounds, f"{name}_upper") + 1e-9).all()


@settings(max_examples=40)
@given(seeds)
def test_functions_as_a_network_keep_their_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    functions = [random_function(rng, [0, 1, 2], 3, 3) for _ in range(rng.integers(1, 4))]
    w = rng.normal(size=(50, 3))
    found = functions_network(functions, 3).forward(w)
    assert np.allclose(found, np.stack([function.evaluate(w) for function in functions], axis=1), atol=1e-9)


def test_units_that_do_not_read_each_other_stand_in_one_layer() -> None:
    parts = [PiecewiseLinear.absolute(PiecewiseLinear.variable(i, 8)) for i in range(8)]
    assert [layer.unit_count for layer in functions_network([PiecewiseLinear.total(parts)], 8).hidden] == [8]


@settings(max_examples=40)
@given(seeds, st.booleans())
def test_rows_are_bounded_by_what_is_pulled_back(seed: int, dense: bool) -> None:
    """For any lower slopes in [0, 1]; and only blocks that are not zero are kept."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, [4, 5, 3], 2, dense)
    blocks = BlockNetwork(network)
    assert dense or all(len(layer.blocks) == 1 for layer in (*blocks.hidden, blocks.output))
    lower = rng.uniform(-2.0, 1.0, (1, 3))
    upper = lower + rng.uniform(0.0, 2.0, (1, 3))
    low, high = unit_intervals(network, lower, upper)
    lines = relu_lines(low[0], high[0], rng.random(network.relu_count))
    rows = rng.normal(size=(6, 2))
    coefficients, offset = blocks.pull(rows, lines)
    x = rng.uniform(lower, upper, (100, 3))
    assert (network.forward(x) @ rows.T <= x @ coefficients[:, :3].T + offset + 1e-9).all()


def test_rounding_lines_hold_at_every_prediction() -> None:
    kinds = ("continuous", "integer", "boolean")
    states = tuple(Variable(kind, kind, -5.0, 5.0) for kind in kinds)  # type: ignore[arg-type]
    network = ReluNetwork.sequential([np.zeros((3, 3))], [np.zeros(3)])
    zeros = np.zeros(3)
    problem = Problem("r", 1, states, (), (), zeros, zeros, network, PiecewiseLinear.constant_of(0.0, 6))
    for low, high in ((-3.0, 4.0), (0.4, 0.6), (0.49, 0.51), (0.7, 2.0), (-2.0, 0.3)):
        lines = rounding_lines(problem, np.full(3, low), np.full(3, high))
        p = np.repeat(np.linspace(low, high, 1001)[:, None], 3, axis=1)
        values = problem.round_states(p)
        assert (values <= lines.up_slope * p + lines.up_offset + 1e-12).all()
        assert (values >= lines.down_slope * p + lines.down_offset - 1e-12).all()


@settings(max_examples=40)
@given(seeds, st.sampled_from([1, 2, 64]), st.sampled_from([ForwardBounds, AllPlanBounds, BetterPlanBounds]))
def test_windows_keep_every_plan_the_boxes_and_the_claim(seed: int, depth: int, claim: type[BetterPlanBounds]) -> None:
    problem = free_problem(seed)
    forward = forward_bounds(problem, deadline=-1.0)
    before = claim(**forward.arrays(), because="a test")
    after = window_bounds(problem, before, settings=dataclasses.replace(ALWAYS, depth=depth, most_rows=3))
    assert type(after) is claim
    assert_contains(problem, after, plans_of(problem))
    for name, array in after.arrays().items():
        other = before.arrays()[name]
        assert (array >= other - 1e-9).all() if "lower" in name else (array <= other + 1e-9).all()


@settings(max_examples=10)
@given(seeds)
def test_deeper_windows_are_no_looser(seed: int) -> None:
    """Each depth takes the best of all smaller ones; of the first step's rows there is one depth alone."""
    problem = free_problem(seed, kinds=("continuous",))
    before = forward_bounds(problem, deadline=-1.0)
    one, many = (window_bounds(problem, before, settings=dataclasses.replace(ALWAYS, depth=k)) for k in (1, 64))
    width = [float((found.state_upper - found.state_lower).sum()) for found in (before, one, many)]
    assert width[2] <= width[1] * (1.0 + 1e-6) <= width[0] * (1.0 + 2e-6)


def test_windows_see_that_states_hang_together() -> None:
    """x' = x + a, y' = y − a, and z' = |x + y|, which is 0: a box of (x, y) does not know."""
    weights = [np.array([[1.0, 1.0, 0.0, 0.0], [-1.0, -1.0, 0.0, 0.0]]), np.array([[1.0, 1.0]])]
    absolute = ReluNetwork.sequential(weights, [np.zeros(2), np.zeros(1)])
    output = np.zeros((3, 6))
    output[0, [0, 3]] = 1.0
    output[1, [1, 3]] = 1.0, -1.0
    output[2, 4:] = 1.0
    network = ReluNetwork(4, absolute.hidden, dataclasses.replace(absolute.output, weights=output, bias=np.zeros(3)))
    states = tuple(Variable(name, "continuous", -9.0, 9.0) for name in "xyz")
    action = Variable("a", "continuous", -1.0, 1.0)
    reward = PiecewiseLinear.variable(6, 7)
    problem = Problem("together", 3, states, (action,), (), np.zeros(3), np.zeros(3), network, reward)
    loose = forward_bounds(problem, deadline=-1.0)
    assert loose.state_upper[3, 2] == pytest.approx(4.0, abs=1e-3)
    assert window_bounds(problem, loose).state_upper[3, 2] == pytest.approx(0.0, abs=1e-5)
    assert forward_bounds(problem).state_upper[3, 2] == pytest.approx(0.0, abs=1e-5)


def test_windows_that_are_interrupted_anywhere_hold() -> None:
    problem = free_problem(11, horizon=5, kinds=("continuous",))
    before = forward_bounds(problem, deadline=-1.0)
    work = WorkClock()
    with clock.using(work):
        window_bounds(problem, before, settings=ALWAYS)
        whole = work.now()
        plans = plans_of(problem)
        for share in np.linspace(0.0, 1.1, 40):
            deadline = work.now() + share * whole
            after = window_bounds(problem, before, deadline, ALWAYS)
            late = (work.now() - deadline) * clock.OPERATIONS_PER_SECOND
            assert late <= 40 * problem.dynamics.operations
            assert_contains(problem, after, plans)


def test_boxes_that_would_hardly_change_stay_the_same_object() -> None:
    problem = free_problem(3)
    before = forward_bounds(problem)
    assert window_bounds(problem, before, settings=WindowSettings(worthwhile=2.0)) is before
    assert window_bounds(problem, before, clock.now() - 1.0) is before


@settings(max_examples=30)
@given(seeds)
def test_units_of_functions_keep_every_plan(seed: int) -> None:
    problem = free_problem(seed)
    rng = np.random.default_rng(seed)
    final = random_function(rng, list(range(len(problem.states))), problem.layout.width)
    problem = dataclasses.replace(problem, final_reward=final)
    bounds = forward_bounds(problem)
    networks = PlanNetworks(problem)
    boxes = PlanBoxes(problem, networks, bounds)
    refined_functions(problem, networks, boxes)
    step, last, _ = networks.functions
    for one in plans_of(problem):
        units = step.preactivations(step_vectors(one.states, one.actions, one.auxiliaries))
        ends = last.preactivations(state_vectors(problem, one.states[-1:], one.auxiliaries[-1:]))
        for values, part in ((units, boxes.step), (ends, boxes.final)):
            assert ((values >= part.unit_lower - 1e-9) & (values <= part.unit_upper + 1e-9)).all()


@settings(max_examples=30)
@given(seeds)
def test_windows_of_problems_with_rows_and_auxiliaries(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), relus=4, horizon=3, auxiliary=True)
    try:
        before = forward_bounds(problem)
        after = window_bounds(problem, before, settings=ALWAYS)
    except InfeasibleError:
        return
    assert have_lines(after) == have_lines(before)
    assert (after.unit_lower >= before.unit_lower - 1e-9).all()


def test_numbers_beyond_floating_point_leave_boxes_as_they_were() -> None:
    """A gain of 1e21 a step overflows within thirty steps, beside a rotation for which windows pay."""
    gain, count = 1e7, 5
    rng = np.random.default_rng(0)
    first, second, output = np.zeros((4, count)), np.zeros((4, count + 4)), np.zeros((3, count + 8))
    first[:, [2, 4]] = rng.choice([-gain, gain], (4, 2))
    second[:, count:] = rng.choice([-gain, gain], (4, 4))
    output[2, count + 4 :] = rng.choice([-gain, gain], 4)
    output[:2, :2] = 0.95 * np.array([[np.cos(0.78), -np.sin(0.78)], [np.sin(0.78), np.cos(0.78)]])
    output[0, 3] = 0.3
    layers = Layer(first, np.zeros(4)), Layer(second, np.zeros(4))
    network = ReluNetwork(count, layers, Layer(output, np.zeros(3)))
    states = tuple(Variable(name, "continuous", -size, size) for name, size in (("x", 50.0), ("y", 50.0), ("z", 1.0)))
    actions = tuple(Variable(name, "continuous", -1.0, 1.0) for name in "ab")
    problem = Problem(
        "overflow", 30, states, actions, (), np.zeros(3), np.zeros(3), network, PiecewiseLinear.variable(0, 8)
    )
    bounds = forward_bounds(problem)
    assert not any(np.isnan(array).any() for array in bounds.arrays().values())
    still = rollout(problem, np.zeros(3), np.zeros((30, 2)))
    assert (still.states >= bounds.state_lower - 1e-9).all()
    assert (still.states <= bounds.state_upper + 1e-9).all()
