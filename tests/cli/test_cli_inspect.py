"""The inspect command: what it prints and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from command_line import Command, write
from patience import AMPLE
from random_problems import random_network
from reluplan.inspection import inspect_problem
from reluplan.inspection.settings import InspectionSettings
from reluplan.problem.problem import Problem
from reluplan.report.inspection import print_inspection
from shared_data import EXAMPLES
from systems import PLANT, PLANT_NETWORK, TANK

KEYS = {
    "source", "kind", "variables", "horizon", "network", "dynamics", "box", "steps", "lipschitz", "relative", "model",
    "memory", "guess", "is_proven_infeasible", "advice", "notes", "seconds",
}  # fmt: skip


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    PLANT_NETWORK.save(tmp_path / "network.onnx")
    return write(tmp_path, PLANT)


def test_a_problem_as_text(command: Command, plant: Path) -> None:
    done = command("inspect", plant)
    assert (done.code, done.err) == (0, "")
    for word in ("problem", "network", "undecided", "lipschitz", "model", "memory", "outlook", "to do", "time"):
        assert f"\n{word:<11}" in done.out
    assert "2 states, 2 actions; 1 of them whole numbers; 3 steps" in done.out
    assert "4 inputs, 3:3, 2 outputs; 6 ReLUs" in done.out
    assert max(map(len, done.out.splitlines())) <= 80 or str(plant) in done.out


def test_a_problem_as_json(command: Command, plant: Path) -> None:
    done = command("inspect", plant, "--json", "--horizon", 2)
    found = json.loads(done.out)
    assert set(found) == KEYS
    assert found["horizon"] == 2
    assert found["network"]["hidden"] == [3, 3]
    assert found["model"]["is_whole"]
    assert found["guess"]["outlook"] in ("proven", "likely")
    assert found["guess"]["trial"]["status"] in ("optimal", "feasible")
    assert found["box"]["undecided"] >= found["steps"]["each"][0]


def test_nothing_is_printed_or_tried_if_nobody_wants_it(command: Command, plant: Path) -> None:
    assert command("inspect", plant, "--quiet", "--no-trial").out == ""
    assert json.loads(command("inspect", plant, "--json", "--no-trial").out)["guess"] is None


def test_without_a_trial_nothing_is_promised(command: Command, plant: Path) -> None:
    for options in (["--no-trial"], ["--time-limit", "0.01"]):
        shown = command("inspect", plant, *options).out
        assert "outlook    not known: the planner was not tried" in shown
        assert "nothing: reluplan plan" not in shown


def test_counts_that_had_too_little_time_are_called_at_most(command: Command) -> None:
    shown = command("inspect", EXAMPLES / "hvac/hvac_3/problem.toml", "--time-limit", "0.01").out
    assert "\nmodel      at most " in shown


def test_a_problem_without_a_network(command: Command, tmp_path: Path) -> None:
    done = command("inspect", write(tmp_path, TANK))
    assert done.code == 0
    assert "none: all transitions are known; the transitions take 1 ReLU" in done.out


def test_a_problem_that_has_no_plan_is_told_with_exit_code_2(command: Command, tmp_path: Path) -> None:
    impossible = TANK.replace("constraints =", 'goal = ["level >= 9.5"]\nconstraints =').replace("= 4", "= 1", 1)
    done = command("inspect", write(tmp_path, impossible))
    assert done.code == 2
    assert "no plan exists" in " ".join(done.out.split())
    assert json.loads(command("inspect", tmp_path / "problem.toml", "--json").out)["is_proven_infeasible"]


def test_a_network_alone(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "n.onnx"
    random_network(np.random.default_rng(0), 3, [5, 4], 2, dense=False).save(file)
    done = command("inspect", file)
    assert done.code == 0
    assert "not known without bounds of the inputs" in done.out
    assert "--box LOW HIGH" in done.out
    found = json.loads(command("inspect", file, "--box", -1, 1, "--json").out)
    assert set(found) == KEYS
    assert found["kind"] == "network"
    assert found["box"]["units"] == 9
    assert found["lipschitz"]["sampled"] <= found["lipschitz"]["proven"]
    assert found["model"] is found["steps"] is found["guess"] is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere.toml"], "nowhere.toml"),
        (["nowhere.onnx"], "cannot be read"),
        (["{plant}", "--box", "0", "1"], "--box goes with a network"),
        (["{network}", "--horizon", "3"], "--horizon goes with a problem"),
        (["{network}", "--box", "1", "0"], "the smaller first"),
        (["{network}", "--box", "nan", "1"], "two finite numbers"),
        (["{plant}", "--horizon", "0"], "at least 1"),
        (["{plant}", "--time-limit", "0"], "must be positive"),
    ],
)
def test_bad_input_has_exit_code_4(command: Command, plant: Path, arguments: list[str], reason: str) -> None:
    network = plant.parent / "network.onnx"
    done = command("inspect", *(text.format(plant=plant, network=network) for text in arguments))
    assert done.code == 4
    assert reason in done.err
    assert done.err.count("\n") == 1


def test_a_missing_network_file_is_bad_input(command: Command, tmp_path: Path) -> None:
    done = command("inspect", write(tmp_path, PLANT))
    assert done.code == 4
    assert "network.file: no such file" in done.err


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_keep_to_the_width_of_the_terminal(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = inspect_problem(
        Problem.load(EXAMPLES / "tanks/problem.toml"), settings=InspectionSettings(with_trial=False)
    )
    print_inspection(found, Console(width=width, highlight=False, markup=False))
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if found.source not in line) <= width
    assert ("|w| to" in "".join(lines)) == (width > 60)


def test_a_reader_that_closes_the_pipe_is_no_error() -> None:
    """As in `reluplan inspect ... | head -1`."""
    line = [sys.executable, "-m", "reluplan", "inspect", str(EXAMPLES / "tanks/problem.toml"), "--no-trial"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=AMPLE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
