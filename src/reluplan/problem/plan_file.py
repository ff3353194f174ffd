"""plan.csv: one row per step with states, actions, auxiliaries and reward; the last row is the final state.

Rewards are those of their steps, before discounting; in the last row stands the final reward, if the problem has one.
"""

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
from reluplan.problem.memory import with_lags
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, fitted, rollout
from reluplan.tables.csv_names import escaped, unescaped
from reluplan.wording import shortened

Array = NDArray[np.float64]


def plan_csv(problem: Problem, trajectory: Trajectory) -> str:
    """The file's text; numbers are written so that reading them back gives the same float64."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [v.name for v in problem.input_variables]
    writer.writerow(["step", *map(escaped, names), "reward"])
    for t in range(trajectory.horizon + 1):
        last = t == trajectory.horizon
        actions = [""] * len(problem.actions) if last else map(repr, trajectory.actions[t].tolist())
        reward = _final_reward(problem, trajectory) if last else float(trajectory.rewards[t])
        states = trajectory.states[t].tolist()
        extra = trajectory.auxiliaries[t].tolist()
        writer.writerow(
            [t + 1, *map(repr, states), *actions, *map(repr, extra), "" if reward is None else repr(reward)]
        )
    return text.getvalue()


def plan_columns(problem: Problem, trajectory: Trajectory) -> dict[str, list[float | int | None]]:
    """The same as columns of numbers by name; the final state's row has no actions, and only the final reward."""
    columns: dict[str, list[float | int | None]] = {"step": list(range(1, trajectory.horizon + 2))}
    parts = (
        (problem.states, trajectory.states),
        (problem.actions, trajectory.actions),
        (problem.auxiliaries, trajectory.auxiliaries),
    )
    for variables, values in parts:
        missing: list[float | None] = [None] * (trajectory.horizon + 1 - len(values))
        for variable, column in zip(variables, values.T.tolist(), strict=True):
            columns[variable.name] = [*column, *missing]
    columns["reward"] = [*trajectory.rewards.tolist(), _final_reward(problem, trajectory)]
    return columns


def _final_reward(problem: Problem, trajectory: Trajectory) -> float | None:
    """What stands in the row of the final state; None for a problem without a final reward."""
    return None if problem.final_reward is None else float(trajectory.final_reward)


@dataclass(frozen=True, eq=False)
class StoredPlan:
    """What a plan file says: to be rolled out, not believed.

    rewards: of the steps (H,), or of the steps and the final state (H + 1,) if the file says that too.
    """

    initial_state: Array
    actions: Array
    auxiliaries: Array
    states: Array | None
    rewards: Array | None


def read_plan(problem: Problem, path: Path) -> StoredPlan:
    """Read a plan file (or the plan.csv of a run directory) for this problem."""
    table = _read_table(path / "plan.csv" if path.is_dir() else path)
    chosen = problem.auxiliaries[: problem.series_columns.start]
    table.require(problem.actions + chosen)
    table.check_steps()
    horizon = _action_rows(problem, table)
    actions = table.numbers(problem.actions, horizon)
    states = _states(problem, table, actions)
    if chosen and table.row_count == horizon:
        raise table.error(f"the auxiliaries of the final state are missing: add a row for step {horizon + 1}")
    free = table.numbers(chosen, horizon + 1) if chosen else np.empty((horizon + 1, 0))
    return StoredPlan(
        initial_state=problem.initial_lower if states is None else states[0],
        actions=actions,
        auxiliaries=np.hstack([free, _series(problem, table, horizon)]),
        states=states,
        rewards=_rewards(table, horizon) if "reward" in table.columns else None,
    )


def started_from(problem: Problem, stored: StoredPlan) -> Trajectory:
    """A stored plan from a first state that the problem allows, over its steps: cut, or its last action repeated."""
    initial = np.clip(stored.initial_state, problem.initial_lower, problem.initial_upper)
    auxiliaries = problem.with_series(fitted(stored.auxiliaries, problem.horizon + 1))
    return rollout(problem, initial, fitted(stored.actions, problem.horizon), auxiliaries)


def _series(problem: Problem, table: _Table, horizon: int) -> Array:
    """What the problem says of its series, (H+1, series); the file may say the same."""
    known = problem.with_horizon(horizon).series_table
    for series, values in zip(problem.series, known.T.tolist(), strict=True):
        for row in range(horizon if series.name in table.columns else 0):
            value = table.number(row, series.name)
            if value != values[row]:
                where = f"line {table.lines[row]}, column '{series.name}'"
                raise table.error(f"{where}: {value:g} is not what the problem says, {values[row]:g}")
    return known


def _rewards(table: _Table, horizon: int) -> Array:
    """Of every step, and of the final state if its row has one."""
    has_final = table.row_count > horizon and table.text(horizon, "reward")
    return np.array([table.number(t, "reward") for t in range(horizon + 1 if has_final else horizon)])


def _states(problem: Problem, table: _Table, actions: Array) -> Array | None:
    """The states of every row; None if the file has none of them and they can be done without.

    Those that hold what was before follow from the others where the file lacks them.
    """
    own = problem.own_states
    if any(v.name in table.columns for v in own):
        table.require(own)
        states = table.numbers(own, table.row_count)
        if all(lag.name in table.columns for lag in problem.lags):
            return np.hstack([states, table.numbers(problem.states[len(own) :], table.row_count)])
        return with_lags(problem, states, actions)
    if (problem.initial_lower < problem.initial_upper).any():
        raise table.error("has no state columns, but the problem leaves the first state open; add them")
    return None


def _action_rows(problem: Problem, table: _Table) -> int:
    """How many steps have actions; only the last row may lack them."""
    last = [table.text(table.row_count - 1, v.name) for v in problem.actions]
    horizon = table.row_count - (0 if any(last) else 1)
    if horizon < 1:
        raise table.error("has no plan: its only row has no actions")
    return horizon


@dataclass(frozen=True)
class _Table:
    """The rows of a file as text, with the place of each column and the line of each row."""

    path: Path
    columns: dict[str, int]
    rows: list[list[str]]
    lines: list[int]

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def error(self, message: str) -> InputError:
        return InputError(f"{self.path}: {message}")

    def require(self, variables: Sequence[Variable]) -> None:
        for variable in variables:
            if variable.name not in self.columns:
                found = shortened(", ".join(self.columns))
                raise self.error(f"the column '{variable.name}' is missing; the file has: {found}")

    def text(self, row: int, column: str) -> str:
        return self.rows[row][self.columns[column]].strip()

    def number(self, row: int, column: str) -> float:
        text = self.text(row, column)
        where = f"line {self.lines[row]}, column '{column}'"
        try:
            value = float(text)
        except ValueError:
            raise self.error(f"{where}: expected a number, got {shortened(text)!r}") from None
        if not math.isfinite(value):
            raise self.error(f"{where}: {text} is not a finite number")
        return value

    def numbers(self, variables: Sequence[Variable], count: int) -> Array:
        """The first rows of some columns, shape (count, variables)."""
        values = [[self.number(row, v.name) for v in variables] for row in range(count)]
        return np.array(values, dtype=np.float64).reshape(count, len(variables))

    def check_steps(self) -> None:
        """Step numbers, if there are any, count up by one: no row was lost, repeated or moved."""
        if "step" not in self.columns:
            return
        for row in range(1, self.row_count):
            before = self.number(row - 1, "step")
            now = self.number(row, "step")
            if now != before + 1:
                raise self.error(f"line {self.lines[row]}: step {now:g} follows step {before:g}; steps count up by one")


def _read_table(path: Path) -> _Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            numbered = [(reader.line_num, row) for row in reader if any(field.strip() for field in row)]
    except FileNotFoundError:
        raise InputError(f"{path}: no such plan file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as CSV ({error})") from None
    if len(numbered) < 2:
        raise InputError(f"{path}: has no plan: expected a header and at least one step")
    (_, first), *steps = numbered
    header = [unescaped(name.strip()) for name in first]
    table = _Table(path, {name: i for i, name in enumerate(header)}, [row for _, row in steps], [n for n, _ in steps])
    if len(table.columns) < len(header):
        raise table.error("two columns of the header have the same name")
    for line, row in steps:
        if len(row) != len(header):
            raise table.error(f"line {line} has {len(row)} fields, the header has {len(header)}")
    return table
