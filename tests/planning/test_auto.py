"""The default method stage by stage: its proofs against brute force, infeasible problems, and every kind of trouble."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from brute_force import optimum
from patience import AMPLE, LIMITS, plan_patiently
from random_problems import random_network, random_problem
from reluplan.bounds.reachability import reachable_bounds
from reluplan.clock import Clock
from reluplan.network.relu_network import ReluNetwork
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.log import Event
from reluplan.planning.planner import plan
from reluplan.planning.result import PlanResult
from reluplan.planning.run import Run
from reluplan.planning.settings import PlanSettings
from reluplan.problem.check import check
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import simulate
from reluplan.problem.tolerance import TOLERANCE
from reluplan.proofs.grid.proof import GridProof
from reluplan.proofs.grid.settings import GridSettings
from reluplan.proofs.proof_state import ProofState

EVERY_STAGE = PlanSettings(few_unstable=-1)
"""No model is too small for tightening."""
SHORTCUTS = pytest.mark.parametrize("settings", [PlanSettings(), EVERY_STAGE], ids=["small", "every stage"])


def assert_honest(problem: Problem, result: PlanResult) -> None:
    """A plan re-simulates and keeps the constraints; no bound is below it."""
    if result.trajectory is None:
        assert result.status in ("no_plan", "infeasible")
        return
    found = result.trajectory
    again = simulate(problem, found.states[0], found.actions, found.auxiliaries)
    assert again.total_reward == result.reward
    assert check(problem, again).max_violation <= TOLERANCE
    assert result.bound is None or result.bound >= again.total_reward


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13])
def test_with_every_stage_bounds_and_plans_equal_brute_force(seed: int) -> None:
    """Goals, discrete actions and states, tight constraints, auxiliaries: whatever the seed gives."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=int(rng.integers(1, 4)), horizon=2, auxiliary=seed % 5 == 0)
    best = optimum(problem)
    options = {"gap": 1e-3, "threads": 2, "settings": EVERY_STAGE}
    result = plan_patiently(problem, lambda found: best is None or found.status == "optimal", **options)
    assert_honest(problem, result)
    if best is None:
        assert result.status in ("infeasible", "no_plan")
        return
    assert result.bound is not None
    assert result.bound >= best - 1e-9
    assert result.status == "optimal"
    assert result.reward == pytest.approx(best, abs=2e-3 * max(1.0, abs(best)))


def walker(horizon: int, goal_at: float, step: float = 1.0) -> Problem:
    """From 0, move by at most `step` at a time and end at goal_at or beyond; distance from 0 costs, at every step."""
    network = ReluNetwork.sequential([[[1.0, 1.0]]], [[0.0]])
    position = PiecewiseLinear.variable(0, 3)
    after = PiecewiseLinear.variable(2, 3)
    goal = Constraint(PiecewiseLinear.constant_of(goal_at, 3) - position, False, f"s >= {goal_at}")
    return Problem(
        "walker", horizon, (Variable("s", "continuous", -50.0, 50.0),), (Variable("a", "continuous", -step, step),), (),
        np.zeros(1), np.zeros(1), network, -PiecewiseLinear.maximum([after, -after]), goal=(goal,),
    )  # fmt: skip


@SHORTCUTS
def test_goals_only_cut_plans_at_the_last_step(settings: PlanSettings) -> None:
    """Over 12 steps the best plan waits, then walks 3 steps to the goal at 3: 1 + 2 + 3 are lost."""
    best = pytest.approx(-6.0, abs=1e-2)

    def is_done(found: PlanResult) -> bool:
        return bool(found.reward == best) if settings is EVERY_STAGE else found.status == "optimal"

    result = plan_patiently(walker(12, 3.0), is_done, gap=1e-3, settings=settings)
    assert result.reward == best
    assert result.bound is not None
    assert result.bound >= -6.0 - 1e-9
    assert settings is EVERY_STAGE or result.status == "optimal"


@SHORTCUTS
def test_an_unreachable_goal_is_proven_infeasible(settings: PlanSettings) -> None:
    result = plan(walker(5, 5.5), time_limit=AMPLE, settings=settings)
    assert result.status == "infeasible"
    assert result.trajectory is None


@SHORTCUTS
def test_constraints_that_no_action_satisfies_are_proven_infeasible(settings: PlanSettings) -> None:
    action = PiecewiseLinear.variable(1, 3)
    distance = PiecewiseLinear.maximum([action, -action])
    never = Constraint(PiecewiseLinear.constant_of(1.5, 3) - distance, False, "|a| >= 1.5")
    problem = dataclasses.replace(walker(4, -50.0), constraints=(never,))
    assert plan(problem, time_limit=AMPLE, settings=settings).status == "infeasible"


def test_a_goal_that_may_be_unreachable_never_gives_a_wrong_plan() -> None:
    """A learned network that hardly reaches the goal: a plan that reaches it, a proof, or neither, but no claim."""
    network = random_network(np.random.default_rng(5), 3, [12, 12], 2)
    states = tuple(Variable(f"s{i}", "continuous", -5.0, 5.0) for i in range(2))
    goal = Constraint(
        PiecewiseLinear.constant_of(2.2, 5) - PiecewiseLinear.variable(0, 5), False, "s0 >= 2.2"
    )  # fmt: skip
    problem = Problem(
        "far", 6, states, (Variable("a", "continuous", -1.0, 1.0),), (), np.zeros(2), np.zeros(2), network,
        -PiecewiseLinear.variable(4, 5), goal=(goal,),
    )  # fmt: skip
    assert_honest(problem, plan(problem, time_limit=8.0, settings=EVERY_STAGE))


def long_problem() -> Problem:
    """Two states and a network, over 25 steps: every stage has something to do."""
    network = random_network(np.random.default_rng(4), 3, [10], 2)
    states = tuple(Variable(f"s{i}", "continuous", -4.0, 4.0) for i in range(2))
    target = [PiecewiseLinear.variable(3 + i, 5) for i in range(2)]
    reward = -(PiecewiseLinear.maximum([target[0], -target[0]]) + PiecewiseLinear.maximum([target[1], -target[1]]))
    return Problem(
        "long", 25, states, (Variable("a", "continuous", -1.0, 1.0),), (), np.array([2.0, -2.0]), np.array([2.0, -2.0]),
        network, reward,
    )  # fmt: skip


def test_the_grid_hands_on_where_better_plans_are() -> None:
    """Boxes of better plans, with fewer unstable units, for the proofs that come after it."""
    problem = long_problem()
    run = Run(problem, Clock(AMPLE), 1e-6)
    best = plan(problem, gap=1e-3, time_limit=AMPLE).trajectory
    assert best is not None
    run.incumbent.offer_plan(best, "before")
    bounds = reachable_bounds(problem)
    with WorkerPool("highs", 1) as pool:
        state = ProofState(problem, run.incumbent, bounds, pool, run.clock)
        GridProof(GridSettings(most_nodes=100_000)).improve(state, run.clock.deadline())
    assert run.incumbent.bound >= best.total_reward
    assert state.boxes.unstable.sum() < bounds.unstable.sum()
    assert (state.boxes.state_upper <= bounds.state_upper + 1e-9).all()


@pytest.mark.parametrize(
    "stage", ["bounds", "interval", "search", "tightening", "model", "milp", "polish", "grid", "lagrangian"]
)
def test_ctrl_c_at_any_stage_ends_with_what_is_known(stage: str) -> None:
    """The time limit gives each stage its share; on a busy machine it takes a longer one to reach the later stages."""
    chosen = ["search", stage, "milp"] if stage in ("grid", "lagrangian", "tightening") else None
    reached: list[str] = []

    def press(event: Event) -> None:
        if event.stage == stage and not reached:
            reached.append(stage)
            raise KeyboardInterrupt

    problem = long_problem()
    for time_limit in LIMITS:
        result = plan(problem, gap=0.0, time_limit=time_limit, on_event=press, stages=chosen, settings=EVERY_STAGE)
        assert_honest(problem, result)
        if reached:
            break
    assert reached
    assert result.interrupted
    if stage not in ("bounds", "interval", "search"):
        assert result.trajectory is not None
        assert result.bound is not None


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
def test_workers_that_die_cost_bounds_but_not_the_run() -> None:
    """Every worker process is killed as soon as it shows up, for as long as the windows are being bounded."""
    stop, killed = threading.Event(), []

    def kill_children() -> None:
        me = os.getpid()
        while not stop.is_set():
            for task in Path(f"/proc/{me}/task").iterdir():
                with suppress(FileNotFoundError, ProcessLookupError):  # threads and children come and go
                    for child in (task / "children").read_text().split():
                        if b"reluplan" in Path(f"/proc/{child}/cmdline").read_bytes():
                            os.kill(int(child), signal.SIGKILL)
                            killed.append(child)
            time.sleep(0.05)

    thread = threading.Thread(target=kill_children, daemon=True)

    def listen(event: Event) -> None:
        if event.stage == "lagrangian" and not thread.ident:
            thread.start()

    problem = long_problem()
    try:
        for time_limit in LIMITS:  # a busy machine reaches them later
            result = plan(problem, gap=0.0, time_limit=time_limit, on_event=listen, stages=["search", "lagrangian"])
            if killed:
                break
    finally:
        stop.set()
    assert_honest(problem, result)
    assert result.trajectory is not None
    assert result.bound is not None
    assert killed


def test_a_solver_that_fails_leaves_the_plan_and_the_bound() -> None:
    """Gurobi's free licence refuses the whole model of this horizon: what the search found stays."""
    pytest.importorskip("gurobipy")
    problem = long_problem().with_horizon(200)
    options = {"gap": 0.0, "solver": "gurobi", "settings": EVERY_STAGE}
    result = plan_patiently(problem, lambda found: found.trajectory is not None, **options)
    assert_honest(problem, result)
    assert result.trajectory is not None
    assert result.bound is not None
