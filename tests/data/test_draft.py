"""Drafts of problem files: they load, their lags are those of the system, and they plan once trained."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import Command
from patience import AMPLE
from reluplan.data import Transitions, write_transitions
from reluplan.data.draft import DraftSettings, draft_problem
from reluplan.data.past import LagSettings, suggested_lags
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.file import load_problem


def logged(lag_of_state: int = 0, lag_of_action: int = 0, noise: float = 0.0, rows: int = 600) -> Transitions:
    """x' = 0.8 x(t − i) + 0.5 a(t − j) + 0.1 w, in five episodes."""
    rng = np.random.default_rng(0)
    parts: list[list[float]] = []
    for episode in range(5):
        x, a, w = rng.uniform(-1, 1, (3, rows // 5 + 1))
        a = np.round(a * 3)
        for t in range(rows // 5):
            if t >= max(lag_of_state, lag_of_action):
                x[t + 1] = 0.8 * x[t - lag_of_state] + 0.5 * a[t - lag_of_action] + 0.1 * w[t] + noise * rng.normal()
            parts.append([episode, t, x[t], a[t], w[t], x[t + 1]])
    table = np.array(parts)
    whole = table[:, :2].astype(int)
    return Transitions(
        ("room temp",), ("fan[1,2]", "wind"), whole[:, 0], whole[:, 1], table[:, 2:3], table[:, 3:5], table[:, 5:6],
        {"reward": table[:, 2]},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("of_state", "of_action", "expected"),
    [(0, 0, set()), (2, 0, {("room temp", 2)}), (0, 3, {("fan[1,2]", 3)}), (1, 2, {("room temp", 1), ("fan[1,2]", 2)})],
)
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_lags_of_the_system_are_found(
    of_state: int, of_action: int, expected: set[tuple[str, int]], noise: float
) -> None:
    found = suggested_lags(logged(of_state, of_action, noise))
    assert {(one.lag.variable, one.lag.steps) for one in found} == expected


def test_nothing_is_suggested_from_too_few_rows() -> None:
    assert suggested_lags(logged(2, 0, rows=50)) == ()
    assert suggested_lags(logged(2, 0), LagSettings(fewest_rows=10_000)) == ()


def test_a_draft_says_what_the_data_have(tmp_path: Path) -> None:
    data = logged(1, 2)
    write_transitions(data, tmp_path / "log.csv")
    draft = draft_problem(
        [tmp_path / "log.csv"], ["room temp"], ["fan[1,2]"], ["wind"], "a 'name'", DraftSettings(horizon=5)
    )
    (tmp_path / "problem.toml").write_text(draft.text)
    zeros = ReluNetwork(5, (), Layer(np.zeros((1, 5)), np.zeros(1)))
    problem = load_problem(tmp_path / "problem.toml", zeros)
    assert (problem.name, problem.horizon) == ("a 'name'", 5)
    (fan,) = problem.actions
    assert (fan.name, fan.kind, fan.lower, fan.upper) == ("fan[1,2]", "integer", -3.0, 3.0)
    assert [state.name for state in problem.states] == [
        "room temp", "lag(room temp, 1)", "lag(fan[1,2], 1)", "lag(fan[1,2], 2)",
    ]  # fmt: skip
    last = data.select(np.arange(len(data) - 2, len(data)))
    expected = [last.next_states[1, 0], last.states[1, 0], last.actions[1, 0], last.actions[0, 0]]
    np.testing.assert_array_equal(problem.initial_lower, expected)
    np.testing.assert_array_equal(problem.series_table[:5, 0], data.actions[-5:, 1])
    state = problem.states[0]
    assert state.lower < data.states.min() < data.states.max() < state.upper
    assert "The data have rewards between" in draft.text
    assert draft.warnings == ()


def test_a_draft_plans_once_it_is_trained(command: Command, tmp_path: Path) -> None:
    write_transitions(logged(1, 2), tmp_path / "log.csv")
    problem = tmp_path / "problem.toml"
    names = ("--states", "room temp", "--actions", "fan[1,2]", "--series", "wind")
    done = command("init", tmp_path / "log.csv", *names, "--out", problem, "--horizon", 4)
    assert done.code == 0, done.err
    assert "reluplan train" in done.out
    quick = ("--hidden", 3, "--epochs", 10, "--quiet")
    assert command("train", tmp_path / "log.csv", "--problem", problem, *quick).code == 0
    planned = command("plan", problem, "--out", tmp_path / "run", "--json", "--time-limit", AMPLE)
    assert (planned.code, json.loads(planned.out)["status"]) == (0, "optimal"), planned.err
    again = command("init", tmp_path / "log.csv", *names, "--out", problem)
    assert (again.code, "is there already" in again.err) == (4, True)


def test_what_never_moves_is_said(command: Command, tmp_path: Path) -> None:
    data = logged()
    data.actions[:, 1] = 2.0
    write_transitions(data, tmp_path / "log.csv")
    names = ("--states", "room temp", "--actions", "fan[1,2], wind")
    done = command("init", tmp_path / "log.csv", *names, "--out", tmp_path / "p.toml", "--json")
    assert json.loads(done.out)["warnings"] == ["action 'wind' is 2 in every row: nothing can be learned of it"]
    wrong = command("init", tmp_path / "log.csv", "--states", "room", "--actions", "wind", "--out", tmp_path / "q.toml")
    assert (wrong.code, "the column 'room' is missing" in wrong.err) == (4, True)
    none = command("init", tmp_path / "log.csv", "--states", " ", "--actions", "wind", "--out", tmp_path / "q.toml")
    assert (none.code, "--states: expected names" in none.err) == (4, True)
