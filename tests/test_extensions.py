"""Data formats and simulators that are added from outside, through the functions and commands that use them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from command_line import Command
from reluplan.data import DATA_FORMATS, DataFormat, Transitions, read_transitions, write_transitions
from reluplan.errors import InputError
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import simulate
from reluplan.simulators import SIMULATORS, Simulator, open_simulator
from reluplan.simulators.validate import validate
from reluplan.tables.array_table import ArrayTable

Array = NDArray[np.float64]


def open_rows(path: Path) -> ArrayTable:
    """A table whose lines are columns: a name, a colon, numbers."""
    columns = [line.split(":") for line in path.read_text(encoding="utf-8").splitlines()]
    values = tuple(np.array([float(word) for word in words.split()]) for _, words in columns)
    return ArrayTable(path, tuple(name for name, _ in columns), values)


def rows_text(transitions: Transitions) -> str:
    """What `open_rows` reads."""
    names = [*transitions.state_names, *transitions.action_names, *(f"{name}'" for name in transitions.state_names)]
    columns = np.hstack([transitions.states, transitions.actions, transitions.next_states]).T.tolist()
    lines = [f"{name}: {' '.join(map(repr, column))}" for name, column in zip(names, columns, strict=True)]
    return "\n".join(lines) + "\n"


class Tank:
    """The tank that tests plan for, as the true system; level is its only state and pump its only action."""

    state_names: tuple[str, ...] = ("level",)
    action_names: tuple[str, ...] = ("pump",)
    state_lower = np.array([0.0])
    state_upper = np.array([10.0])
    action_lower = np.array([0.0])
    action_upper = np.array([3.0])
    state_is_discrete = np.array([False])
    action_is_discrete = np.array([False])
    default_action = np.array([0.0])
    horizon: int | None = 4
    can_set_state = True

    def __init__(self, leak: float) -> None:
        self._leak = leak
        self._level = 2.0

    def reset(self, seed: int | None = None) -> Array:
        self._level = 2.0
        return np.array([self._level])

    def allows(self, action: Array) -> bool:
        return self.refusal(action) is None

    def refusal(self, action: Array) -> str | None:
        return None if 0.0 <= action[0] <= 3.0 else "the pump is too weak"

    def step(self, action: Array) -> tuple[Array, float, bool]:
        self._level = max(self._level - 1.0, 0.0) + float(action[0]) - self._leak
        return np.array([self._level]), float("nan"), False

    def set_state(self, state: Array) -> None:
        self._level = float(state[0])

    def close(self) -> None:
        """Nothing is held."""


def open_toy(text: str, instance: str | None) -> Simulator:
    """`toy:LEAK`."""
    if instance is not None:
        raise InputError("a toy has no instances")
    return Tank(float(text))


DATA_FORMATS.register("rows", DataFormat(open_rows, rows_text), replace=True)
DATA_FORMATS.register("onlyread", DataFormat(open_rows), replace=True)
SIMULATORS.register("toy", open_toy, replace=True)


def test_a_registered_format_is_written_and_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    level, pump, after = rng.uniform(size=(3, 5, 1))
    data = Transitions(("level",), ("pump",), np.zeros(5, dtype=int), np.arange(5), level, pump, after)
    write_transitions(data, tmp_path / "data.ROWS")
    found = read_transitions(tmp_path / "data.ROWS", ["level"], ["pump"])
    assert np.array_equal(found.states, level)
    assert np.array_equal(found.actions, pump)
    assert np.array_equal(found.next_states, after)


def test_a_format_that_is_only_read_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "data.onlyread").write_text("level: 1 2 3\npump: 1 1 1\n")
    assert len(read_transitions(tmp_path / "data.onlyread", ["level"], ["pump"])) == 2
    empty = np.empty((0, 1))
    data = Transitions(("level",), ("pump",), np.zeros(0, dtype=int), np.zeros(0, dtype=int), empty, empty, empty)
    with pytest.raises(InputError, match=r"data files end in \.csv, \.parquet, \.npz, \.rows"):
        write_transitions(data, tmp_path / "data.onlyread")


def test_a_registered_simulator_is_collected_from_into_a_registered_format(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "data.rows"
    done = command("collect", "toy:0.5", "--episodes", 3, "--steps", 4, "--out", out, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["rows"] == 12
    found = read_transitions(out, ["level"], ["pump"])
    assert found.next_states == pytest.approx(np.maximum(found.states - 1.0, 0.0) + found.actions - 0.5)


def test_a_plan_is_checked_in_a_registered_simulator(command: Command, tank: Path, tmp_path: Path) -> None:
    problem = Problem.load(tank)
    trajectory = simulate(problem, problem.initial_lower, np.array([[3.0], [2.0], [1.0], [1.0]]))
    assert validate(problem, trajectory, open_simulator("toy:0")).drift[0].maximum <= 1e-12
    command("plan", tank, "--out", tmp_path / "run", "--quiet")
    done = command("check", tank, tmp_path / "run", "--simulator", "toy:0.25", "--json")
    assert done.code == 0, done.err
    simulation = json.loads(done.out)["simulation"]
    assert simulation["drift"][0]["max"] == pytest.approx(1.0)
    refused = command("check", tank, tmp_path / "run", "--simulator", "toy:0", "--instance", "1")
    assert (refused.code, refused.err) == (4, "reluplan: a toy has no instances\n")


def test_an_ending_opens_a_registered_simulator_too() -> None:
    SIMULATORS.register("toyfile", lambda text, _: Tank(len(text)), replace=True)
    after, _, _ = open_simulator("some.toyfile").step(np.array([3.0]))
    assert after.tolist() == [4.0 - len("some.toyfile")]
