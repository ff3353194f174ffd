"""The potentials command, its file and its picture, and planning with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Command, launch


def test_potentials_strengthen_a_plan(command: Command, plant: Path, tmp_path: Path) -> None:
    file, picture = tmp_path / "p.json", tmp_path / "convergence.png"
    done = command("potentials", plant, "--intervals", 2, "--out", file, "--plot", picture)
    assert done.code == 0
    assert "converged" in done.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    line = ("--method", "potentials", "--potentials", file)
    strengthened = command("plan", plant, *line, "--out", tmp_path / "strong", "--json")
    base = command("plan", plant, "--method", "base", "--out", tmp_path / "base", "--json")
    rewards = [json.loads(outcome.out)["reward"] for outcome in (strengthened, base)]
    assert rewards[0] == pytest.approx(rewards[1], abs=2e-4)
    assert json.loads((tmp_path / "strong" / "potentials.json").read_text())["potentials"]
    assert not (tmp_path / "base" / "potentials.json").exists()


@pytest.mark.parametrize("setting", ["fast", "paper"])
@pytest.mark.parametrize("intervals", [1, 3])
def test_both_settings_report_as_json(
    command: Command, plant: Path, tmp_path: Path, setting: str, intervals: int
) -> None:
    line = ("--setting", setting, "--intervals", intervals, "--out", tmp_path / "p.json", "--json", "--per-step")
    report = json.loads(command("potentials", plant, *line).out)
    assert report["converged"] is True
    assert {"units", "cuts", "iterations", "seconds", "proof_bound", "history"} <= set(report)


def test_a_time_limit_leaves_valid_potentials(command: Command, plant: Path, tmp_path: Path) -> None:
    done = command("potentials", plant, "--time-limit", 1e-3, "--out", tmp_path / "p.json")
    assert done.code in (0, 3)
    if done.code == 0:
        line = ("--method", "potentials", "--potentials", tmp_path / "p.json", "--out", tmp_path / "run")
        assert command("plan", plant, *line).code == 0


def test_a_file_that_does_not_fit_is_refused(command: Command, plant: Path, tank: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    text = plant.read_text()
    assert command("potentials", plant, "--out", file, "--quiet").code == 0
    longer = command(
        "plan", plant, "--horizon", 9, "--method", "potentials", "--potentials", file, "--out", tmp_path / "r"
    )
    assert longer.code == 4
    assert "at most 3 steps" in longer.err
    plant.write_text(text.replace("0.1*push", "0.2*push"))
    other = command("plan", plant, "--method", "potentials", "--potentials", file, "--out", tmp_path / "r")
    assert other.code == 4
    assert "another problem" in other.err
    unused = command("plan", plant, "--potentials", file, "--out", tmp_path / "r")
    assert unused.code == 4
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "line",
    [("--intervals", 0), ("--setting", "slow"), ("--regulariser", -1), ("--plot", "picture.gif")],
)
def test_wrong_options_are_refused(command: Command, plant: Path, tmp_path: Path, line: tuple[object, ...]) -> None:
    done = command("potentials", plant, *line, "--out", tmp_path / "p.json")
    assert done.code == 4
    assert "Traceback" not in done.err
    assert not (tmp_path / "p.json").exists()


def test_it_runs_as_a_program(plant: Path, tmp_path: Path) -> None:
    done = launch("potentials", plant, "--out", tmp_path / "p.json")
    assert done.code == 0
    assert "violation" in done.err or "converged" in done.out
