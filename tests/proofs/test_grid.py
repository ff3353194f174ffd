"""Grid bounds lie above the optimum and above every simulated plan, and come down to it on finer grids."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import brute_force
from random_problems import random_function, random_network, random_problem
from reluplan import clock
from reluplan.bounds.boxes import BetterPlanBounds
from reluplan.bounds.reachability import reachable_bounds, reachable_within
from reluplan.errors import InfeasibleError
from reluplan.network.relu_network import ReluNetwork
from reluplan.planning.planner import plan
from reluplan.problem.check import check
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import simulate
from reluplan.proofs.grid.cells import Grid, corner_values
from reluplan.proofs.grid.forward import tightened
from reluplan.proofs.grid.freeze import steps_above, steps_to_sweep
from reluplan.proofs.grid.model import grid_model
from reluplan.proofs.grid.node_values import NodeValues
from reluplan.proofs.grid.settings import GridSettings
from reluplan.proofs.grid.value_function import GridRefinement, grid_applies, grid_bound

Array = NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)


COARSE = GridSettings(most_states=3, first_cells=(8, 6, 3))
"""Small first grids."""


def proven(
    problem: Problem,
    incumbent: float | None = None,
    sweeps: int = 2,
    workers: int = 1,
    bounds: BetterPlanBounds | None = None,
) -> list[tuple[float, float]]:
    """The bounds offered by the first sweeps."""
    offers: list[tuple[float, float]] = []

    def offer(value: float, margin: float) -> None:
        offers.append((value, margin))
        if len(offers) == sweeps:
            raise StopIteration

    reached = bounds or reachable_bounds(problem)
    with contextlib.suppress(StopIteration):
        grid_bound(problem, reached, incumbent, math.inf, offer, lambda _: None, workers, COARSE)
    return offers


def continuous_problem(rng: np.random.Generator, relus: int, horizon: int) -> Problem:
    """A random problem with continuous states; reward and constraints read s, a and s'."""
    problem = random_problem(rng, relus, horizon)
    states = tuple(dataclasses.replace(v, kind="continuous", lower=-4.0, upper=4.0) for v in problem.states)
    return dataclasses.replace(problem, states=states)


@settings(max_examples=5, deadline=None, derandomize=True)  # brute force may take long
@given(seeds)
def test_bounds_lie_above_the_optimum_with_and_without_an_incumbent(seed: int) -> None:
    problem = continuous_problem(np.random.default_rng(seed), relus=1, horizon=2)
    best = brute_force.optimum(problem)
    assume(best is not None)
    assert best is not None
    for incumbent in (None, best - 0.5, best):
        for value, margin in proven(problem, incumbent):
            assert value + margin >= best - 1e-6
            assert 0.0 <= margin < 1e-6


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_no_simulated_plan_beats_the_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = dataclasses.replace(continuous_problem(rng, relus=8, horizon=5), goal=())
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return
    best = best_sampled(problem, rng)
    incumbent = None if best is None or rng.random() < 0.5 else best - rng.uniform(0.0, 0.5)
    offers = proven(problem, incumbent, bounds=bounds)
    assert best is None or all(value + margin >= best - 1e-6 for value, margin in offers)


def best_sampled(problem: Problem, rng: np.random.Generator) -> float | None:
    lower, upper = problem.box(problem.actions)
    discrete = np.array([v.is_discrete for v in problem.actions])
    best: float | None = None
    for _ in range(60):
        actions = rng.uniform(lower, upper, (problem.horizon, len(lower)))
        actions = np.where(rng.random(actions.shape) < 0.4, np.where(actions > 0.2, upper, lower), actions)
        actions = np.where(discrete, np.round(actions), actions)
        start = rng.uniform(problem.initial_lower, problem.initial_upper)
        trajectory = simulate(problem, start, actions)
        if check(problem, trajectory).max_violation <= 0.0 and (best is None or trajectory.total_reward > best):
            best = trajectory.total_reward
    return best


def drift(horizon: int = 6) -> Problem:
    """s' = |s| − 0.5 + a, |a| <= 0.25, reward −|s' − 0.3| − 0.1 |a|: neither is linear."""
    network = ReluNetwork.sequential(
        [[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [[1.0, 1.0, 1.0, -1.0]]], [[0.0] * 4, [-0.5]]
    )
    next_state, action = PiecewiseLinear.variable(2, 3), PiecewiseLinear.variable(1, 3)
    target = next_state - PiecewiseLinear.constant_of(0.3, 3)
    distance = PiecewiseLinear.maximum([target, -target])
    effort = PiecewiseLinear.maximum([action, -action])
    return Problem(
        "drift", horizon, (Variable("s", "continuous", -3.0, 3.0),), (Variable("a", "continuous", -0.25, 0.25),), (),
        np.full(1, 2.0), np.full(1, 2.0), network, -distance - effort * 0.1,
    )  # fmt: skip


def best_actions_on_a_lattice(problem: Problem) -> Array:
    """The best of all plans whose actions are multiples of 1/40, (H, 1)."""
    levels = np.linspace(-0.25, 0.25, 21)
    actions = np.stack(np.meshgrid(*[levels] * problem.horizon, indexing="ij"), axis=-1).reshape(-1, problem.horizon)
    state, total = np.tile(problem.initial_lower, (len(actions), 1)), np.zeros(len(actions))
    for t in range(problem.horizon):
        inputs = np.hstack([state, actions[:, t : t + 1]])
        state = problem.dynamics.forward(inputs)
        total += problem.reward.evaluate(np.hstack([inputs, state]))
    return np.asarray(actions[total.argmax()][:, None])


def best_on_a_lattice(problem: Problem) -> float:
    """A lower bound of the optimum."""
    return simulate(problem, problem.initial_lower, best_actions_on_a_lattice(problem)).total_reward


def test_finer_grids_approach_the_optimum() -> None:
    problem = drift(4)
    best = best_on_a_lattice(problem)
    values = [value for value, _ in proven(problem, None, sweeps=6)]
    assert best <= values[-1]
    assert values[-1] - best < 0.25 * (values[0] - best)
    assert values[-1] - best < 0.03


def test_an_incumbent_tightens_the_bound_and_ends_the_refinement_when_nothing_better_is_left() -> None:
    problem = drift(4)
    best = best_on_a_lattice(problem)
    values = [value for value, _ in proven(problem, best, sweeps=8)]
    assert best <= values[-1] < best + 0.02
    assert proven(problem, best + 1.0, sweeps=8)[-1][0] == best + 1.0


def test_two_states_with_a_goal_and_constraints_and_threads() -> None:
    rng = np.random.default_rng(5)
    problem = continuous_problem(rng, relus=6, horizon=4)
    while len(problem.states) < 2:
        problem = continuous_problem(rng, relus=6, horizon=4)
    goal = Constraint(PiecewiseLinear.variable(0, problem.layout.width), False, "s0 <= 0")
    problem = dataclasses.replace(problem, goal=(goal,), constraints=())
    alone, together = proven(problem, sweeps=2), proven(problem, sweeps=2, workers=2)
    assert alone == together
    best = best_sampled(problem, rng)
    assert best is None or all(value + margin >= best - 1e-6 for value, margin in alone)


def test_three_states() -> None:
    rng = np.random.default_rng(1)
    states = tuple(Variable(f"s{i}", "continuous", -2.0, 2.0) for i in range(3))
    width = 3 + 1 + 3
    problem = Problem(
        "three", 3, states, (Variable("a", "continuous", -1.0, 1.0),), (), np.zeros(3), np.zeros(3),
        random_network(rng, 4, [4], 3), random_function(rng, list(range(width)), width),
    )  # fmt: skip
    best = best_sampled(problem, rng)
    assert best is not None
    offers = proven(problem, best, sweeps=2)
    assert all(value + margin >= best for value, margin in offers)


def test_only_few_continuous_states_without_auxiliaries_are_taken() -> None:
    problem = drift()
    assert grid_applies(problem)
    assert not grid_applies(dataclasses.replace(problem, states=problem.states * 4))
    assert grid_applies(dataclasses.replace(problem, states=problem.states * 3), COARSE)
    assert not grid_applies(dataclasses.replace(problem, states=(Variable("s", "integer", -3.0, 3.0),)))
    assert not grid_applies(dataclasses.replace(problem, auxiliaries=(Variable("x", "continuous", 0.0, 1.0),)))
    assert not grid_applies(dataclasses.replace(problem, states=problem.states * 4), COARSE)


def test_settings_that_lack_a_first_grid_are_refused() -> None:
    with pytest.raises(ValueError, match="first_cells"):
        GridSettings(most_states=3, first_cells=(8, 6))


@pytest.mark.parametrize("boxes", [0, 1, 5])
def test_an_affine_function_at_the_corners_of_any_number_of_boxes(boxes: int) -> None:
    rng = np.random.default_rng(boxes)
    slope, lower, width = rng.normal(size=(3, 2, boxes))
    upper, offset = lower + np.abs(width), rng.normal(size=boxes)
    found = corner_values(slope, offset, lower, upper)
    assert found.shape == (4, boxes)
    np.testing.assert_allclose(found[1], slope[0] * lower[0] + slope[1] * upper[1] + offset)
    np.testing.assert_allclose(found[2], slope[0] * upper[0] + slope[1] * lower[1] + offset)


def test_a_deadline_in_the_past_offers_nothing() -> None:
    offers: list[float] = []
    told: list[str] = []
    problem = drift()
    grid_bound(
        problem,
        reachable_bounds(problem),
        None,
        time.monotonic() - 1.0,
        lambda value, _: offers.append(value),
        told.append,
        settings=COARSE,
    )
    assert not [value for value in offers if math.isfinite(value)]
    assert told


class Ticking:
    """A clock on which every look takes a second, so that a deadline can fall between any two pieces of work."""

    def __init__(self) -> None:
        self.looks = 0

    def now(self) -> float:
        self.looks += 1
        return float(self.looks)

    def spend(self, operations: float) -> None:
        pass

    def lp_limits(self, deadline: float, operations: float) -> tuple[float, int]:
        return math.inf, 1


@pytest.mark.parametrize("deadline", range(2, 120, 6))
def test_wherever_the_time_ends_bounds_and_boxes_hold(deadline: int) -> None:
    """Within a backward sweep, a forward sweep, or between them."""
    problem = drift(4)
    bounds = reachable_bounds(problem)
    best = best_on_a_lattice(problem)
    chosen = dataclasses.replace(COARSE, node_passes=0)  # begin grids that the time is too short for
    offers: list[float] = []
    with clock.using(Ticking()):
        boxes = grid_bound(
            problem, bounds, best - 0.05, deadline, lambda value, _: offers.append(value), lambda _: None, 1, chosen
        )
    assert all(value >= best for value in offers)
    actions = best_actions_on_a_lattice(problem)
    states = simulate(problem, problem.initial_lower, actions).states
    assert (boxes.state_lower <= states + 1e-9).all()
    assert (states <= boxes.state_upper + 1e-9).all()
    assert (boxes.action_lower <= actions + 1e-9).all()
    assert (actions <= boxes.action_upper + 1e-9).all()


@pytest.mark.parametrize("slice_length", [3, 17])
def test_in_slices_it_goes_on_where_it_stopped(slice_length: int) -> None:
    """Every bound holds, with an incumbent that becomes better on the way, and no work is lost for ever."""
    problem = drift(4)
    bounds: BetterPlanBounds = reachable_bounds(problem)
    best = best_on_a_lattice(problem)
    chosen = dataclasses.replace(COARSE, node_passes=0, most_nodes=40)
    refinement = GridRefinement(problem, chosen)
    offers: list[float] = []
    ticking = Ticking()
    with clock.using(ticking):
        for number in range(400):
            deadline = ticking.looks + max(slice_length, min(refinement.next_seconds, 1e3) + 2.0)
            incumbent = best - (0.5 if number < 3 else 0.05)
            bounds = refinement.go_on(bounds, incumbent, deadline, lambda v, _: offers.append(v), lambda _: None)
            if math.isinf(refinement.next_seconds):
                break
    assert math.isinf(refinement.next_seconds)
    assert all(value >= best for value in offers)
    whole: list[float] = []
    few = (reachable_bounds(problem), best - 0.05, math.inf, lambda v, _: whole.append(v), lambda _: None)
    grid_bound(problem, *few, settings=chosen)
    assert min(offers) <= min(whole) + 1e-6
    states = simulate(problem, problem.initial_lower, best_actions_on_a_lattice(problem)).states
    assert (bounds.state_lower <= states + 1e-9).all()
    assert (states <= bounds.state_upper + 1e-9).all()


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_bounds_of_finer_grids_are_never_worse(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = dataclasses.replace(continuous_problem(rng, relus=8, horizon=5), goal=())
    with contextlib.suppress(InfeasibleError):
        worth = [value + margin for value, margin in proven(problem, sweeps=3, bounds=reachable_bounds(problem))]
        assert all(after <= before for before, after in pairwise(worth))


def test_nothing_left_to_do_takes_no_time() -> None:
    problem = drift(3)
    refinement = GridRefinement(problem, dataclasses.replace(COARSE, most_nodes=20))
    bounds = reachable_bounds(problem)
    refinement.go_on(bounds, None, math.inf, lambda *_: None, lambda _: None)
    assert math.isinf(refinement.next_seconds)
    assert refinement.go_on(bounds, None, math.inf, lambda *_: pytest.fail("no offer"), pytest.fail) is bounds


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_covered_cells_are_those_that_meet_a_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dimension = int(rng.integers(1, 4))
    grid = Grid(tuple(np.sort(rng.normal(size=rng.integers(2, 6))) for _ in range(dimension)))
    first, last = grid.ends
    ends = np.sort(rng.uniform(first, last, (2, 3, dimension)), axis=0)
    covers = grid.cover(*ends)
    found = grid.covered(*covers)[grid.cells @ grid.strides]
    lower, upper = grid.boxes(grid.cells)
    for cell, is_found in enumerate(found):
        assert is_found == any(
            ((lower[cell] < high) & (upper[cell] > low)).all() for low, high in zip(*ends, strict=True)
        )


CLIFF = """
horizon = 30
reward = "-min(1, max(0, 20*(0.4 - x'))) - 0.01*abs(a)"
[state.x]
bounds = [-1, 0.6]
initial = -0.5
[state.v]
bounds = [-0.1, 0.1]
initial = 0
[action.a]
bounds = [-1, 1]
[transition]
x = "x + v'"
v = "v + 0.01*a - 0.04*(max(0, x + 0.1) - max(0, x - 0.25)) + 0.02*max(0, -0.6 - x)"
"""


def test_cliffs_do_not_lift_the_bound_above_what_can_be_earned(tmp_path: Path) -> None:
    """Without a limit planes rise above a cliff, step after step: a reward that is never positive had bounds above 0.
    The limit per step adds up to a fraction of what the planes did, and goes with finer grids."""
    (tmp_path / "problem.toml").write_text(CLIFF)
    problem = Problem.load(tmp_path / "problem.toml")
    bounds = reachable_bounds(problem)
    best = best_sampled(problem, np.random.default_rng(0))
    assert best is not None
    found = {}
    for name, overshoots in (("limited", (10.0, 0.25)), ("steep", (math.inf, math.inf))):
        values: list[float] = []
        chosen = GridSettings(first_cells=(8, 12, 3), overshoots=overshoots, most_nodes=3_000)
        grid_bound(problem, bounds, best, math.inf, lambda v, _: values.append(v), lambda _: None, settings=chosen)  # noqa: B023
        found[name] = values
        assert min(values) >= best
    assert min(found["limited"]) < 0.0
    assert min(found["limited"]) < min(found["steep"])


LARGE_ROWS = """
horizon = 1
reward = "a + b + c + 0.0001*x"
constraints = ["1e10*a + 2e10*b + 3e10*c <= 59999999999.95"]
[state.x]
initial = 1
bounds = [0, 2]
[action.a]
kind = "boolean"
[action.b]
kind = "boolean"
[action.c]
kind = "boolean"
[transition]
x = "x"
"""


def test_rows_of_large_data_may_be_broken_as_far_as_plans_may_break_them(tmp_path: Path) -> None:
    """The check accepts a violation of 0.05 of a row of 6e10: cells that hold such a plan are not left out."""
    (tmp_path / "problem.toml").write_text(LARGE_ROWS)
    problem = Problem.load(tmp_path / "problem.toml")
    all_on = simulate(problem, problem.initial_lower, np.ones((1, 3)))
    assert check(problem, all_on).ok
    for incumbent in (None, 1.0):
        assert all(value >= all_on.total_reward for value, _ in proven(problem, incumbent))


def test_what_is_proven_is_not_refined() -> None:
    """The proof ends with the offer that is enough, at whatever grid."""
    problem = dataclasses.replace(drift(), reward=PiecewiseLinear.constant_of(0.0, 3))
    offers: list[float] = []
    refinement = GridRefinement(problem)
    arguments = (reachable_bounds(problem), 0.0, math.inf, lambda v, _: offers.append(v), lambda _: None)
    refinement.go_on(*arguments, is_enough=lambda: bool(offers))
    assert len(offers) == 1


def test_ctrl_c_passes_through() -> None:
    def interrupt(value: float, margin: float) -> None:
        raise KeyboardInterrupt

    problem = drift()
    with pytest.raises(KeyboardInterrupt):
        grid_bound(problem, reachable_bounds(problem), None, math.inf, interrupt, lambda _: None, settings=COARSE)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_the_model_of_a_step_splits_the_reward_without_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = continuous_problem(rng, relus=4, horizon=2)
    model = grid_model(problem)
    layout, n = problem.layout, len(problem.states)
    inputs = rng.uniform(-1, 1, (20, layout.input_count))
    outputs = model.network.forward(inputs)
    following = problem.dynamics.forward(inputs)
    w = np.hstack([inputs, following])
    rest = outputs[:, n] if model.has_rest else 0.0
    np.testing.assert_allclose(outputs[:, :n], following, atol=1e-9)
    np.testing.assert_allclose(model.rewards_at(following) + rest, problem.reward.evaluate(w), atol=1e-9)
    for k, constraint in enumerate(problem.constraints):
        np.testing.assert_allclose(outputs[:, n + model.has_rest + k], constraint.function.evaluate(w), atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_node_rewards_lie_below_their_interpolation(seed: int) -> None:
    """Along one state: between neighbouring lines the reward is at most the chord."""
    rng = np.random.default_rng(seed)
    problem = dataclasses.replace(drift(), reward=random_function(rng, [2], 3, depth=1))
    model = grid_model(problem)
    (line,) = Grid.even(np.full(1, -3.0), np.full(1, 3.0), [7], model.breakpoints).lines
    at = np.clip(np.concatenate([rng.uniform(-3.0, 3.0, 200), *model.breakpoints]), -3.0, 3.0)
    chord = np.interp(at, line, model.rewards_at(line[:, None]))
    rewards = problem.reward.evaluate(np.stack([np.zeros_like(at), np.zeros_like(at), at], axis=1))
    assert (rewards <= chord + 1e-12).all()


NEXT_DOUBLE = float(np.nextafter(0.3, 1.0))
BENT = """
horizon = 12
reward = "-abs(x' - 0.25) - 0.01*abs(x' - 0.3) - 0.01*abs(x' - {other!r}) - 0.1*abs(a)"
goal = ["abs(x + 0.1) >= 0.39"]
[state.x]
bounds = [-1, 1]
initial = 0.25
[action.a]
bounds = [-0.15, 0.15]
[transition]
x = "x + a + 0.05*max(0, x) - 0.05*max(0, x - 0.4) + 0.02*max(0, x + a + 0.1) - 0.01"
"""


@pytest.mark.parametrize("other", [NEXT_DOUBLE, 0.3 + 1e-14, 0.3 + 1e-11, 0.4])
def test_breakpoints_that_are_hardly_apart_cut_off_no_plan(other: float, tmp_path: Path) -> None:
    """0.3 and the next double both were lines; halved, they made cells without width, whose slopes 0/0 dropped pairs:
    of plans better than an incumbent just below the optimum, nothing was left."""
    (tmp_path / "problem.toml").write_text(BENT.format(other=other))
    problem = Problem.load(tmp_path / "problem.toml")
    best = plan(problem, method="base", gap=1e-6, threads=1).trajectory
    assert best is not None
    bounds = reachable_bounds(problem)
    few_nodes = dataclasses.replace(COARSE, most_nodes=1_500)
    for less in (0.5, 0.05, 0.005):
        offers: list[float] = []

        def offer(value: float, margin: float, offers: list[float] = offers) -> None:
            offers.append(value + margin)

        incumbent = best.total_reward - less
        boxes = grid_bound(problem, bounds, incumbent, math.inf, offer, lambda _: None, settings=few_nodes)
        assert offers
        assert min(offers) >= best.total_reward - 1e-9
        assert (boxes.state_lower <= best.states + 1e-9).all()
        assert (best.states <= boxes.state_upper + 1e-9).all()
        assert (boxes.action_lower <= best.actions + 1e-9).all()
        assert (best.actions <= boxes.action_upper + 1e-9).all()


@given(seeds)
def test_rewards_with_breakpoints_that_are_hardly_apart_lie_below_their_interpolation(seed: int) -> None:
    """Kinks closer than a cell may be small share a line, and the nodes' rewards are raised by what that costs."""
    rng = np.random.default_rng(seed)
    after = PiecewiseLinear.variable(2, 3)
    centre = rng.uniform(-2.0, 2.0)
    points = centre + np.cumsum(10.0 ** rng.uniform(-16.0, -9.0, 6))
    reward = PiecewiseLinear.constant_of(0.0, 3)
    for point in points:
        away = after - PiecewiseLinear.constant_of(float(point), 3)
        reward = reward - PiecewiseLinear.maximum([away, -away]) * float(10.0 ** rng.uniform(0.0, 9.0))
    problem = dataclasses.replace(drift(), reward=reward)
    model = grid_model(problem)
    (line,) = Grid.even(np.full(1, -3.0), np.full(1, 3.0), [7], model.breakpoints).lines
    assert (np.diff(line) > 0.0).all()
    at = np.concatenate([points, points - 1e-12, rng.uniform(points[0], points[-1], 50), line])
    chord = np.interp(at, line, model.rewards_at(line[:, None]))
    rewards = problem.reward.evaluate(np.stack([np.zeros_like(at), np.zeros_like(at), at], axis=1))
    assert (rewards <= chord + 1e-12 * np.abs(rewards).max()).all()


def test_only_breakpoints_on_the_maximum_become_lines() -> None:
    """K tangents cross K (K − 1) / 2 times, but their maximum changes slope K − 1 times at most."""
    after = PiecewiseLinear.variable(2, 3)
    tangents = [after * (2.0 * c) - PiecewiseLinear.constant_of(c * c, 3) for c in np.linspace(-2.0, 2.0, 30)]
    model = grid_model(dataclasses.replace(drift(), reward=-PiecewiseLinear.maximum(tangents)))
    assert len(model.breakpoints[0]) == 29


def test_a_first_grid_that_does_not_fit_is_not_begun() -> None:
    problem = drift(3)
    bounds = reachable_bounds(problem)
    for small in (GridSettings(most_nodes=10), GridSettings(most_bytes=1e3)):
        told: list[str] = []
        assert grid_bound(problem, bounds, -1e9, math.inf, lambda *_: None, told.append, settings=small) is bounds
        assert told == ["the first grid would take too much time or memory"]


@pytest.mark.parametrize("seed", range(8))
def test_every_plan_better_than_the_incumbent_stays_in_the_tightened_boxes(seed: int) -> None:
    """The best tenth of many random plans, with the worst of them as the incumbent; the grid stops by itself."""
    few_nodes = dataclasses.replace(COARSE, most_nodes=1_500)
    rng = np.random.default_rng(seed)
    problem = dataclasses.replace(continuous_problem(rng, relus=5, horizon=3), goal=(), initial_constraints=())
    lower, upper = problem.box(problem.actions)
    discrete = [v.is_discrete for v in problem.actions]
    plans = []
    for _ in range(400):
        actions = rng.uniform(lower, upper, (3, len(lower)))
        start = rng.uniform(problem.initial_lower, problem.initial_upper)
        found = simulate(problem, start, np.where(discrete, np.round(actions), actions))
        if check(problem, found).max_violation <= 0.0:
            plans.append(found)
    assert plans
    plans.sort(key=lambda found: -found.total_reward)
    better = plans[: 1 + len(plans) // 10]
    before = reachable_bounds(problem)
    worst = better[-1].total_reward
    after = grid_bound(problem, before, worst, math.inf, lambda *_: None, lambda _: None, settings=few_nodes)
    again = reachable_within(problem, after)
    for bounds in (after, again):
        for found in better[:-1]:
            assert (bounds.state_lower <= found.states + 1e-9).all()
            assert (found.states <= bounds.state_upper + 1e-9).all()
            assert (bounds.action_lower <= found.actions + 1e-9).all()
            assert (found.actions <= bounds.action_upper + 1e-9).all()
    units = [problem.dynamics.preactivations(np.hstack([p.states[:-1], p.actions])) for p in better[:-1]]
    assert all((again.unit_lower <= u + 1e-9).all() and (u <= again.unit_upper + 1e-9).all() for u in units)


def test_halving_a_grid_changes_no_value() -> None:
    rng = np.random.default_rng(3)
    coarse = Grid((np.sort(rng.normal(size=5)), np.sort(rng.normal(size=4))))
    values = NodeValues(coarse, np.arange(coarse.node_count), rng.normal(size=coarse.node_count))
    finer = values.halved(coarse.halved())
    assert finer.gain_over(values) == 0.0
    low, high = np.array([-0.3, -0.2]), np.array([0.2, 0.4])
    low, high = np.maximum(low, coarse.ends[0]), np.minimum(high, coarse.ends[1])
    assert finer.maximum(low, high) == pytest.approx(values.maximum(low, high), abs=1e-12)


def test_only_late_steps_without_gain_are_frozen() -> None:
    gains = np.array([1.0, 0.5, 0.001, 0.2, 0.002, 0.0])
    assert steps_above(gains, 0.003) == 4
    assert steps_to_sweep(6, gains, 0.003) == 4
    assert steps_to_sweep(6, np.zeros(0), 0.003) == 6  # before there is a second grid
    assert steps_to_sweep(6, np.zeros(6), 0.003) == 6  # nothing gained anywhere says nothing about the end


def test_boxes_of_the_first_steps_are_intersected_and_the_rest_stays() -> None:
    bounds = reachable_bounds(drift(4))
    box = np.array([0.0, -0.1]), np.array([0.5, 1.0])
    found = tightened(bounds, [box, box])
    np.testing.assert_array_equal(found.state_lower[:2], np.maximum(bounds.state_lower[:2], 0.0))
    np.testing.assert_array_equal(found.state_upper[:2], np.minimum(bounds.state_upper[:2], 0.5))
    np.testing.assert_array_equal(found.action_lower[:2], np.full((2, 1), -0.1))
    np.testing.assert_array_equal(found.action_upper, bounds.action_upper)
    np.testing.assert_array_equal(found.state_lower[2:], bounds.state_lower[2:])
    assert tightened(bounds, []) is bounds
