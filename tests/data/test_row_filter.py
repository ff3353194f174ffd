"""Columns that may be missing, columns that come along, and rows that are left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reluplan.data import RowFilter, Transitions, concatenate, read_transitions, write_transitions
from reluplan.errors import InputError
from reluplan.problem.problem import Variable

ROWS = """note,x,u,crashed,x',wind speed
a,1,0,0,2,5
b,2,0,0,3,6
c,3,1,1,90,7
d,4,1,0,5,
"""


def written(folder: Path, text: str = ROWS, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def left(path: Path, *conditions: str, **constants: float) -> Transitions:
    return read_transitions(path, ["x"], ["u"], leaving_out=RowFilter(conditions, constants))


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        (["abs(x' - x) > 5"], [1, 2, 4]),
        (["crashed == 1"], [1, 2, 4]),
        (["u >= 1 and x < 4", "x == 1"], [2, 4]),
        (["`wind speed` < 6"], [2, 3, 4]),  # a missing number is not below 6
        (["x > limit or crashed == 1"], [1, 2]),
        (["step == 0"], [2, 3, 4]),
    ],
)
def test_rows_for_which_a_condition_holds_are_left_out_and_counted(
    tmp_path: Path, conditions: list[str], kept: list[int]
) -> None:
    found = left(written(tmp_path), *conditions, limit=3.5)
    assert found.states[:, 0].tolist() == kept
    assert list(found.dropped) == conditions
    assert 4 - len(kept) <= sum(found.dropped.values())


def test_what_is_left_out_may_be_broken_or_out_of_bounds(tmp_path: Path) -> None:
    path = written(tmp_path, "x,u,x'\n1,0,2\n50,0,\n3,0,4\n")
    bounds = [Variable("x", lower=0.0, upper=10.0)]
    with pytest.raises(InputError):
        read_transitions(path, ["x"], ["u"], bounds)
    found = read_transitions(path, ["x"], ["u"], bounds, leaving_out=RowFilter(("x > 10",)))
    assert found.states[:, 0].tolist() == [1, 3]
    later = written(tmp_path, "x,u,x',bad\n1,0,2,1\n3,0,4,0\n30,0,4,0\n", "later.csv")
    with pytest.raises(InputError, match=r"line 4.*outside the bounds"):
        read_transitions(later, ["x"], ["u"], bounds, leaving_out=RowFilter(("bad == 1",)))


def test_rows_are_left_out_after_they_were_paired(tmp_path: Path) -> None:
    path = written(tmp_path, "x,u\n1,0\n2,0\n90,0\n1,0\n2,0\n")
    found = left(path, "abs(x' - x) > 5")
    assert np.hstack([found.states, found.next_states]).tolist() == [[1, 2], [1, 2]]
    assert found.step.tolist() == [0, 3]


def test_several_files_add_their_counts(tmp_path: Path) -> None:
    paths = [written(tmp_path), written(tmp_path, ROWS, "more.csv")]
    found = read_transitions(paths, ["x"], ["u"], leaving_out=RowFilter(("crashed == 1",)))
    assert found.dropped == {"crashed == 1": 2}
    assert len(found) == 6


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("crshed == 1", "data.csv.*unknown variable 'crshed'.*did you mean 'crashed'"),
        ("u' > 1", "actions have no next value"),
        ("note > 1", "column 'note': expected a number, got 'a'"),
        ("x >= 0", "hold for all of them"),
    ],
)
def test_conditions_that_make_no_sense_are_explained(tmp_path: Path, condition: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"(?s){message}"):
        left(written(tmp_path), condition)


def test_other_columns_of_numbers_come_along_if_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert read_transitions(path, ["x"], ["u"]).extras == {}
    extras = read_transitions(path, ["x"], ["u"], extras=True).extras
    assert set(extras) == {"crashed", "wind speed"}
    np.testing.assert_array_equal(extras["wind speed"], [5, 6, 7, np.nan])


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_extras_are_written_and_read_again(tmp_path: Path, ending: str) -> None:
    values = np.array([[1.0], [2.0], [3.0]])
    made = Transitions(
        ("x",), ("u",), np.zeros(3, dtype=np.int64), np.arange(3), values, values, values, {"reward": values[:, 0] / 7}
    )
    write_transitions(made, tmp_path / f"data.{ending}")
    found = read_transitions(tmp_path / f"data.{ending}", ["x"], ["u"], extras=True)
    np.testing.assert_array_equal(found.extras["reward"], made.extras["reward"])
    assert set(found.extras) == {"reward"}
    plain = Transitions(("x",), ("u",), made.episode, made.step, values, values, values)
    assert concatenate([made, plain]).extras == {}
    np.testing.assert_array_equal(concatenate([made, made]).extras["reward"], np.tile(values[:, 0] / 7, 2))


def test_optional_columns_may_be_missing(tmp_path: Path) -> None:
    path = written(tmp_path)
    found = read_transitions(path, ["clock", "x", "y"], ["u", "brake"], optional=["clock", "y", "brake"])
    assert (found.state_names, found.action_names) == (("x",), ("u",))
    with pytest.raises(InputError, match="column 'y' is missing"):
        read_transitions(path, ["x", "y"], ["u"])


def test_optional_columns_are_read_where_all_files_have_them_whole(tmp_path: Path) -> None:
    both = written(tmp_path, "x,y,u,x',y'\n1,2,0,2,3\n2,3,0,3,4\n", "both.csv")
    half = written(tmp_path, "x,y,u,x'\n1,2,0,2\n2,3,0,3\n", "half.csv")

    def names(*paths: Path) -> tuple[str, ...]:
        return read_transitions(paths, ["x", "y"], ["u"], optional=["y"]).state_names

    assert names(both) == ("x", "y")
    assert names(half) == ("x",)
    assert names(both, half) == ("x",)
