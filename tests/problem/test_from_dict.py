"""Problems and data from Python: the same as from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reluplan import Problem, ReluNetwork, plan
from reluplan.data import read_transitions, write_transitions
from reluplan.errors import InputError
from reluplan.network.relu_network import Layer
from systems import TANK, TANK_OPTIMUM, cascade_data

TANK_TABLES: dict[str, Any] = {
    "name": "tank",
    "horizon": np.int64(4),
    "reward": "-abs(level' - 5) - 0.1*pump",
    "constraints": ("pump <= level + 1",),
    "state": {"level": {"bounds": np.array([0.0, 10.0]), "initial": np.float64(2.0)}},
    "action": {"pump": {"bounds": (0, 3)}},
    "transition": {"level": "max(level - 1, 0) + pump"},
}


class Frame:
    """What pandas and polars have in common."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]


def test_a_dict_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "tank.toml").write_text(TANK)
    problem = Problem.from_dict(TANK_TABLES)
    assert problem.fingerprint() == Problem.load(tmp_path / "tank.toml").fingerprint()
    result = plan(problem, threads=1)
    assert result.reward == pytest.approx(TANK_OPTIMUM, abs=1e-6)
    shown = result._repr_html_()
    assert "<th>level</th>" in shown
    assert shown.count("<tr>") == 6
    assert "tank: optimal" in shown


def test_a_network_and_files_beside(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("price\n1\n2\n")
    network = ReluNetwork(2, (), Layer(np.array([[1.0, 1.0]]), np.zeros(1)))
    tables = {
        "horizon": 2,
        "reward": "-price*a + x'",
        "series": {"price": {"file": "p.csv"}, "limit": {"values": Frame({"v": np.array([1.0, 2.0])})["v"]}},
        "state": {"x": {"bounds": [-9, 9], "initial": 0}},
        "action": {"a": {"bounds": [0, "limit"]}},
        "network": {"inputs": ["x", "a"], "outputs": ["x"], "predicts": "next"},
    }
    problem = Problem.from_dict(tables, network=network, folder=tmp_path)
    np.testing.assert_array_equal(problem.series_table[:2], [[1.0, 1.0], [2.0, 2.0]])
    assert plan(problem, threads=1).reward == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(InputError, match=r"p\.csv: no such data file"):
        Problem.from_dict(tables, network=network, folder=tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"network\.inputs: 2 names are listed"):
        Problem.from_dict(tables, network=ReluNetwork(3, (), Layer(np.zeros((1, 3)), np.zeros(1))), folder=tmp_path)


def test_names_are_escaped_in_notebooks() -> None:
    name = "<script>alert(1)</script>"
    tables = TANK_TABLES | {"name": name, "state": {name: {"bounds": [0, 10], "initial": 2}}}
    tables |= {"reward": "-pump", "constraints": (), "transition": {name: f"`{name}`"}}
    assert "<script>" not in plan(Problem.from_dict(tables), threads=1)._repr_html_()


def test_wrong_tables_are_named() -> None:
    for change, said in (
        ({"horizon": 2.5}, "horizon: expected a whole number, got 2.5"),
        ({"state": {"level": {"bounds": np.array([[0, 1]])}}}, 'state."level".bounds'),
        ({"rewards": "x"}, "unknown key 'rewards'"),
    ):
        with pytest.raises(InputError) as raised:
            Problem.from_dict(TANK_TABLES | change)
        assert said in str(raised.value)


def test_data_frames_are_data(tmp_path: Path) -> None:
    data = cascade_data()
    names = (*data.state_names, *data.action_names)
    columns = dict(zip(names, np.hstack([data.states, data.actions]).T, strict=True))
    columns |= {f"{name}'": column for name, column in zip(data.state_names, data.next_states.T, strict=True)}
    write_transitions(data, tmp_path / "data.csv")
    expected = read_transitions(tmp_path / "data.csv", data.state_names, data.action_names)
    for source in (columns, Frame(columns)):
        found = read_transitions(source, data.state_names, data.action_names)
        np.testing.assert_array_equal(found.states, expected.states)
        np.testing.assert_array_equal(found.next_states, expected.next_states)
    twice = read_transitions([columns, Frame(columns)], data.state_names, data.action_names)
    assert len(twice) == 2 * len(data)
    with pytest.raises(InputError, match="the data: expected columns of equal length"):
        read_transitions({"x": [1.0, 2.0], "a": [1.0]}, ["x"], ["a"])
    with pytest.raises(InputError, match="the data: the column 'y' is missing"):
        read_transitions({"x": [1.0, 2.0], "a": [1.0, 2.0]}, ["y"], ["a"])
