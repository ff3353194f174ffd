"""Receding-horizon control: exact where the model is, sensible where it is not."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reluplan.control import Controller, ControlReport, run_episode
from reluplan.control.observe import observed_state
from reluplan.control.run import control_episodes, draw_starts
from reluplan.control.shift import shifted_plan
from reluplan.control.step_plan import PlanningOptions, plan_step
from reluplan.errors import InputError
from reluplan.planning.planner import plan
from reluplan.problem.check import check
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import simulate
from reluplan.simulators import open_simulator
from reluplan.simulators.ordered import OrderedSimulator
from shared_data import EXAMPLES

RESERVOIR = OrderedSimulator(
    open_simulator(str(EXAMPLES / "reservoir" / "domain.rddl"), "instance_3.rddl"),
    Problem.load(EXAMPLES / "reservoir" / "reservoir_3" / "problem.toml"),
)

TANKS = """
name = "two tanks"
horizon = 5
reward = "-abs(upper' - 5) - 2*abs(lower' - 4) - 0.1*pump"
constraints = ["drain <= upper"]
goal = ["upper >= 6"]
[state."upper"]
bounds = [0, 10]
initial = 2
[state."lower"]
bounds = [0, 10]
initial = 0
[action."pump"]
bounds = [0, 3]
[action."drain"]
bounds = [0, 2]
[transition]
"upper" = "min(10, upper + pump - drain)"
"lower" = "max(lower - 1, 0) + drain"
"""

SYSTEM = """
import numpy as np

STATES = {"lower": (0.0, 10.0), "upper": (0.0, 10.0)}
ACTIONS = {"drain": (0.0, 2.0), "pump": (0.0, 3.0)}
INITIAL = {"upper": 2.0, "lower": 0.0}
HORIZON = 5

def exact(state, action):
    lower, upper = state
    drain, pump = action
    return np.array([max(lower - 1.0, 0.0) + drain, min(10.0, upper + pump - drain)])

def leaky(state, action):
    lower, upper = exact(state, action)
    return np.array([lower, max(0.0, upper - 0.3)])

def paid(state, action):
    return exact(state, action), 1.0
"""


@pytest.fixture
def tanks(tmp_path: Path) -> Problem:
    (tmp_path / "problem.toml").write_text(TANKS)
    (tmp_path / "system.py").write_text(SYSTEM)
    return Problem.load(tmp_path / "problem.toml")


def system(problem: Problem, function: str) -> OrderedSimulator:
    return OrderedSimulator(open_simulator(f"{Path(problem.source).parent / 'system.py'}:{function}"), problem)


def test_with_an_exact_model_replanning_earns_what_the_plan_promised(tanks: Problem) -> None:
    """Bellman: every tail of an optimal plan is optimal, so replanning over the remaining steps changes nothing."""
    promised = plan(tanks, method="base").reward
    assert promised is not None
    controller = Controller(tanks, time_limit_per_step=60.0, method="base")
    episode = run_episode(system(tanks, "exact"), controller.policy, tanks.horizon)
    assert episode.total_reward == pytest.approx(promised, rel=1e-3)
    assert [made.status for made in controller.decisions] == ["optimal"] * 5
    assert [made.horizon for made in controller.decisions] == [5, 4, 3, 2, 1]
    assert episode.states[-1][0] >= 6.0 - 1e-6  # the goal
    left = np.cumsum(episode.rewards[::-1])[::-1]
    assert [made.reward for made in controller.decisions] == pytest.approx(left, abs=2e-3)


def test_final_rewards_and_discounts_are_earned_as_promised(tanks: Problem) -> None:
    """The tail of an optimal plan is optimal with a discount too; the episode is worth what the plan promised."""
    level = np.zeros(tanks.layout.width)
    level[0] = 2.0
    valued = replace(tanks, final_reward=PiecewiseLinear(level), discount=0.8, goal=())
    promised = plan(valued, method="base").reward
    controller = Controller(valued, time_limit_per_step=60.0, method="base")
    episode = run_episode(system(valued, "exact"), controller.policy, valued.horizon)
    assert episode.total_reward == pytest.approx(promised, rel=1e-3)
    assert episode.final_reward == pytest.approx(2.0 * episode.states[-1][0])
    assert controller.decisions[-1].reward == pytest.approx(episode.rewards[-1] + 0.8 * episode.final_reward, abs=2e-3)


def test_the_final_reward_counts_at_the_end_of_every_plan(tanks: Problem) -> None:
    """Where it stands for what comes after the look-ahead."""
    level = np.zeros(tanks.layout.width)
    level[0] = -1000.0
    empty = replace(tanks, final_reward=PiecewiseLinear(level), goal=())
    with_it = Controller(empty, lookahead=1, time_limit_per_step=60.0, method="base")
    without = Controller(replace(empty, final_reward=None), lookahead=1, time_limit_per_step=60.0, method="base")
    start = tanks.initial_lower
    outcomes = [empty.next_states(np.concatenate([start, c.policy(start)]))[0] for c in (with_it, without)]
    assert outcomes[0] < outcomes[1]


def test_replanning_corrects_what_an_open_loop_plan_cannot(tanks: Problem) -> None:
    relaxed = replace(tanks, goal=())
    open_loop = plan(relaxed, method="base").trajectory
    assert open_loop is not None
    actions = iter(open_loop.actions)
    blind = run_episode(system(tanks, "leaky"), lambda _: next(actions), 5)
    controlled = run_episode(
        system(tanks, "leaky"), Controller(relaxed, time_limit_per_step=60.0, method="base").policy, 5
    )
    assert controlled.total_reward > blind.total_reward


def test_the_goal_counts_only_when_the_plan_reaches_the_last_step(tanks: Problem) -> None:
    unreachable = replace(tanks, goal=tanks.goal, initial_lower=np.zeros(2), initial_upper=np.zeros(2), horizon=9)
    controller = Controller(unreachable, lookahead=1, time_limit_per_step=60.0, method="base")
    controller.policy(np.zeros(2))
    assert controller.decisions[0].status == "optimal"
    assert controller.decisions[0].horizon == 1


def test_without_any_plan_the_action_nearest_to_zero_is_taken(tanks: Problem) -> None:
    """One step cannot fill the tank to its goal: proven infeasible, and still the system gets an action."""
    controller = Controller(tanks, steps=1, time_limit_per_step=60.0, method="base")
    assert controller.policy(np.array([0.0, 0.0])).tolist() == [0.0, 0.0]
    made = controller.decisions[0]
    assert (made.status, made.source, made.reward) == ("infeasible", "idle", None)


def test_the_rest_of_the_previous_plan_stands_in_when_there_is_no_new_one(tanks: Problem) -> None:
    controller = Controller(tanks, steps=2, time_limit_per_step=60.0, method="base")
    controller.policy(np.array([2.0, 0.0]))
    controller.policy(np.array([0.0, 0.0]))  # suddenly empty: one step does not reach the goal, which is proven
    first, second = controller.decisions
    assert (first.status, first.source) == ("optimal", "plan")
    assert (second.status, second.source) == ("infeasible", "previous plan")
    assert second.action[0] > 0.0  # the pump goes on


def test_a_shifted_plan_keeps_the_rewards_of_its_steps(tanks: Problem) -> None:
    best = plan(tanks, method="base").trajectory
    assert best is not None
    window = replace(tanks, horizon=4, initial_lower=best.states[1], initial_upper=best.states[1])
    rest = shifted_plan(window, best)
    assert rest.rewards == pytest.approx(best.rewards[1:])
    assert check(window, rest).ok


def test_a_shifted_plan_is_completed_by_a_valid_ending(tanks: Problem) -> None:
    """The last action, drain 2, cannot be repeated from an empty upper tank; doing nothing can."""
    relaxed = replace(tanks, goal=())
    start = np.array([4.0, 0.0])
    previous = simulate(relaxed, start, np.array([[0.0, 2.0], [0.0, 2.0]]))
    window = replace(relaxed, horizon=2, initial_lower=previous.states[1], initial_upper=previous.states[1])
    rest = shifted_plan(window, previous)
    assert rest.actions.tolist() == [[0.0, 2.0], [0.0, 0.0]]
    assert check(window, rest).ok


@given(share=st.floats(-0.4, 1.4))
def test_observed_states_are_clipped_within_the_tolerance_and_refused_beyond(share: float) -> None:
    problem = Problem.load(EXAMPLES / "tanks" / "problem.toml")
    lower, upper = problem.box(problem.states)
    seen = lower + share * (upper - lower)
    outside = max(0.0, -share, share - 1.0)
    if outside > 0.1 + 1e-9:
        with pytest.raises(InputError, match="was observed at"):
            observed_state(problem, seen, 0.1)
    elif outside < 0.1 - 1e-9:
        assert observed_state(problem, seen, 0.1) == pytest.approx(np.clip(seen, lower, upper))


def test_an_observed_state_that_is_not_a_number_is_refused(tanks: Problem) -> None:
    with pytest.raises(InputError, match="upper was observed at nan"):
        observed_state(tanks, np.array([np.nan, 0.0]), 0.01)
    with pytest.raises(InputError, match="has 2 values"):
        observed_state(tanks, np.array([1.0]), 0.01)


def test_the_simulators_order_of_names_does_not_matter(tanks: Problem) -> None:
    simulator = system(tanks, "exact")
    assert simulator.reset().tolist() == [2.0, 0.0]  # upper, lower: the simulator has them the other way round
    action = np.array([3.0, 1.0])  # pump, drain
    after, paid, over = simulator.step(action)
    assert after == pytest.approx(tanks.next_states(np.array([2.0, 0.0, *action])))
    assert np.isnan(paid)
    reward = simulator.problem_reward(tanks.initial_lower, action, after)
    assert reward == pytest.approx(simulate(tanks, tanks.initial_lower, action[None]).total_reward)
    assert not over


def test_the_simulators_own_reward_comes_first(tanks: Problem) -> None:
    episode = run_episode(system(tanks, "paid"), lambda _: np.zeros(2), 3)
    assert episode.total_reward == 3.0


def test_names_that_do_not_match_are_named(tanks: Problem, tmp_path: Path) -> None:
    for old, new, message in [
        ('"lower":', '"louver":', "the simulator has no state 'lower'"),
        ('"pump":', '"pumps":', "the simulator has no action 'pump'"),
    ]:
        (tmp_path / "changed.py").write_text(SYSTEM.replace(old, new))
        with pytest.raises(InputError, match=message):
            OrderedSimulator(open_simulator(f"{tmp_path / 'changed.py'}:exact"), tanks)


@given(flow=st.floats(0.0, 100.0), level=st.floats(0.0, 100.0))
def test_the_allowed_action_is_as_near_as_can_be(flow: float, level: float) -> None:
    RESERVOIR.reset(0, np.array([level, 50.0, 50.0]))
    wanted = np.array([flow, 0.0, 0.0])
    action = RESERVOIR.allowed(wanted)
    assert action is not None
    assert action[0] == pytest.approx(min(flow, level), abs=1e-9)
    if flow <= level:
        assert action.tolist() == wanted.tolist()
    RESERVOIR.step(action)  # which raises if it is refused


def test_random_starts_lie_within_the_bounds_and_depend_on_the_seed(tanks: Problem) -> None:
    starts = draw_starts(tanks, 20, seed=3)
    lower, upper = tanks.box(tanks.states)
    assert all(((lower <= s) & (s <= upper)).all() for s in starts)
    assert np.array_equal(starts, draw_starts(tanks, 20, seed=3))
    assert not np.array_equal(starts, draw_starts(tanks, 20, seed=4))


def test_a_report_sums_up_what_the_episodes_say(tanks: Problem, tmp_path: Path) -> None:
    controller = Controller(replace(tanks, goal=()), lookahead=1, steps=2, time_limit_per_step=60.0, method="base")
    heard: list[tuple[int, int, float]] = []
    report = control_episodes(
        controller, system(tanks, "leaky"), 2, random_starts=True, on_step=lambda *event: heard.append(event)
    )
    summary = report.summary()
    returns = [episode.rewards.sum() for episode in report.episodes]
    assert summary["return_mean"] == pytest.approx(np.mean(returns))
    assert summary["return_spread"] == pytest.approx(np.std(returns, ddof=1))
    assert summary["proven_share"] == 1.0
    assert [(episode, step) for episode, step, _ in heard] == [(e, t) for e in (1, 2) for t in (1, 2)]
    assert heard[1][2] == pytest.approx(returns[0])
    check_files(report, tmp_path)


def check_files(report: ControlReport, folder: Path) -> None:
    """JSON and CSV hold the same rows."""
    report.write(folder / "steps.csv")
    report.write(folder / "steps.json")
    stored = json.loads((folder / "steps.json").read_text())
    with (folder / "steps.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(stored["rows"]) == 4
    assert [float(row["upper"]) for row in rows] == [row["upper"] for row in stored["rows"]]
    assert sum(float(row["reward"]) for row in rows) == pytest.approx(sum(stored["returns"]))
    with pytest.raises(InputError, match=r"must be \.json or \.csv"):
        report.write(folder / "steps.txt")


OPTIONS = PlanningOptions("auto", "highs", 1e-4, 1, 0)


def test_a_long_window_gets_a_good_plan_in_the_time_of_a_step() -> None:
    """A hundred steps of Navigation are too many to prove anything about within a second."""
    problem = Problem.load(EXAMPLES / "navigation" / "navigation_8" / "problem.toml").with_horizon(100)
    found = plan_step(problem, OPTIONS, None, 2.0)
    assert found.trajectory is not None
    assert check(problem, found.trajectory).ok
    assert (found.status, found.bound) == ("feasible", None)
    straight = simulate(problem, problem.initial_lower, np.full((100, 2), 0.1))
    assert found.trajectory.total_reward > straight.total_reward


def test_a_short_window_is_proven_and_a_start_is_never_made_worse(tanks: Problem) -> None:
    best = plan(tanks)
    assert best.reward is not None
    for method in ("auto", "base"):
        options = replace(OPTIONS, method=method)
        found = plan_step(tanks, options, None, 20.0)
        assert found.trajectory is not None
        assert found.status == "optimal"
        assert found.trajectory.total_reward == pytest.approx(best.reward, rel=1e-3)
    assert best.trajectory is not None
    kept = plan_step(tanks, OPTIONS, best.trajectory, 0.05)
    assert kept.trajectory is not None
    assert kept.trajectory.total_reward >= best.reward - 1e-9


def test_options_are_checked(tanks: Problem) -> None:
    with pytest.raises(InputError, match="lookahead must be at least 1"):
        Controller(tanks, lookahead=0)
    with pytest.raises(InputError, match="time limit per step must be positive"):
        Controller(tanks, time_limit_per_step=0.0)
    with pytest.raises(InputError, match="time limit of the first step must be positive"):
        Controller(tanks, time_limit_first_step=-1.0)
    with pytest.raises(InputError, match="unknown method 'best'; choose one of auto"):
        Controller(tanks, method="best")
    with pytest.raises(InputError, match="solver"):
        Controller(tanks, solver="nope")
    with pytest.raises(InputError, match="gap must be zero or positive"):
        Controller(tanks, gap=-1.0)
    with pytest.raises(InputError, match="threads must be at least 1"):
        Controller(tanks, threads=0)
    with pytest.raises(InputError, match="number of episodes must be at least 1"):
        control_episodes(Controller(tanks), system(tanks, "exact"), 0)
