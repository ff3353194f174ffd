"""`reluplan control` as users run it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyRDDLGym
import pytest

from command_line import exit_code
from reluplan.control import Controller
from reluplan.control.rddl_agent import ControllerAgent
from reluplan.problem.problem import Problem
from shared_data import EXAMPLES

RESERVOIR = EXAMPLES / "reservoir"
PROBLEM = RESERVOIR / "reservoir_3" / "problem.toml"
SIMULATOR = ["--simulator", str(RESERVOIR / "domain.rddl"), "--instance", "instance_3.rddl"]
SHORT = ["--lookahead", "1", "--steps", "2", "--time-limit-per-step", "60", "--method", "base"]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    return exit_code(monkeypatch, "control", *arguments)


def test_a_controlled_episode_is_reported_and_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "new" / "steps.csv"
    assert run(monkeypatch, PROBLEM, *SIMULATOR, *SHORT, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "episodes  1, 2 steps" in printed
    assert "100% of the steps" in printed
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["1", "2"]
    assert [float(rows[0][f"rlevel[t{r}]"]) for r in (1, 2, 3)] == [75.0, 50.0, 50.0]
    assert all(float(row[f"flow[t{r}]"]) <= float(row[f"rlevel[t{r}]"]) for row in rows for r in (1, 2, 3))


def test_json_holds_the_summary_and_quiet_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*SHORT, "--random-starts", "--episodes", "2", "--seed", "5"]
    assert run(monkeypatch, PROBLEM, *SIMULATOR, *options, "--json", "--quiet") == 0
    output = capsys.readouterr()
    record = json.loads(output.out)
    assert output.err == ""
    assert record["episodes"] == 2
    assert record["return_mean"] == pytest.approx(np.mean(record["returns"]))
    assert record["returns"][0] != record["returns"][1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--simulator", "no.rddl"], "no such RDDL domain file"),
        ([*SIMULATOR[:2], "--instance", "instance_9.rddl"], "no such RDDL instance file"),
        (["--simulator", str(EXAMPLES / "hvac" / "domain.rddl"), "--instance", "instance_3.rddl"], "has no state"),
        ([*SIMULATOR, "--lookahead", "0"], "lookahead must be at least 1"),
        ([*SIMULATOR, "--episodes", "0"], "number of episodes must be at least 1"),
        ([*SIMULATOR, "--out", "steps.txt"], "must be .json or .csv"),
        ([*SIMULATOR, "--steps", "0"], "horizon must be at least 1"),
        ([*SIMULATOR, "--solver", "nope"], "nope"),
    ],
)
def test_a_wrong_input_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert run(monkeypatch, PROBLEM, *options) == 4
    assert message in capsys.readouterr().err


def test_the_pyrddlgym_agent_controls_as_the_command_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (RESERVOIR / "instance_3.rddl").read_text().replace("horizon = 500", "horizon = 2")
    (tmp_path / "instance.rddl").write_text(text)
    environment = pyRDDLGym.make(str(RESERVOIR / "domain.rddl"), str(tmp_path / "instance.rddl"))
    controller = Controller(Problem.load(PROBLEM), lookahead=1, steps=2, time_limit_per_step=60.0, method="base")
    agent = ControllerAgent(controller)
    earned = agent.evaluate(environment, episodes=1)["mean"]
    assert run(monkeypatch, PROBLEM, *SIMULATOR, *SHORT, "--json", "--quiet") == 0
    assert earned == pytest.approx(json.loads(capsys.readouterr().out)["return_mean"])
    assert len(controller.decisions) == 2
