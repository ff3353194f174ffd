"""plan.csv: what is written is read back to the last bit, and what is wrong in a file is named by line and column."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reluplan.errors import InputError
from reluplan.problem.plan_file import StoredPlan, plan_csv, read_plan
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory, simulate

TEXT = """
horizon = 3
reward = "level' - pump"
[state."level"]
initial = 1
[state."temperature, °C"]
initial = 20
[action."pump"]
bounds = [0, 3]
[action."valve[v1]"]
bounds = [0, 1]
[transition]
"level" = "level + pump"
"temperature, °C" = "`temperature, °C` - valve[v1]"
"""
SLACK = '[auxiliary."slack"]\nbounds = [0, 1]\n'
GOOD = "step,level,pump,valve[v1],reward\n1,1,1,0,1\n2,2,2,0,2\n3,4,3,1,4\n4,7,,,\n"


def problem(folder: Path, more: str = "", change: tuple[str, str] = ("", "")) -> Problem:
    path = folder / "plant.toml"
    path.write_text(TEXT.replace(*change) + more, encoding="utf-8")
    return Problem.load(path)


def read(folder: Path, text: str, more: str = "") -> StoredPlan:
    (folder / "plan.csv").write_text(text, encoding="utf-8")
    return read_plan(problem(folder, more), folder / "plan.csv")


def with_temperature(text: str) -> str:
    """The same rows, with the second state."""
    header, *rows = text.splitlines()
    return "\n".join([f'{header},"temperature, °C"', *(f"{row},20" for row in rows)]) + "\n"


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.booleans(), st.data())
def test_a_plan_survives_the_file_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, horizon: int, auxiliary: bool, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    plant = problem(folder, SLACK if auxiliary else "")

    def table(rows: int, columns: int) -> np.ndarray:
        values = data.draw(st.lists(finite, min_size=rows * columns, max_size=rows * columns))
        return np.array(values, dtype=np.float64).reshape(rows, columns)

    trajectory = Trajectory(
        table(horizon + 1, 2), table(horizon, 2), table(horizon + 1, int(auxiliary)), table(1, horizon)[0]
    )
    (folder / "exact.csv").write_text(plan_csv(plant, trajectory), encoding="utf-8")
    stored = read_plan(plant, folder / "exact.csv")
    assert stored.states is not None
    assert stored.rewards is not None
    for written, back in (
        (trajectory.states, stored.states),
        (trajectory.states[0], stored.initial_state),
        (trajectory.actions, stored.actions),
        (trajectory.auxiliaries, stored.auxiliaries),
        (trajectory.rewards, stored.rewards),
    ):
        assert written.tobytes() == back.tobytes()


def test_the_columns_are_step_variables_reward(tmp_path: Path) -> None:
    plant = problem(tmp_path, SLACK)
    actions = np.array([[1.0, 0.0], [0.1, 1.0]])
    trajectory = simulate(plant, np.array([1.0, 20.0]), actions, np.array([[0.5], [0.25], [0.0]]))
    rows = list(csv.reader(io.StringIO(plan_csv(plant, trajectory))))
    assert rows == [
        ["step", "level", "temperature, °C", "pump", "valve[v1]", "slack", "reward"],
        ["1", "1.0", "20.0", "1.0", "0.0", "0.5", "1.0"],
        ["2", "2.0", "20.0", "0.1", "1.0", "0.25", "2.0"],
        ["3", "2.1", "19.0", "", "", "0.0", ""],
    ]


@pytest.mark.parametrize(
    "text",
    [
        "pump,valve[v1]\n1,0\n2,0\n3,1\n",
        "valve[v1],pump\n0,1\n0,2\n1,3\n",
        "\ufeffpump , valve[v1]\r\n 1,0\r\n2 ,0\r\n\r\n3,1\r\n",
        "step,pump,valve[v1],comment\n0,1,0,a\n1,2,0,\n2,3,1,c\n",
        "pump,valve[v1]\n1,0\n2,0\n3,1\n,\n",
    ],
)
def test_actions_alone_are_enough(tmp_path: Path, text: str) -> None:
    stored = read(tmp_path, text)
    assert stored.actions.tolist() == [[1.0, 0.0], [2.0, 0.0], [3.0, 1.0]]
    assert stored.initial_state.tolist() == [1.0, 20.0]
    assert stored.states is None
    assert stored.rewards is None


def test_a_run_directory_stands_for_its_plan(tmp_path: Path) -> None:
    plant = problem(tmp_path)
    (tmp_path / "plan.csv").write_text(with_temperature(GOOD), encoding="utf-8")
    stored = read_plan(plant, tmp_path)
    assert stored.states is not None
    assert stored.states[:, 0].tolist() == [1.0, 2.0, 4.0, 7.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["expected a header and at least one step"]),
        ("step,pump,valve[v1]\n", ["expected a header and at least one step"]),
        ("step,pump,valve[v1]\n1,,\n", ["its only row has no actions"]),
        ("step,valve[v1]\n1,0\n", ["the column 'pump' is missing", "the file has: step, valve[v1]"]),
        ("pump;valve[v1]\n1;0\n", ["the column 'pump' is missing", "pump;valve[v1]"]),
        (GOOD, ["the column 'temperature, °C' is missing"]),
        ("pump,valve[v1],pump\n1,0,2\n", ["two columns", "same name"]),
        (with_temperature(GOOD.replace("2,2,2,0,2", "2,2,two,0,2")), ["line 3, column 'pump'", "got 'two'"]),
        (with_temperature(GOOD.replace("2,2,2,0,2", "2,2,,0,2")), ["line 3, column 'pump'", "got ''"]),
        (with_temperature(GOOD.replace("4,7,,,", "4,,,,")), ["line 5, column 'level'", "got ''"]),
        (with_temperature(GOOD.replace("3,4,3,1,4", "3,4,3,1,x")), ["line 4, column 'reward'", "got 'x'"]),
        (
            with_temperature(GOOD.replace("2,2,2,0,2", "2,2,nan,0,2")),
            ["line 3", "'pump'", "nan is not a finite number"],
        ),
        (with_temperature(GOOD.replace("2,2,2,0,2", "2,2,1e999,0,2")), ["line 3", "'pump'", "not a finite number"]),
        (with_temperature(GOOD).replace("\n2,", "\n\n\n2,").replace("3,4,3", "3,4,x"), ["line 6, column 'pump'"]),
        (GOOD.replace("2,2,2,0,2", "2,2,2,0,2,9"), ["line 3 has 6 fields, the header has 5"]),
        (GOOD.replace("2,2,2,0,2", "2,2,2"), ["line 3 has 3 fields, the header has 5"]),
        (GOOD.replace("2,2,2,0,2\n", ""), ["line 3: step 3 follows step 1"]),
        (GOOD.replace("2,2,2,0,2\n", "1,2,2,0,2\n"), ["line 3: step 1 follows step 1"]),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'plan.csv'}: ")
    for part in said:
        assert part in str(caught.value)


def test_final_auxiliaries_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="add a row for step 3"):
        read(tmp_path, "pump,valve[v1],slack\n1,0,0\n1,0,0\n", SLACK)
    with pytest.raises(InputError, match="'slack' is missing"):
        read(tmp_path, "pump,valve[v1]\n1,0\n1,0\n", SLACK)


def test_an_open_first_state_must_be_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "plan.csv").write_text("pump,valve[v1]\n1,0\n", encoding="utf-8")
    plant = problem(tmp_path, change=("initial = 1\n", "initial = [0, 1]\n"))
    with pytest.raises(InputError, match="leaves the first state open"):
        read_plan(plant, tmp_path / "plan.csv")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    plant = problem(tmp_path)
    with pytest.raises(InputError, match=r"absent\.csv: no such plan file"):
        read_plan(plant, tmp_path / "absent.csv")
    with pytest.raises(InputError, match=r"plan\.csv: no such plan file"):
        read_plan(plant, tmp_path)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read as CSV"):
        read_plan(plant, tmp_path / "binary.csv")
