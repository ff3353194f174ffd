"""From logged data with weather and a past to a plan with prices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import Command
from patience import AMPLE
from reluplan.data import Transitions
from reluplan.data.lagged import with_lagged_columns
from reluplan.errors import InputError
from reluplan.problem.lags import Lag
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import simulate

PROBLEM = """
horizon = 6
reward = "-price*heat - 20*max(18 - temp', 0, temp' - 22)"
[series]
price = { file = "prices.csv" }
outdoor = { file = "prices.csv", history = [5] }
[state.temp]
bounds = [0, 40]
initial = 17
history = [17.5, 18]
[action.heat]
bounds = [0, 5]
previous = 1
max_change = 3
[network]
file = "network.onnx"
inputs = ["temp", "lag(temp,2)", "heat", "lag(heat, 1)", "lag(outdoor, 1)"]
outputs = ["temp"]
predicts = "delta"
"""
PRICES = "hour,price,outdoor\n" + "".join(f"{t},{1 + t % 3},{5 - t % 4}\n" for t in range(6))


def logged(rows: int = 400, episodes: int = 8) -> str:
    """A house of which the walls remember, with a heating that is late by a step."""
    rng, lines = np.random.default_rng(0), ["episode,step,temp,heat,outdoor"]
    for episode in range(episodes):
        temp, heat, outdoor = (rng.uniform(*box, rows // episodes) for box in ((15, 25), (0, 5), (-5, 15)))
        for t in range(rows // episodes):
            if t >= 2:
                temp[t] = 0.7 * temp[t - 1] + 0.4 * heat[t - 1]
                temp[t] += 0.5 * heat[t - 2] + 0.1 * outdoor[t - 2]
                temp[t] += 0.1 * temp[t - 3] if t >= 3 else 0.0
            lines.append(f"{episode},{t},{temp[t]!r},{heat[t]!r},{outdoor[t]!r}")
    return "\n".join(line.replace("np.float64(", "").replace(")", "") for line in lines) + "\n"


@pytest.fixture
def house(tmp_path: Path) -> Path:
    (tmp_path / "prices.csv").write_text(PRICES)
    (tmp_path / "data.csv").write_text(logged())
    (tmp_path / "house.toml").write_text(PROBLEM)
    return tmp_path / "house.toml"


def test_data_with_a_past_become_a_plan(command: Command, house: Path, tmp_path: Path) -> None:
    """Lagged columns are built from consecutive rows; the plan's states are the true system's."""
    quick = ("--hidden", 4, "--epochs", 60, "--seed", 1)
    done = command("train", tmp_path / "data.csv", "--problem", house, *quick)
    assert done.code == 0, done.err
    report = json.loads((tmp_path / "network.json").read_text())
    assert report["states"][0]["r2_change"] > 0.99
    assert sum(report["rows"].values()) == 8 * (49 - 2)
    planned = command("plan", house, "--out", tmp_path / "run", "--json", "--time-limit", AMPLE)
    assert (planned.code, json.loads(planned.out)["status"]) == (0, "optimal"), planned.err
    assert command("check", house, tmp_path / "run").code == 0
    problem = Problem.load(house)
    header, *rows = (tmp_path / "run" / "plan.csv").read_text().splitlines()
    assert (
        header == 'step,temp,"lag(temp, 1)","lag(temp, 2)","lag(heat, 1)",heat,price,outdoor,"lag(outdoor, 1)",reward'
    )
    heat = np.array([float(row.split(",")[5]) for row in rows[:-1]])
    found = simulate(problem, problem.initial_lower, heat[:, None])
    temp, before, outdoor = [18.0, 17.5, 17.0], np.array([1.0, *heat]), np.array([5.0, 5.0, 4.0, 3.0, 2.0, 5.0, 4.0])
    for t in range(6):
        temp.append(0.7 * temp[-1] + 0.4 * heat[t] + 0.5 * before[t] + 0.1 * outdoor[t] + 0.1 * temp[-3])
    np.testing.assert_allclose(found.states[1:, 0], temp[3:], atol=0.3)
    assert np.abs(np.diff(before)).max() <= 3.0 + 1e-5


def test_what_data_lack_is_said(command: Command, house: Path, tmp_path: Path) -> None:
    text = (tmp_path / "data.csv").read_text()
    (tmp_path / "data.csv").write_text(text.replace("outdoor", "outdoors"))
    done = command("train", tmp_path / "data.csv", "--problem", house)
    assert done.code == 4
    assert "the column 'outdoor' is missing (did you mean 'outdoors'?)" in done.err


def transitions(rows: int = 10) -> Transitions:
    states = np.arange(rows + 1.0)[:, None]
    actions = 10.0 + states[:-1]
    return Transitions(
        ("x",),
        ("a",),
        np.zeros(rows, int),
        np.arange(rows),
        states[:-1],
        actions,
        states[1:].copy(),
        {"row": states[:-1, 0]},
    )


def test_lagged_columns_come_from_consecutive_rows() -> None:
    """In whatever order they stand; where a step is missing, or leads elsewhere, there is no past."""
    shuffled = transitions().select(np.random.default_rng(0).permutation(10))
    columns = [Lag("x", 1), Lag("a", 3)]
    found = with_lagged_columns(shuffled, columns)
    assert found.action_names == ("a", "lag(x, 1)", "lag(a, 3)")
    assert sorted(found.extras["row"]) == list(range(3, 10))
    np.testing.assert_array_equal(found.actions[:, 1], found.states[:, 0] - 1.0)
    np.testing.assert_array_equal(found.actions[:, 2], found.actions[:, 0] - 3.0)
    assert found.dropped == {"no 3 rows before": 3}
    broken = transitions()
    broken.next_states[4] += 0.5
    assert sorted(with_lagged_columns(broken, columns).extras["row"]) == [3, 4, 8, 9]
    gap = transitions().select(np.array([0, 1, 2, 3, 4, 6, 7, 8, 9]))
    assert sorted(with_lagged_columns(gap, columns).extras["row"]) == [3, 4, 9]
    with pytest.raises(InputError, match="no row has 3 consecutive rows before it"):
        with_lagged_columns(transitions(3), columns)
