"""The search: gradients, linear programs around a plan, and what the whole search finds."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from brute_force import optimum
from patience import AMPLE, LIMITS
from random_problems import random_problem, with_final_reward
from reluplan import clock
from reluplan.clock import Clock
from reluplan.errors import InputError
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.planning.planner import plan
from reluplan.planning.run import Run
from reluplan.problem.check import check
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, rollout
from reluplan.search import HEURISTICS, Heuristic, Phase, PlanSearch, search_plans
from reluplan.search.batch import roll_out
from reluplan.search.beam_search import _selected, beam_plan, beam_search
from reluplan.search.box import search_box
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.dynamic_programming import dynamic_programming
from reluplan.search.gradient_ascent import gradient_ascent
from reluplan.search.linearise import linearise
from reluplan.search.local_search import local_search
from reluplan.search.merit import Merit
from reluplan.search.receding_horizon import receding_horizon
from reluplan.search.schedule import Schedule
from reluplan.search.settings import DEFAULTS, LocalModelSettings, RecedingHorizonSettings, SearchSettings
from reluplan.search.sliding_window import fits
from reluplan.search.state_grid import Grid
from reluplan.search.subproblem import splice, subproblem
from reluplan.search.time_slice import Paused, Stopwatch, TimeSlice, finish

Array = NDArray[np.float64]
TANKS = Path("examples/tanks/problem.toml")
SEEDS = st.integers(0, 10_000)


def searched(
    problem: Problem, seconds: float = AMPLE, start: Trajectory | None = None, chosen: SearchSettings = DEFAULTS
) -> Run:
    run = Run(problem, Clock(), 1e-4)
    search_plans(problem, None, time.monotonic() + seconds, run.incumbent.offer_plan, start=start, settings=chosen)
    return run


def context_of(problem: Problem, seconds: float = AMPLE, chosen: SearchSettings = DEFAULTS) -> Context:
    rng = np.random.default_rng(0)
    box, merit = search_box(problem, None), Merit.of(problem)
    return Context(problem, box, TimeSlice(time.monotonic() + seconds), lambda *_: True, rng, merit, settings=chosen)


def line_problem(horizon: int = 8, action: Variable | None = None) -> Problem:
    """s' = s + a from s = 0, |a| <= 1, R = −|s' − 5|: four steps on the way cost 4 + 3 + 2 + 1."""
    action = action or Variable("a", "continuous", -1.0, 1.0)
    position = PiecewiseLinear.variable(2, 3) - PiecewiseLinear.constant_of(5.0, 3)
    return Problem(
        name="line", horizon=horizon, states=(Variable("s"),), actions=(action,), auxiliaries=(),
        initial_lower=np.zeros(1), initial_upper=np.zeros(1),
        dynamics=ReluNetwork(2, (), Layer(np.array([[1.0, 1.0]]), np.zeros(1))),
        reward=-PiecewiseLinear.maximum([position, -position]),
    )  # fmt: skip


def row(coefficients: list[float], constant: float, equality: bool = False) -> Constraint:
    return Constraint(PiecewiseLinear(np.array(coefficients), constant), equality, "row")


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_the_gradient_is_the_slope_of_the_merit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=6, horizon=4, auxiliary=bool(seed % 2))
    problem = replace(problem, states=tuple(Variable(v.name, "continuous", -4.0, 4.0) for v in problem.states))
    if seed % 3 == 0:
        problem = with_final_reward(rng, problem)
    merit = Merit(problem, 3.0)
    decisions = search_box(problem, None).random(rng, 1)
    _, gradient = merit.gradient(roll_out(problem, decisions))

    def value(moved: Decisions) -> float:
        return float(merit.score(roll_out(problem, moved)).merit(3.0)[0])

    for part, values in enumerate(decisions.parts):
        for index in np.ndindex(values.shape):
            ends = []
            for sign in (-1.0, 0.0, 1.0):
                parts = [array.copy() for array in decisions.parts]
                parts[part][index] += sign * 1e-6
                ends.append(value(Decisions(*parts)))
            back, forth = (ends[1] - ends[0]) / 1e-6, (ends[2] - ends[1]) / 1e-6
            slope = gradient.parts[part][index]
            tolerance = 1e-6 * max(1.0, abs(back), abs(forth), abs(ends[1]) * 10.0)
            assert min(back, forth) - tolerance <= slope <= max(back, forth) + tolerance


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_linearisation_is_exact_on_its_own_trajectory(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=6, horizon=4)
    decisions = search_box(problem, None).random(rng, 1)
    plan = rollout(problem, decisions.initial[0], decisions.actions[0])
    lin = linearise(problem, plan)
    predictions = np.einsum("toi,ti->to", lin.jacobian, lin.inputs) + lin.offset
    units = np.einsum("tui,ti->tu", lin.slopes, lin.inputs) + lin.intercepts
    assert np.allclose(predictions, problem.dynamics.forward(lin.inputs))
    assert np.allclose(units, lin.units)


@pytest.mark.parametrize("seed", [0, 2, 3, 4, 9, 10, 11])
def test_the_optimum_of_small_problems_is_found_and_never_beaten(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), relus=2, horizon=1 + seed % 2, auxiliary=seed % 3 == 0)
    best, run = optimum(problem), searched(problem)
    if best is None:
        assert run.incumbent.plan is None
        return
    assert run.incumbent.plan is not None
    assert check(
        problem,
        rollout(problem, run.incumbent.plan.states[0], run.incumbent.plan.actions, run.incumbent.plan.auxiliaries),
    ).ok
    assert best - 1e-3 <= run.incumbent.plan.total_reward <= best + 1e-4


@pytest.mark.parametrize("seed", range(100, 112))
def test_every_plan_that_is_passed_on_keeps_all_constraints(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), relus=6, horizon=5, auxiliary=seed % 2 == 0)
    offered: list[Trajectory] = []

    def sink(trajectory: Trajectory, source: str) -> bool:
        offered.append(trajectory)
        return True

    search_plans(problem, None, time.monotonic() + 1.0, sink)
    rewards = [trajectory.total_reward for trajectory in offered]
    assert rewards == sorted(rewards)
    assert all(check(problem, trajectory).ok for trajectory in offered)


def test_a_known_optimum() -> None:
    assert searched(line_problem()).incumbent.reward == pytest.approx(-10.0, abs=1e-6)


@pytest.mark.parametrize("heuristic", [beam_search, dynamic_programming, gradient_ascent])
def test_heuristics_see_a_final_reward(heuristic: Callable[[Context], Paused[None]]) -> None:
    """Going to 5 pays at every step, being back at the end pays more: no step alone shows it."""
    home = PiecewiseLinear(np.array([-100.0, 0.0, 0.0]))
    back = replace(line_problem(6), final_reward=PiecewiseLinear.minimum([home, home * 0.0]), discount=0.9)
    context = context_of(back)
    finish(heuristic(context))
    best = plan(back, method="base", gap=1e-6, threads=1).reward
    assert best is not None
    assert context.best is not None
    assert best - 0.5 <= context.best.total_reward <= best + 1e-4


@pytest.mark.parametrize("seed", range(8))
def test_a_beam_that_is_wide_enough_finds_the_best_of_all_sequences(seed: int) -> None:
    """2^6 sequences of a boolean action fit into any beam: its plan is the best of them, by their merit."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=6, horizon=6)
    switches = tuple(Variable(action.name, "boolean", 0.0, 1.0) for action in problem.actions[:1])
    still = tuple(Variable(action.name, "boolean", 0.0, 0.0) for action in problem.actions[1:])
    problem = replace(problem, actions=(*switches, *still), initial_upper=problem.initial_lower)
    problem = with_final_reward(rng, problem) if seed % 2 else problem
    context = context_of(problem)
    found = finish(beam_plan(context))
    assert found is not None
    actions = np.zeros((2**6, 6, len(problem.actions)))
    actions[..., 0] = np.array(list(itertools.product((0.0, 1.0), repeat=6)))
    every = Decisions(np.repeat(problem.initial_lower[None], 2**6, axis=0), actions, np.zeros((2**6, 7, 0)))
    merits = context.evaluate(every)[1].merit(context.merit.penalty)
    merit = context.evaluate(found)[1].merit(context.merit.penalty)[0]
    assert merit == pytest.approx(merits.max(), rel=1e-9, abs=1e-9)


def test_a_narrow_beam_keeps_ways_that_are_behind() -> None:
    """The best half is one state again and again; the other half is one way into each cell."""
    states = np.concatenate([np.zeros((60, 1)), np.linspace(1.0, 10.0, 40)[:, None]])
    earned = np.concatenate([np.full(60, 5.0), np.linspace(1.0, 4.0, 40)])
    kept = _selected(states, earned, 16)
    assert len(kept) <= 16
    assert (earned[kept[:8]] == 5.0).all()
    assert np.ptp(states[kept[8:]]) > 5.0


def test_no_beam_where_it_would_take_too_long() -> None:
    chosen = replace(DEFAULTS, beam_search=replace(DEFAULTS.beam_search, operations=1.0))
    assert finish(beam_plan(context_of(line_problem(), chosen=chosen))) is None


def test_a_goal_away_from_the_reward_is_reached_at_the_last_moment() -> None:
    problem = replace(line_problem(), goal=(row([-1.0, 0.0, 0.0], 6.5),))
    run = searched(problem)
    assert run.incumbent.reward == pytest.approx(-10.0 - 0.5 - 1.5, abs=1e-4)
    assert run.incumbent.max_violation <= 1e-6


def test_a_goal_that_only_one_plan_reaches() -> None:
    problem = replace(line_problem(), goal=(row([-1.0, 0.0, 0.0], 8.0),))
    assert searched(problem).incumbent.reward == pytest.approx(-13.0 - 3.0, abs=1e-4)


def test_constraints_between_states_and_actions() -> None:
    problem = replace(line_problem(), constraints=(row([-0.5, 1.0, 0.0], -0.25),))  # a <= s/2 + 1/4
    state, total = 0.0, 0.0
    for _ in range(8):
        state += min(1.0, 0.5 * state + 0.25, 5.0 - state)
        total -= abs(state - 5.0)
    assert searched(problem).incumbent.reward == pytest.approx(total, abs=1e-4)


def test_discrete_actions() -> None:
    problem = line_problem(action=Variable("a", "integer", -2.0, 2.0))
    run = searched(problem)
    assert run.incumbent.reward == pytest.approx(-3.0 - 1.0)
    assert run.incumbent.plan is not None
    assert set(run.incumbent.plan.actions.ravel().tolist()) <= {-2.0, -1.0, 0.0, 1.0, 2.0}


def test_an_open_initial_state_and_open_bounds() -> None:
    problem = replace(line_problem(action=Variable("a", "continuous", 0.0, np.inf)), initial_lower=np.array([-3.0]))
    assert searched(problem).incumbent.reward == pytest.approx(0.0, abs=1e-6)


def test_an_auxiliary_that_constraints_tie_down() -> None:
    """R = x' with x <= s and x <= 4 − s: best at s = 2, from the second state on."""
    base = line_problem(horizon=6)
    problem = replace(
        base,
        auxiliaries=(Variable("x", "continuous", -10.0, 10.0),),
        dynamics=ReluNetwork(3, (), Layer(np.array([[1.0, 1.0, 0.0]]), np.zeros(1))),
        reward=PiecewiseLinear.variable(4, 5),
        constraints=(row([0.0, 0.0, 0.0, -1.0, 1.0], 0.0), row([0.0, 0.0, 0.0, 1.0, 1.0], -4.0)),
    )
    assert searched(problem).incumbent.reward == pytest.approx(1.0 + 5 * 2.0, abs=1e-5)


def test_a_reward_with_two_hills_is_climbed_on_the_higher_side() -> None:
    """max(−|s' + 3|, 1 − |s' − 4|) is not concave; the far hill is higher."""

    def hill(top: float, height: float) -> PiecewiseLinear:
        away = PiecewiseLinear.variable(2, 3) - PiecewiseLinear.constant_of(top, 3)
        return PiecewiseLinear.constant_of(height, 3) - PiecewiseLinear.maximum([away, -away])

    problem = replace(line_problem(horizon=20), reward=PiecewiseLinear.maximum([hill(-3.0, 0.0), hill(4.0, 1.0)]))
    assert searched(problem).incumbent.reward == pytest.approx(17 * 1.0 + 0.0 - 1.0 - 2.0, abs=1e-4)


@pytest.mark.parametrize("horizon", [60, 400])
def test_states_that_explode_are_no_error(horizon: int) -> None:
    """s' = 10 s + a: all but a few plans lead beyond 1e300 or, at 400 steps, beyond all numbers."""
    dynamics = ReluNetwork(2, (), Layer(np.array([[10.0, 1.0]]), np.zeros(1)))
    run = searched(replace(line_problem(horizon), dynamics=dynamics), seconds=3.0)
    assert run.incumbent.reward is None or run.incumbent.reward <= 0.0


def test_a_start_is_never_made_worse() -> None:
    problem = line_problem()
    start = rollout(problem, np.zeros(1), np.array([[1.0]] * 5 + [[0.0]] * 3))
    assert searched(problem, seconds=1e-3, start=start).incumbent.reward == pytest.approx(-10.0)


def test_no_time_is_no_error() -> None:
    assert searched(line_problem(), seconds=-1.0).interrupted is False


def test_ctrl_c_passes_through() -> None:
    def sink(trajectory: Trajectory, source: str) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_plans(line_problem(), None, time.monotonic() + AMPLE, sink)


def plans_of_work(problem: Problem, slices: list[float], seed: int = 0) -> list[Trajectory]:
    """What slices of work (in units of 1e9 operations) find, one after the other."""
    found: list[Trajectory] = []

    def sink(plan: Trajectory, source: str) -> bool:
        found.append(plan)
        return True

    with clock.using(clock.WorkClock()):
        search = PlanSearch(problem, sink, seed)
        for length in slices:
            search.run(clock.now() + length)
    return found


def test_the_same_seed_and_work_find_the_same_plans() -> None:
    problem = random_problem(np.random.default_rng(101), relus=6, horizon=4)
    first, second = (plans_of_work(problem, [0.001, 0.003, 0.006]) for _ in range(2))
    assert first
    assert len(first) == len(second)
    pairs = zip(first, second, strict=True)  # where arrays lie in memory may change the last bits of their products
    assert all(np.allclose(a.actions, b.actions, rtol=1e-9, atol=1e-9) for a, b in pairs)


def test_a_first_plan_takes_little_work_however_long_the_horizon() -> None:
    counts = []
    for horizon in (200, 2000):
        context = context_of(replace(Problem.load(TANKS).with_horizon(horizon), goal=()))
        finish(receding_horizon(context))
        assert context.found
        counts.append(context.work.linear_programs)
    assert counts[1] <= counts[0] + 10 <= 100


def test_windows_improve_a_long_plan() -> None:
    problem = line_problem(horizon=400)
    context = context_of(problem)
    plan = context.offer(Decisions(np.zeros((1, 1)), np.zeros((1, 400, 1)), np.zeros((1, 401, 0))), "start")
    part = subproblem(context, 100, 20, plan.states[100], plan.states[120])
    part.take(plan.part(100, 120), "start")
    improved = finish(local_search(part, plan.part(100, 120)))
    assert improved.states[-1] == pytest.approx(plan.states[120], abs=1e-6)
    spliced = splice(problem, plan, improved, 100)
    assert spliced.total_reward == pytest.approx(plan.total_reward + 2 * (1 + 2 + 3 + 4) + 11 * 5, abs=1e-4)
    best = pytest.approx(-10.0, abs=1e-5)
    assert any(searched(problem, seconds).incumbent.reward == best for seconds in LIMITS)


def test_windows_of_a_size_that_is_set() -> None:
    problem = line_problem(horizon=40)
    chosen = SearchSettings(local_model=LocalModelSettings(longest=12))
    assert fits(context_of(problem))
    assert not fits(context_of(problem, chosen=chosen))
    best = pytest.approx(-10.0, abs=1e-5)
    assert any(searched(problem, seconds, chosen=chosen).incumbent.reward == best for seconds in LIMITS)


def test_longer_windows_of_the_receding_horizon_see_further() -> None:
    """R = 0 but for 1 at s' >= 5: with windows of two steps there is nothing to be seen from s = 0."""
    above = PiecewiseLinear.variable(2, 3) - PiecewiseLinear.constant_of(4.0, 3)
    none, one = (PiecewiseLinear.constant_of(value, 3) for value in (0.0, 1.0))
    problem = replace(
        line_problem(12), reward=-PiecewiseLinear.maximum([-PiecewiseLinear.maximum([above, none]), -one])
    )
    rewards = []
    for window in (2, 12):
        context = context_of(problem, chosen=SearchSettings(receding_horizon=RecedingHorizonSettings(window=window)))
        finish(receding_horizon(context))
        assert context.best is not None
        rewards.append(context.best.total_reward)
    assert rewards[0] == pytest.approx(0.0)
    assert rewards[1] > 1.0


def stay_at_three(context: Context) -> None:
    """Three steps to the right on a line of this name, and nothing on any other: the registry is the process's."""
    problem = context.problem
    if problem.name == "line of a test":
        actions = np.zeros((1, problem.horizon, 1))
        actions[0, :3] = 1.0
        decisions = Decisions(np.zeros((1, 1)), actions, np.zeros((1, problem.horizon + 1, 0)))
        context.offer(context.box.into(decisions), "three steps")


HEURISTICS.register("stay-at-three", Heuristic(stay_at_three, Phase.CONSTRUCTION))


@pytest.mark.parametrize("horizon", [8, 400])
def test_a_heuristic_from_outside_runs_alone(horizon: int) -> None:
    problem = replace(line_problem(horizon), name="line of a test")
    found: list[tuple[str, float]] = []

    def sink(plan: Trajectory, source: str) -> bool:
        found.append((source, plan.total_reward))
        return True

    search_plans(problem, None, time.monotonic() + AMPLE, sink, heuristics=("stay-at-three",))
    assert found[0] == ("three steps", -(4.0 + 3.0) - 2.0 * (horizon - 2))


def test_a_heuristic_from_outside_runs_with_the_others() -> None:
    problem = replace(line_problem(), name="line of a test")
    context = context_of(problem)
    sources: list[str] = []

    def sink(plan: Trajectory, source: str) -> bool:
        sources.append(source)
        return True

    context.sink = sink
    finish(Schedule((HEURISTICS["stay-at-three"], HEURISTICS["local-search"])).run(context))
    assert sources[0] == "three steps"
    assert context.best is not None
    assert context.best.total_reward == pytest.approx(-10.0, abs=1e-6)
    assert searched(problem).incumbent.reward == pytest.approx(-10.0, abs=1e-6)


@pytest.mark.parametrize("horizon", [8, 300])
def test_without_a_construction_the_others_find_plans(horizon: int) -> None:
    run = Run(line_problem(horizon), Clock(), 1e-4)
    search_plans(
        run.problem, None, time.monotonic() + AMPLE, run.incumbent.offer_plan, heuristics=("constant-actions",)
    )
    assert run.incumbent.reward == pytest.approx(-10.0, abs=1e-5)


def test_an_unknown_heuristic_is_refused() -> None:
    with pytest.raises(InputError, match="unknown heuristic 'luck'; choose one of simple-plans, receding-horizon"):
        search_plans(line_problem(), None, time.monotonic(), lambda *_: True, heuristics=("luck",))


def test_settings_can_be_written_down() -> None:
    written = json.loads(json.dumps(asdict(SearchSettings())))
    assert written["receding_horizon"]["window"] == DEFAULTS.receding_horizon.window


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_interpolation_on_a_grid_is_exact_for_affine_functions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = Grid((np.linspace(-1.0, 2.0, 5), np.linspace(0.0, 1.0, 3), np.array([4.0])))
    slope = rng.normal(size=3)
    states = rng.uniform([-1.0, 0.0, 4.0], [2.0, 1.0, 4.0], (20, 3))
    assert np.allclose(grid.weights(states) @ (grid.nodes @ slope), states @ slope)


def test_a_stopwatch_counts_what_work_took_without_what_it_waited_for() -> None:
    def work() -> Paused[str]:
        for _ in range(10):
            clock.spend(clock.OPERATIONS_PER_SECOND)
            yield
        return "done"

    with clock.using(clock.WorkClock()):
        whole, part = Stopwatch(), Stopwatch()
        running = whole.of(work())
        for _ in range(10):
            next(running)
            clock.spend(100.0 * clock.OPERATIONS_PER_SECOND)
        assert finish(running) == "done"
        assert whole.seconds == pytest.approx(10.0)
        assert finish(part.of(work(), most=4.5)) is None
        assert 4.5 <= part.seconds <= 6.0


def test_local_search_does_not_begin_again_where_it_has_ended() -> None:
    context = context_of(random_problem(np.random.default_rng(3), relus=4, horizon=3))
    finish(Schedule((HEURISTICS["simple-plans"], HEURISTICS["local-search"])).run(context))
    assert context.best is context.polished
    programs = context.work.linear_programs
    finish(HEURISTICS["local-search"].begin(context))
    assert context.work.linear_programs == programs
