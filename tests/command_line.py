"""The command line as tests run it, and what its files must say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patience import AMPLE
from reluplan.cli import main
from reluplan.problem.check import check
from reluplan.problem.plan_file import read_plan
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import simulate

RESULT_KEYS = {
    "status", "reward", "bound", "absolute_gap", "gap", "max_violation", "horizon", "method", "solver", "seconds",
    "soft", "gap_target", "stages", "nodes", "history", "seed", "versions", "problem",
    "bound_margin", "tie_distance", "interrupted", "notes", "settings", "schedule", "shares",
}  # fmt: skip
STAGES = {"bounds", "potentials", "search", "milp"}


@dataclass(frozen=True)
class Outcome:
    """What a command has left behind."""

    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Run the command line inside this process."""
    monkeypatch.setattr(sys, "argv", ["reluplan", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert isinstance(stop.value.code, int)
    return stop.value.code


def launch(*arguments: object) -> Outcome:
    """The command line as a program, with no terminal anywhere."""
    line = [sys.executable, "-m", "reluplan", *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL, timeout=AMPLE)
    return Outcome(done.returncode, done.stdout, done.stderr)


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""Output that waits in a buffer until the end is the usual case, and the harder one."""


def write(folder: Path, text: str, name: str = "problem.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def result_of(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert set(result) == RESULT_KEYS
    assert set(result["stages"]) >= STAGES
    assert set(result["nodes"]) == {"open", "closed"}
    assert all(set(entry) == {"seconds", "reward", "bound", "nodes"} for entry in result["history"])
    return result


def assert_honest(problem: Path, folder: Path, code: int) -> dict[str, Any]:
    """Status, exit code, files and numbers fit together, and the plan is worth what the result says."""
    result = result_of(folder)
    status, reward, bound = result["status"], result["reward"], result["bound"]
    assert code == {"optimal": 0, "feasible": 0, "infeasible": 2, "no_plan": 3}[status]
    assert (folder / "log.txt").is_file()
    if reward is None:
        assert status in ("infeasible", "no_plan")
        assert not (folder / "plan.csv").exists()
        assert result["gap"] is result["absolute_gap"] is result["max_violation"] is None
        return result
    loaded = Problem.load(problem).with_horizon(result["horizon"])
    stored = read_plan(loaded, folder)
    trajectory = simulate(loaded, stored.initial_state, stored.actions, stored.auxiliaries)
    report = check(loaded, trajectory)
    assert report.ok
    assert trajectory.total_reward == reward
    assert stored.rewards is not None
    assert stored.states is not None
    np.testing.assert_array_equal(stored.states, trajectory.states)
    np.testing.assert_array_equal(stored.rewards, trajectory.rewards)
    assert result["max_violation"] == report.max_violation
    if bound is None:
        assert status == "feasible"
        return result
    assert bound >= reward
    assert result["absolute_gap"] == bound - reward
    assert result["gap"] == result["absolute_gap"] / max(1.0, abs(reward))
    assert (status == "optimal") == (result["gap"] <= 1e-4)
    return result
