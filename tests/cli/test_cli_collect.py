"""The commands around simulators as users run them: files, JSON, exit codes, messages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from command_line import exit_code as run
from patience import AMPLE
from reluplan.data import read_transitions
from reluplan.simulators.collect import collect
from shared_data import ROOT
from systems import DRAINING, DRAINING_RDDL, DRAINING_SYSTEM

SIMULATION_KEYS = {
    "stochastic",
    "repeats",
    "ok", "horizon", "model_reward", "true_reward", "simulator_reward", "drift", "max_violation", "violations",
    "clipped_steps", "largest_clip", "ended_at",
}  # fmt: skip
COLLECT_KEYS = {
    "file",
    "seconds",
    "interrupted",
    "rows",
    "episodes",
    "missing",
    "duplicate_rows",
    "constant_columns",
    "coverage",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "problem.toml").write_text(DRAINING)
    (tmp_path / "system.py").write_text(DRAINING_SYSTEM)
    (tmp_path / "tanks.rddl").write_text(DRAINING_RDDL)
    (tmp_path / "plan.csv").write_text("step,high,low,flow\n1,6,3,4\n2,3,5,3\n3,1,6,1\n4,1,5,1\n5,1,4,\n")
    return tmp_path


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_collect_writes_data_that_can_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, ending: str
) -> None:
    out = folder / "made" / f"data.{ending}"
    simulator = folder / "tanks.rddl"
    code = run(monkeypatch, "collect", simulator, "--episodes", 3, "--steps", 2, "--out", out, "--json")
    record = json.loads(capsys.readouterr().out)
    assert code == 0
    assert set(record) == COLLECT_KEYS
    assert len(read_transitions(out, ("high", "low"), ("flow",))) == record["rows"] == 6


def test_collect_tells_what_the_data_cover(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    arguments = ["--problem", folder / "problem.toml", "--exploration", "latin", "--episodes", 30]
    code = run(monkeypatch, "collect", folder / "tanks.rddl", *arguments, "--out", folder / "data.csv")
    shown = capsys.readouterr()
    assert code == 0
    assert shown.err == ""
    assert "transitions in 30 episode(s)" in shown.out
    assert f"file      {folder / 'data.csv'}" in shown.out
    data = read_transitions(folder / "data.csv", ("high", "low"), ("flow",))
    assert (data.actions <= data.states[:, :1]).all()
    assert run(monkeypatch, "collect", folder / "tanks.rddl", "--out", folder / "quiet.csv", "--steps", 1, "-q") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}/tanks.rddl", "--out", "{}/data.xlsx"], "data files end in"),
        (["{}/none.rddl", "--out", "{}/data.csv"], "no such RDDL domain file"),
        (["{}/tanks.rddl", "--out", "{}/problem.toml/data.csv"], "nothing can be written there"),
        (["{}/tanks.rddl", "--out", "{}/data.csv", "--exploration", "wild"], "unknown exploration"),
        (["{}/tanks.rddl", "--out", "{}/data.csv", "--problem", "{}/none.toml"], "no such problem file"),
        (["{}/tanks.rddl", "--out", "{}/data.csv", "--processes", "0"], "processes must be at least 1"),
        (["{}/tanks.rddl", "--out", "{}/data.csv", "--exploration", "latin"], "--problem"),
    ],
)
def test_collect_answers_bad_input(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    arguments: list[str],
    message: str,
) -> None:
    before = sorted(folder.iterdir())
    assert run(monkeypatch, "collect", *(argument.format(folder) for argument in arguments)) == 4
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""
    assert sorted(path for path in folder.iterdir() if path.name != "__pycache__") == before


INTERRUPTED = """
import os
import signal

STATES = {"level": (0, 10)}
ACTIONS = {"pump": (0, 3)}
INITIAL = {"level": 2}
made = 0


def step(state, action):
    global made
    made += 1
    if made == WHEN:
        os.kill(PROCESS, signal.SIGINT)  # as Ctrl-C does
    return [min(10, 0.9 * state[0] + action[0])]
"""


def collect_until(folder: Path, step: int, processes: int) -> subprocess.CompletedProcess[str]:
    """`reluplan collect` of 400 episodes of 5 steps; Ctrl-C is pressed at that step."""
    text = INTERRUPTED.replace("WHEN", str(step)).replace("PROCESS", f"os.get{'p' * (processes > 1)}pid()")
    (folder / "tank.py").write_text(text)
    arguments = [f"{folder / 'tank.py'}:step", "--episodes", "400", "--steps", "5", "--out", str(folder / "data.csv")]
    line = [sys.executable, "-m", "reluplan", "collect", *arguments, "--processes", str(processes)]
    return subprocess.run(line, capture_output=True, text=True, timeout=AMPLE)


@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_keeps_the_episodes_that_are_done(tmp_path: Path, processes: int) -> None:
    done = collect_until(tmp_path, 503, processes)
    assert done.returncode == 0
    kept = read_transitions(tmp_path / "data.csv", ("level",), ("pump",))
    whole = collect(f"{tmp_path / 'tank.py'}:step", episodes=100, steps=5)
    assert 0 < len(kept) <= len(whole) * processes
    if processes == 1:
        assert len(kept) == 500  # the episode of step 503 was not done
        assert np.array_equal(kept.states, whole.states)
    assert len(kept) % 5 == 0
    assert f"holds the first {len(kept) // 5} of 400 episodes" in done.stderr


def test_ctrl_c_before_the_first_episode_writes_nothing(tmp_path: Path) -> None:
    done = collect_until(tmp_path, 3, processes=1)
    assert done.returncode == 3
    assert "interrupted before there was anything to keep" in done.stderr
    assert {file.name for file in tmp_path.iterdir()} <= {"tank.py", "__pycache__"}


def test_check_with_a_simulator_adds_the_true_system(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    arguments = ["check", folder / "problem.toml", folder / "plan.csv", "--simulator", folder / "tanks.rddl"]
    assert run(monkeypatch, *arguments, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["ok"]
    assert set(record["simulation"]) == SIMULATION_KEYS
    assert record["simulation"]["clipped_steps"] == [2, 3, 4]
    assert record["simulation"]["model_reward"] == record["reward"]
    assert run(monkeypatch, *arguments, "--plot", folder / "drift.png") == 0
    text = capsys.readouterr().out
    assert "clipped  3 action(s)" in text
    assert (folder / "drift.png").stat().st_size > 1000


def test_check_answers_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    arguments = ["check", folder / "problem.toml", folder / "plan.csv"]
    for more, message in (
        (["--plot", folder / "drift.png"], "go with --simulator"),
        (["--instance", "1"], "go with --simulator"),
        (["--simulator", folder / "tanks.rddl", "--plot", folder / "drift.txt"], "must end in"),
        (["--simulator", f"{folder / 'system.py'}:nothing"], "has no function 'nothing'"),
    ):
        assert run(monkeypatch, *arguments, *more) == 4
        assert message in capsys.readouterr().err


def test_the_core_imports_no_simulator() -> None:
    heavy = ("pyRDDLGym", "gymnasium", "pyarrow", "matplotlib", "torch")
    code = f"import sys, reluplan, reluplan.cli; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_what_the_documentation_shows_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The table, the reading of it, and the simulator of docs/data.md."""
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    table = re.search(r"((?:    [\w\[\],.]+\n){6})", text)
    assert table is not None
    Path("data.csv").write_text(textwrap.dedent(table[1]))
    reading, simulator = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(reading, "data.md", "exec"), {})
    assert capsys.readouterr().out.startswith("3 (3, 1) [69.8]\n")
    Path("tank.py").write_text(simulator)
    assert (
        run(monkeypatch, "collect", "tank.py:step", "--episodes", 2, "--out", "tank.csv", "--exploration", "latin") == 0
    )
    assert len(read_transitions("tank.csv", ("level",), ("pump",))) == 20
