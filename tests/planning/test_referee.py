"""`check` as a referee: whatever is changed in plan.csv or result.json is found, named, and ends with exit code 3."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import Command
from reluplan import Problem, plan

TANKS = """
name = "tanks"
horizon = 4
reward = "SCALE*(-abs(level' - 5) - 0.1*pump + 0.01*count')"
[state]
level = {bounds = [0, 10], initial = 2}
count = {kind = "integer", bounds = [0, 20], initial = 1}
[action]
pump = {bounds = [0, 3]}
[transition]
level = "max(level - 1, 0) + pump"
count = "count + 1"
"""
Check = Callable[..., tuple[int, str]]
Rows = list[dict[str, str]]


@pytest.fixture
def check(command: Command) -> Check:
    def run(*arguments: object) -> tuple[int, str]:
        done = command(*arguments)
        return done.code, done.out + done.err

    return run


@pytest.fixture(params=["1e-6", "1", "1e9"], scope="module")
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a problem and its run directory, at several magnitudes of the reward."""
    folder = tmp_path_factory.mktemp("original")
    (folder / "problem.toml").write_text(TANKS.replace("SCALE", request.param))
    plan(Problem.load(folder / "problem.toml"), threads=1).write(folder / "run")
    return folder


@pytest.fixture
def planned(original: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A copy to be changed."""
    shutil.copytree(original, tmp_path / "copy")
    return tmp_path / "copy" / "problem.toml", tmp_path / "copy" / "run"


def edit_plan(run: Path, change: Callable[[Rows], Rows | None]) -> None:
    with (run / "plan.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows = change(rows) or rows
    with (run / "plan.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def edit_result(run: Path, **fields: Any) -> None:
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, **fields}))


def shift(rows: Rows, step: int, column: str, share: float) -> None:
    """By a share of the column's own size."""
    largest = max(abs(float(row[column])) for row in rows if row[column])
    rows[step - 1][column] = repr(float(rows[step - 1][column]) + share * largest)


def test_a_run_agrees_with_itself(check: Check, planned: tuple[Path, Path]) -> None:
    problem, run = planned
    for place in (run, run / "plan.csv"):
        code, text = check("check", problem, place)
        assert code == 0
        assert "what plan.csv and result.json say is what was recomputed" in text
        assert "not proven here" in text
    record = json.loads(check("check", problem, run, "--json")[1])
    assert (record["ok"], record["valid"], record["disagreements"]) == (True, True, [])
    assert record["bound_proven"] is False


def test_another_horizon_than_the_problems_is_no_disagreement(check: Check, planned: tuple[Path, Path]) -> None:
    problem, run = planned
    assert check("plan", problem, "--out", run, "--horizon", 2, "--quiet")[0] == 0
    assert check("check", problem, run)[0] == 0
    (run / "result.json").unlink()
    assert check("check", problem, run)[0] == 3
    assert check("check", problem, run, "--horizon", 2)[0] == 0


@pytest.mark.parametrize(
    ("step", "column"), [(1, "reward"), (3, "reward"), (2, "level"), (5, "level"), (2, "count"), (5, "count")]
)
@pytest.mark.parametrize("share", [1e-5, -0.5])
def test_a_changed_number_of_the_plan_is_named(
    check: Check, planned: tuple[Path, Path], step: int, column: str, share: float
) -> None:
    problem, run = planned
    edit_plan(run, lambda rows: shift(rows, step, column, share))
    for place in (run, run / "plan.csv"):
        code, text = check("check", problem, place)
        assert code == 3
        assert f"plan.csv: step {step}, column '{column}': says " in text
    record = json.loads(check("check", problem, run, "--json")[1])
    assert (record["ok"], record["valid"]) == (False, True)
    (found,) = record["disagreements"]
    assert (found["file"], found["where"]) == ("plan.csv", f"step {step}, column '{column}'")


def test_the_last_digits_are_not_held_against_anyone(check: Check, planned: tuple[Path, Path]) -> None:
    problem, run = planned
    edit_plan(run, lambda rows: shift(rows, 3, "reward", 1e-13))
    edit_plan(run, lambda rows: shift(rows, 3, "level", 1e-13))
    assert check("check", problem, run)[0] == 0


def test_a_changed_action_shows_in_everything(check: Check, planned: tuple[Path, Path]) -> None:
    problem, run = planned
    edit_plan(run, lambda rows: shift(rows, 2, "pump", -0.1))
    code, text = check("check", problem, run)
    assert code == 3
    assert "plan.csv: step 3, column 'level': says " in text
    assert "plan.csv: step 2, column 'reward': says " in text
    assert "result.json: reward: says " in text


def test_a_plan_that_lost_its_end_is_named(check: Check, planned: tuple[Path, Path]) -> None:
    problem, run = planned
    edit_plan(run, lambda rows: rows[:-2])
    for place in (run, run / "plan.csv"):
        code, text = check("check", problem, place)
        assert code == 3
        assert "result.json: horizon: says 4, recomputed 3" in text
    (run / "result.json").unlink()
    code, text = check("check", problem, run)
    assert code == 3
    assert "plan.csv: the plan has 3 steps, the problem has 4" in text


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("status", "feasible", "status: says 'feasible', but this plan and bound make it optimal"),
        ("status", "infeasible", "status: says 'infeasible', but this plan and bound make it optimal"),
        ("status", "no_plan", "status: says 'no_plan', but"),
        ("status", None, "status: says None, but"),
        ("status", ["optimal"], "status: says ['optimal'], but"),
        ("reward", None, "reward: says None, recomputed"),
        ("reward", "much", "reward: says 'much', recomputed"),
        ("reward", True, "reward: says True, recomputed"),
        ("bound", -1e30, "which no bound may lie below"),
        ("bound", float("nan"), "bound: nan is not a finite number"),
        ("bound", None, "says 'optimal', but this plan and bound make it feasible"),
        ("bound", 1e30, "says 'optimal', but this plan and bound make it feasible"),
        ("max_violation", 0.5, "max_violation: says 0.5, recomputed 0"),
        ("max_violation", None, "max_violation: says None, recomputed 0"),
        ("horizon", 5, "horizon: says 5, recomputed 4"),
        ("gap", 0.5, "gap: says 0.5, recomputed"),
        ("gap", None, "gap: says None, recomputed"),
        ("absolute_gap", 1e10, "absolute_gap: says 10000000000, recomputed"),
    ],
)
def test_a_changed_field_of_the_result_is_named(
    check: Check, planned: tuple[Path, Path], field: str, value: Any, said: str
) -> None:
    problem, run = planned
    edit_result(run, **{field: value})
    for place in (run, run / "plan.csv"):
        code, text = check("check", problem, place)
        assert code == 3
        assert said in text
    record = json.loads(check("check", problem, run, "--json")[1], parse_constant=pytest.fail)
    assert field in {found["where"] for found in record["disagreements"]} or field == "bound"


@pytest.mark.parametrize("share", [1e-5, -1e-5])
def test_a_slightly_changed_reward_is_found(check: Check, planned: tuple[Path, Path], share: float) -> None:
    problem, run = planned
    edit_result(run, reward=json.loads((run / "result.json").read_text())["reward"] * (1.0 + share))
    assert check("check", problem, run)[0] == 3


def test_an_invalid_plan_has_no_status_that_claims_one(check: Check, planned: tuple[Path, Path]) -> None:
    problem, run = planned
    problem.write_text(problem.read_text().replace("pump = {bounds = [0, 3]}", "pump = {bounds = [0, 1]}"))
    code, text = check("check", problem, run)
    assert code == 3
    assert "NOT valid" in text
    assert "status: says 'optimal', but the plan is not valid" in text


@pytest.mark.parametrize(("text", "said"), [("{", "cannot be read as JSON"), ("[1]", "is not the result of a run")])
def test_a_result_that_is_none_is_bad_input(check: Check, planned: tuple[Path, Path], text: str, said: str) -> None:
    problem, run = planned
    (run / "result.json").write_text(text)
    code, shown = check("check", problem, run)
    assert code == 4
    assert said in shown
