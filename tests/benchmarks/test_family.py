"""The program that compares the methods, from its start to its table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shared_data import ROOT


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """benchmarks/family.py, with the package that is tested."""
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "benchmarks/family.py", *arguments]
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_table_with_verdicts_is_printed_and_saved(tmp_path: Path) -> None:
    """Of a system that needs no training, which is made on the way."""
    out = tmp_path / "rows.json"
    options = ["--only", "random-small", "--methods", "auto,base,cem", "--seconds", "1", "--json", str(out)]
    done = run(str(tmp_path), *options)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())
    rewards = {method: outcome["reward"] for method, outcome in row["outcomes"].items()}
    assert set(rewards) == {"auto", "base", "cem"}
    assert "| random-small | 5 |" in done.stdout
    assert "all: 1 rows: reward " in done.stdout
    bounds = [row["outcomes"][method]["bound"] for method in ("auto", "base")]
    best = max(reward for reward in rewards.values() if reward is not None)
    assert all(bound >= best - 1e-6 for bound in bounds if bound is not None)


def test_a_method_that_fails_is_a_cell_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "random-small").mkdir()
    (tmp_path / "random-small" / "problem.toml").write_text("horizon = ")
    done = run(str(tmp_path), "--only", "random-small", "--methods", "auto,cem", "--seconds", "1")
    assert done.returncode == 0, done.stderr
    assert "exit code 4" in done.stdout
    assert "reward better 0, equal 0, worse 0, failed 1;" in done.stdout


@pytest.mark.parametrize("arguments", [("--methods", "auto,mine"), ("--only", "mine"), ("--half", "mine")])
def test_unknown_names_are_refused(arguments: tuple[str, str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "mine" in done.stderr
