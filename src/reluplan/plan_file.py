"""plan.csv: one row per step with states, actions, auxiliaries and reward; the last row is the final state."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.problem import Problem, Variable
from reluplan.simulate import Trajectory

Array = NDArray[np.float64]


def plan_csv(problem: Problem, trajectory: Trajectory) -> str:
    """The file's text; numbers are written so that reading them back gives the same float64."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [v.name for v in problem.input_variables]
    writer.writerow(["step", *names, "reward"])
    for t in range(trajectory.horizon + 1):
        last = t == trajectory.horizon
        actions = [""] * len(problem.actions) if last else map(repr, trajectory.actions[t].tolist())
        reward = "" if last else repr(float(trajectory.rewards[t]))
        states, extra = trajectory.states[t].tolist(), trajectory.auxiliaries[t].tolist()
        writer.writerow([t + 1, *map(repr, states), *actions, *map(repr, extra), reward])
    return text.getvalue()


@dataclass(frozen=True, eq=False)
class StoredPlan:
    """What a plan file says: to be simulated, not believed."""

    initial_state: Array
    actions: Array
    auxiliaries: Array
    states: Array | None
    rewards: Array | None


def read_plan(problem: Problem, path: Path) -> StoredPlan:
    """Read a plan file (or the plan.csv of a run directory) for this problem."""
    path = path / "plan.csv" if path.is_dir() else path
    columns = _read_columns(path)
    horizon = _action_rows(problem, path, columns)
    actions = _table(problem.actions, path, columns, horizon)
    has_states = all(v.name in columns for v in problem.states)
    states = _table(problem.states, path, columns, len(columns["step"])) if has_states else None
    if states is not None:
        initial = states[0]
    elif (problem.initial_lower == problem.initial_upper).all():
        initial = problem.initial_lower
    else:
        raise InputError(f"{path}: has no state columns, but the problem leaves the first state open; add them")
    complete = len(columns["step"]) > horizon
    if problem.auxiliaries and not complete:
        raise InputError(f"{path}: the auxiliaries of the final state are missing: add a row for step {horizon + 1}")
    auxiliaries = _table(problem.auxiliaries, path, columns, horizon + 1)
    rewards = None
    if "reward" in columns:
        rewards = np.array([_number(path, "reward", t, columns["reward"][t]) for t in range(horizon)])
    return StoredPlan(initial, actions, auxiliaries, states, rewards)


def _read_columns(path: Path) -> dict[str, list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except FileNotFoundError:
        raise InputError(f"{path}: no such plan file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as CSV ({error})") from None
    if len(rows) < 2:
        raise InputError(f"{path}: has no plan: expected a header and at least one step")
    header = [name.strip() for name in rows[0]]
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise InputError(f"{path}: line {number} has {len(row)} fields, the header has {len(header)}")
    columns = {name: [row[i].strip() for row in rows[1:]] for i, name in enumerate(header)}
    columns.setdefault("step", [str(t + 1) for t in range(len(rows) - 1)])
    return columns


def _action_rows(problem: Problem, path: Path, columns: dict[str, list[str]]) -> int:
    """How many steps have actions; only the last row may lack them."""
    for variable in problem.actions:
        if variable.name not in columns:
            raise InputError(f"{path}: the column '{variable.name}' (an action of the problem) is missing")
    last = [columns[variable.name][-1] for variable in problem.actions]
    return len(columns["step"]) - (1 if not any(last) else 0)


def _table(variables: Sequence[Variable], path: Path, columns: dict[str, list[str]], count: int) -> Array:
    names = [v.name for v in variables]
    for name in names:
        if name not in columns:
            raise InputError(f"{path}: the column '{name}' is missing")
    values = [[_number(path, name, t, columns[name][t]) for name in names] for t in range(count)]
    return np.array(values, dtype=np.float64).reshape(count, len(names))


def _number(path: Path, column: str, row: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{path}: line {row + 2}, column '{column}': expected a number, got {text!r}") from None
    if not math.isfinite(value):
        raise InputError(f"{path}: line {row + 2}, column '{column}': {text} is not a finite number")
    return value
