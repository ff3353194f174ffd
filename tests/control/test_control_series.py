"""Control and validation of problems with a past and with series: the controller remembers, and knows the hour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reluplan.control import Controller, ControlReport
from reluplan.control.run import control_episodes, draw_starts
from reluplan.errors import InputError
from reluplan.planning.planner import plan
from reluplan.problem.memory import Memory
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import simulate
from reluplan.simulators import open_simulator
from reluplan.simulators.ordered import OrderedSimulator
from reluplan.simulators.validate import validate

TANK = """
name = "a tank behind a long pipe"
horizon = 6
reward = "-price*pump - abs(level' - 3) - 0.05*abs(pump - lag(pump, 1)) + 0.01*lag(level, 2)"
final_reward = "-abs(level - 3)*last"
[series]
price = { values = [0.5, 2, 0.25, 1, 4, 0.5] }
last = { values = [1, 1, 1, 1, 1, 1, 2] }
[state.level]
bounds = [-5, 10]
initial = 2
history = [2.5, 3]
[action.pump]
bounds = [0, 3]
history = [1, 0.5]
max_change = 2
[transition]
level = "level + lag(pump, 2) - 1"
"""

SYSTEM = """
import numpy as np

STATES = {"pipe_out": (0.0, 3.0), "pipe_in": (0.0, 3.0), "level": (-5.0, 10.0)}
ACTIONS = {"pump": (0.0, 3.0)}
INITIAL = {"level": 2.0, "pipe_in": 1.0, "pipe_out": 0.5}

def step(state, action):
    pipe_out, pipe_in, level = state
    return np.array([pipe_in, action[0], level + pipe_out - 1.0])
"""


@pytest.fixture
def tank(tmp_path: Path) -> Problem:
    (tmp_path / "problem.toml").write_text(TANK)
    (tmp_path / "system.py").write_text(SYSTEM)
    return Problem.load(tmp_path / "problem.toml")


def system(problem: Problem) -> str:
    return f"{Path(problem.source).parent / 'system.py'}:step"


def test_replanning_earns_what_the_plan_promised(tank: Problem) -> None:
    """The rest of an optimal plan is optimal: with the right past, and the right prices, replanning changes nothing."""
    best = plan(tank, gap=1e-5, threads=1)
    assert best.status == "optimal"
    assert best.reward is not None
    controller = Controller(tank, time_limit_per_step=60.0, gap=1e-5, threads=1)
    report = control_episodes(controller, OrderedSimulator(open_simulator(system(tank)), tank), 1)
    assert isinstance(report, ControlReport)
    (episode,) = report.episodes
    assert episode.total_reward == pytest.approx(best.reward, abs=1e-4)
    np.testing.assert_allclose(episode.states[1:, 2], [2.5, *episode.states[:-2, 0]], atol=1e-9)  # lag(level, 2)


def test_a_loop_of_ones_own_may_leave_out_the_past(tank: Problem) -> None:
    controller = Controller(tank, time_limit_per_step=60.0, gap=1e-5, threads=1)
    other = Controller(tank, time_limit_per_step=60.0, gap=1e-5, threads=1)
    memory, state = Memory(tank), np.array([2.0])
    complete = memory.begin(state)
    np.testing.assert_array_equal(complete, tank.initial_lower)
    for _ in range(3):
        action = controller.policy(state)
        np.testing.assert_allclose(other.policy(complete), action, atol=1e-6)
        complete = memory.after(action, tank.next_states(np.concatenate([complete, action, np.zeros(2)])))
        state = complete[:1]
    controller.reset()
    np.testing.assert_allclose(controller.policy(np.array([2.0])), controller.decisions[0].action)
    with pytest.raises(InputError, match="an observed state has 1 values"):
        controller.policy(np.zeros(3))


def test_the_true_system_does_what_the_model_says(tank: Problem) -> None:
    trajectory = simulate(tank, tank.initial_lower, np.array([[1.0], [2.0], [0.5], [0.0], [1.0], [1.5]]))
    report = validate(tank, trajectory, open_simulator(system(tank)))
    assert report.check.ok
    assert report.reward_loss == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(report.true.states, trajectory.states, atol=1e-12)


def test_random_starts_are_states_of_the_system(tank: Problem) -> None:
    (start,) = draw_starts(tank, 1, 0)
    assert start.shape == (1,)
    first = OrderedSimulator(open_simulator(system(tank)), tank).reset(0, start)
    np.testing.assert_array_equal(first, [start[0], 2.5, 3.0, 1.0, 0.5])
