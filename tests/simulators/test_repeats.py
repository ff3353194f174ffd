"""A plan run several times: mean and spread where the system is stochastic, agreement where it is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from command_line import Command
from reluplan.errors import InputError
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory, simulate
from reluplan.report.simulation import print_repeats
from reluplan.simulators import open_simulator
from reluplan.simulators.function import FunctionSimulator
from reluplan.simulators.repeats import RepeatedValidation, Spread, validate_repeatedly

PROBLEM = """
horizon = 3
reward = "-level'"
constraints = ["level' >= 1"]
[state]
level = {bounds = [0, 10], initial = 5}
[action]
flow = {bounds = [0, 2]}
[transition]
level = "level - flow"
"""
SYSTEM = """
import random

STATES = {"level": (-100, 100)}
ACTIONS = {"flow": (0, 2)}
INITIAL = {"level": 5}


def exact(state, action):
    return [state[0] - action[0]], -1.0


def leaking(state, action):
    return [state[0] - action[0] - random.random()], -2.0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "problem.toml").write_text(PROBLEM)
    (tmp_path / "system.py").write_text(SYSTEM)
    (tmp_path / "plan.csv").write_text("step,level,flow\n1,5,1\n2,4,1\n3,3,1\n4,2,\n")
    return tmp_path


def repeated(folder: Path, function: str, repeat: int) -> RepeatedValidation:
    problem = Problem.load(folder / "problem.toml")
    plan = simulate(problem, np.array([5.0]), np.ones((3, 1)))
    return validate_repeatedly(problem, plan, open_simulator(f"{folder / 'system.py'}:{function}"), 0, repeat)


def shown(found: RepeatedValidation) -> str:
    console = Console(record=True, width=300)
    print_repeats(found, console)
    return console.export_text()


def test_a_stochastic_system_has_a_mean_and_a_spread(folder: Path) -> None:
    found = repeated(folder, "leaking", 12)
    rewards = [run.true.total_reward for run in found.runs]
    assert found.is_stochastic
    assert len(set(rewards)) == 12
    assert found.true_reward.mean == pytest.approx(np.mean(rewards))
    assert found.true_reward.std == pytest.approx(np.std(rewards, ddof=1))
    assert (found.true_reward.minimum, found.true_reward.maximum) == (min(rewards), max(rewards))
    assert found.simulator_reward == Spread(-6.0, 0.0, -6.0, -6.0)
    assert found.broken_runs == sum(run.true.states[-1, 0] < 1.0 for run in found.runs) > 0
    record = json.loads(json.dumps(found.record()))
    assert record["stochastic"] is True
    assert record["repeats"]["runs"] == 12
    assert record["repeats"]["broken_runs"] == found.broken_runs
    assert record["true_reward"] == rewards[0]
    assert "the simulator is stochastic" in shown(found)
    assert f"broken   in {found.broken_runs} of 12 runs" in shown(found)


def test_one_run_of_a_stochastic_system_is_known_as_one(folder: Path) -> None:
    found = repeated(folder, "leaking", 1)
    assert found.is_stochastic
    assert len(found.runs) == 1
    assert "add --repeat" in shown(found)


@pytest.mark.parametrize("repeat", [1, 4])
def test_runs_of_a_deterministic_system_agree(folder: Path, repeat: int) -> None:
    found = repeated(folder, "exact", repeat)
    assert found.is_stochastic is False
    assert found.record()["repeats"]["true_reward"]["std"] == 0.0
    assert f"{max(2, repeat)} runs with different seeds agree" in shown(found)


class Elsewhere:
    """A system that starts where its seed says, and cannot be put elsewhere."""

    can_set_state = False

    def __init__(self, system: object) -> None:
        self._system = system

    def __getattr__(self, name: str) -> object:
        return getattr(self._system, name)

    def reset(self, seed: int | None = None) -> np.ndarray:
        assert isinstance(self._system, FunctionSimulator)
        return self._system.reset() + float(seed or 0)


def test_a_start_that_depends_on_the_seed_cannot_be_repeated(folder: Path) -> None:
    problem = Problem.load(folder / "problem.toml")
    plan: Trajectory = simulate(problem, np.array([5.0]), np.ones((3, 1)))
    system = Elsewhere(open_simulator(f"{folder / 'system.py'}:exact"))
    found = validate_repeatedly(problem, plan, system, 0, 1)  # type: ignore[arg-type]
    assert found.is_stochastic is None
    assert "cannot be told" in shown(found)
    with pytest.raises(InputError, match="leave out --repeat"):
        validate_repeatedly(problem, plan, system, 0, 2)  # type: ignore[arg-type]


def test_the_command_repeats(folder: Path, command: Command) -> None:
    line = ("check", folder / "problem.toml", folder / "plan.csv")
    simulator = ("--simulator", f"{folder / 'system.py'}:leaking")
    done = command(*line, *simulator, "--repeat", 5, "--json")
    assert done.code == 0
    assert json.loads(done.out)["simulation"]["repeats"]["runs"] == 5
    assert "earned   mean" in command(*line, *simulator, "--repeat", 5).out
    assert command(*line, *simulator, "--repeat", 0).code == 4
    assert "go with --simulator" in command(*line, "--repeat", 2).err
