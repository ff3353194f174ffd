"""Data files give back the numbers that were written, rows are paired only when they follow each other, and every
fault is told with its file, place and name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rich.console import Console

from reluplan.data import Transitions, concatenate, data_report, read_transitions, require_inside_bounds
from reluplan.data import write_transitions as write
from reluplan.data.names import bracket_name, next_state_base, plain_name
from reluplan.errors import InputError
from reluplan.problem.problem import Variable
from reluplan.report.data import print_data

STATES, ACTIONS = ("level[a]", "speed"), ("push[a,b]",)
ENDINGS = ("csv", "parquet", "npz")
quick = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
words = st.from_regex(r"[a-z]{1,5}[0-9]?", fullmatch=True)
finite = st.floats(allow_nan=False, allow_infinity=False)


def transitions(
    states: Any, actions: Any, next_states: Any, episode: Sequence[int] | None = None, step: Sequence[int] | None = None
) -> Transitions:
    count = len(states)
    return Transitions(
        STATES,
        ACTIONS,
        np.array(episode if episode is not None else np.zeros(count), dtype=np.int64),
        np.array(step if step is not None else np.arange(count), dtype=np.int64),
        np.array(states, dtype=np.float64).reshape(count, 2),
        np.array(actions, dtype=np.float64).reshape(count, 1),
        np.array(next_states, dtype=np.float64).reshape(count, 2),
    )


@st.composite
def some_transitions(draw: st.DrawFn) -> Transitions:
    count = draw(st.integers(2, 8))
    table = draw(hnp.arrays(np.float64, (count, 5), elements=finite))
    episode = draw(st.lists(st.integers(-5, 5), min_size=count, max_size=count))
    step = draw(st.lists(st.integers(0, 100), min_size=count, max_size=count))
    return transitions(table[:, :2], table[:, 2:3], table[:, 3:], episode, step)


def episodes_of(lengths: Sequence[int], seed: int = 0) -> Transitions:
    """Random trajectories: s' of each row is s of the next row of its episode."""
    rng = np.random.default_rng(seed)
    parts = []
    for number, length in enumerate(lengths):
        states = rng.normal(size=(length + 1, 2))
        parts.append(
            transitions(states[:-1], rng.normal(size=(length, 1)), states[1:], [number] * length, list(range(length)))
        )
    return concatenate([replace(part, episode=part.episode * 0) for part in parts])


def same(one: Transitions, other: Transitions) -> bool:
    fields = ("episode", "step", "states", "actions", "next_states")
    return one.state_names == other.state_names and all(
        np.array_equal(getattr(one, field), getattr(other, field)) for field in fields
    )


def read_text(folder: Path, text: str | bytes, name: str = "data.csv") -> Transitions:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_transitions(path, ("x", "y"), ("u",))


def rows_of(found: Transitions) -> list[list[float]]:
    rows: list[list[float]] = np.hstack([found.states, found.actions, found.next_states]).tolist()
    return rows


@pytest.mark.parametrize("ending", ENDINGS)
@quick
@given(original=some_transitions())
def test_every_format_gives_back_what_was_written(tmp_path: Path, ending: str, original: Transitions) -> None:
    path = tmp_path / f"data.{ending}"
    write(original, path)
    assert same(read_transitions(path, STATES, ACTIONS), original)


def test_columns_may_stand_in_any_order_and_others_are_ignored(tmp_path: Path) -> None:
    found = read_text(tmp_path, "note,u,x',y,x,next_y\nhello,3,4,2,1,5\n,8,9,7,6,10\n")
    assert rows_of(found) == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]


@pytest.mark.parametrize("mark", ["{}'", "{}’", "next_{}", "{}_next", "Next_{}"])
def test_next_states_are_marked_in_several_ways(tmp_path: Path, mark: str) -> None:
    header = f"x,y,u,{mark.format('x')},{mark.format('y')}"
    assert rows_of(read_text(tmp_path, f"{header}\n1,2,3,4,5\n6,7,8,9,10\n"))[1] == [6, 7, 8, 9, 10]


def test_a_state_whose_own_name_looks_like_a_next_state_is_itself(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("goal,next_goal,u\n1,2,3\n4,5,6\n")
    found = read_transitions(path, ("goal", "next_goal"), ("u",))
    assert found.next_states.tolist() == [[4, 5]]


@pytest.mark.parametrize(
    "spelling", ["level[a]", " Level[A] ", "level___a", "LEVEL[ a ]", "level(a)", "level (a)", "\ufefflevel[a]"]
)
def test_names_are_found_in_other_spellings(tmp_path: Path, spelling: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f'"{spelling}",SPEED,push___a__b\n1,2,3\n4,5,6\n', encoding="utf-8")
    assert read_transitions(path, STATES, ACTIONS).next_states.tolist() == [[4, 5]]


def test_exact_names_come_before_other_spellings(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("X,x,u\n1,2,3\n4,5,6\n")
    assert read_transitions(path, ("x",), ("u",)).states.tolist() == [[2]]
    assert read_transitions(path, ("X", "x"), ("u",)).states.tolist() == [[1, 2]]


@quick
@given(name=words, objects=st.lists(words))
def test_brackets_undo_the_grounding_of_pyrddlgym(name: str, objects: list[str]) -> None:
    grounded = f"{name}___{'__'.join(objects)}" if objects else name
    assert bracket_name(grounded) == (f"{name}[{','.join(objects)}]" if objects else name)
    assert plain_name(grounded.upper()) == bracket_name(grounded)
    assert next_state_base(f"{grounded}'") == grounded


@quick
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), seed=st.integers(0, 1000))
def test_derived_next_states_are_those_of_the_following_row(tmp_path: Path, lengths: list[int], seed: int) -> None:
    """Rows in any order: states and actions of every step, and a last row whose action nobody needs."""
    full = episodes_of(lengths, seed)
    rng = np.random.default_rng(seed)
    rows = [
        f"{e},{t},{s[0]!r},{s[1]!r},{a[0]!r}"
        for e, t, s, a in zip(full.episode, full.step, full.states.tolist(), full.actions.tolist(), strict=True)
    ]
    for number, length in enumerate(lengths):
        last = full.next_states[np.flatnonzero(full.episode == number)[-1]].tolist()
        rows.append(f"{number},{length},{last[0]!r},{last[1]!r},")
    shuffled = [rows[i] for i in rng.permutation(len(rows))]
    path = tmp_path / "data.csv"
    path.write_text('episode,step,level[a],speed,"push[a,b]"\n' + "\n".join(shuffled))
    found = read_transitions(path, STATES, ACTIONS)
    order = np.lexsort((found.step, found.episode))
    assert same(found.select(order), full)


def test_a_gap_in_the_steps_is_never_paired(tmp_path: Path) -> None:
    found = read_text(tmp_path, "step,x,y,u\n0,1,1,1\n1,2,2,2\n3,3,3,3\n4,4,4,4\n")
    assert rows_of(found) == [[1, 1, 1, 2, 2], [3, 3, 3, 4, 4]]


def test_without_an_episode_column_a_step_that_does_not_grow_starts_another(tmp_path: Path) -> None:
    found = read_text(tmp_path, "step,x,y,u\n0,1,1,1\n1,2,2,2\n0,3,3,3\n1,4,4,4\n")
    assert found.episode.tolist() == [0, 1]
    assert rows_of(found) == [[1, 1, 1, 2, 2], [3, 3, 3, 4, 4]]


def test_without_a_step_column_the_rows_of_an_episode_count_up(tmp_path: Path) -> None:
    found = read_text(tmp_path, "episode,x,y,u\n7,1,1,1\n9,5,5,5\n7,2,2,2\n9,6,6,6\n7,3,3,3\n")
    assert rows_of(found) == [[1, 1, 1, 2, 2], [5, 5, 5, 6, 6], [2, 2, 2, 3, 3]]
    assert found.step.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "text",
    [
        "x;y;u\n1,5;2;-3e-1\n4;5,25;6\n",
        "\ufeffx;y;u\r\n1,5;2;-3e-1\r\n4;5,25;6\r\n;;\r\n;;\r\n\r\n",
        "x\ty\tu\n1,5\t2\t-0,3\n4\t5,25\t6\n",
        '"x";"y";"u"\n"1,5";"2";"-0,3"\n"4";"5,25";"6"\n',
        '"x","y","u"\n"1.5","2","-0.3"\n"4","5.25","6"\n',
        "sep=;\nx;y;u\n1,5;2;-0,3\n4;5,25;6\n",
        "x;y;u;\n1,5;2;-0,3;\n4;5,25;6;\n",
        "\n\nx,y,u\n1.5,2,-0.3\n4,5.25,6",
        "x,y,u\r1.5,2,-0.3\r4,5.25,6\r",
        "x , y , u\n 1.5 , 2 , -0.3\n 4 , 5.25 , 6\n",
        'x,y,u,remark\n1.5,2,-0.3,"two\nlines, and a comma"\n4,5.25,6,\n',
        "date;x;y;u\n01.03.2024;1,5;2;-0,3\n02.03.2024;4;5,25;6\n",
        "remark;x;y;u\nwarm, dry;1.5;2;-0.3\ncold, wet;4;5.25;6\n",
        'remark;x;y;u\n"warm, dry";1.5;2;-0.3\n"cold, wet";4;5.25;6\n',
    ],
)
def test_spreadsheets_just_work(tmp_path: Path, text: str) -> None:
    assert rows_of(read_text(tmp_path, text)) == [[1.5, 2.0, -0.3, 4.0, 5.25]]


def test_other_encodings_of_spreadsheets_just_work(tmp_path: Path) -> None:
    text = "x;y;u;Temperatur °C\n1,5;2;3;a\n4;5;6;b\n"
    for encoding in ("utf-16", "cp1252"):
        assert rows_of(read_text(tmp_path, text.encode(encoding))) == [[1.5, 2, 3, 4, 5]]


def test_commas_in_brackets_do_not_end_a_name(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    for header in ("level[a],speed,push[a,b]", "level[a];speed;push[a,b]"):
        path.write_text(f"{header}\n" + "1,2,3\n4,5,6\n".replace(",", header[8]))
        assert read_transitions(path, STATES, ACTIONS).actions.tolist() == [[3]]


def test_truth_values_are_numbers(tmp_path: Path) -> None:
    assert rows_of(read_text(tmp_path, "x,y,u\n1,True,false\n2,FALSE,true\n")) == [[1, 1, 0, 2, 0]]


def test_files_are_put_together_and_episodes_kept_apart(tmp_path: Path) -> None:
    original = episodes_of([3, 2])
    paths = [tmp_path / f"part.{ending}" for ending in ENDINGS]
    for path in paths:
        write(original, path)
    found = read_transitions(paths, STATES, ACTIONS)
    assert len(found) == 15
    assert found.episode.tolist() == [e + 2 * part for part in range(3) for e in original.episode.tolist()]


def test_an_npz_file_of_columns_is_read(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, allow_pickle=False, x=np.arange(3), y=np.ones(3), u=np.array([True, False, True]))
    assert rows_of(read_transitions(path, ("x", "y"), ("u",))) == [[0, 1, 1, 1, 1], [1, 1, 0, 2, 1]]


LOG_BANNER = f"{'#' * 54}\nNew Trial\n{'#' * 54}\n"


def test_logs_of_pyrddlgym_pair_an_action_with_the_state_that_it_was_taken_in(tmp_path: Path) -> None:
    """The log writes s_{t+1} beside a_t, so a row's state belongs to the next row's action."""
    header = "timestamp,iteration,epoch,x,y,u,reward,done\n"
    text = (
        f"{LOG_BANNER}{header}2026-01-01 10:00:00.1,0,0,1.0,1.5,10.0,0.0,False\nt,1,1,2.0,2.5,11.0,0.0,False\n"
        f"t,2,2,3.0,3.5,12.0,0.0,True\n{LOG_BANNER}t,3,0,4.0,4.5,13.0,0.0,False\n{LOG_BANNER}"
        f"t,4,0,5.0,5.5,14.0,0.0,False\n{LOG_BANNER}{header}t,0,0,6.0,6.5,15.0,0.0,False\nt,1,1,7.0,7.5,16.0,0.0,False\n"
    )
    found = read_text(tmp_path, text)
    assert rows_of(found) == [[1, 1.5, 11, 2, 2.5], [2, 2.5, 12, 3, 3.5], [6, 6.5, 16, 7, 7.5]]
    assert found.step.tolist() == [1, 2, 1]
    assert len(set(found.episode.tolist())) == 2


FAULTS = {
    "x,y\n1,2\n3,4\n": ["the column 'u' is missing"],
    "x,y,U2\n1,2,3\n3,4,5\n": ["the column 'u' is missing"],
    "x,y,u\n1,2,3\n1,two,3\n": ["line 3", "column 'y'", "'two'"],
    "x;y;u\n1,5;2;1.234,5\n1;2;3\n": ["line 2", "column 'u'", "'1.234,5'", "thousands separators"],
    "x;y;u\n1,5;2;3\n1;2;1.234\n": ["line 3", "column 'u'", "'1.234'", "thousands separators"],
    'x,y,u\n1,2,3\n1,2,"3,5"\n': ["line 3", "column 'u'", "'3,5'", "decimal comma", "semicolons"],
    "x,y,u\n1,2,3\n1,,3\n1,2,3\n": ["line 3", "column 'y'", "empty"],
    "x,y,u\n1,2,3\n1,2,3\nnan,2,3\n": ["line 4", "column 'x'"],
    "x,y,u\n1,2,inf\n1,2,3\n": ["line 2", "column 'u'", "inf"],
    "": ["is empty"],
    "  \n\n": ["is empty"],
    "x,y,u\n": ["no rows"],
    "x,y,u\n\n,,\n": ["no rows"],
    "x,y,u\n1,2,3\n": ["single row"],
    "x,y,u,x\n1,2,3,4\n1,2,3,4\n": ["two columns are named 'x'"],
    "x,y,u\n1,2,3,4\n1,2,3,4\n": ["line 2", "4 cells", "3 columns", "semicolons"],
    "x,y,u\n1,2\n1,2\n": ["line 2", "2 cells"],
    "x,y,u,x'\n1,2,3,4\n1,2,3,4\n": ['"y\'" is missing'],
    "x,y,u\n1,2,3\n\n1,2,3\n": ["line 3 is empty"],
    "step,x,y,u\n1,1,2,3\n3,1,2,3\n": ["no two rows follow"],
    "episode,step,x,y,u\n0,1,1,2,3\n0,1,1,2,3\n0,2,1,2,3\n": ["line 3", "more than once"],
    "step,x,y,u\n1.5,1,2,3\n3,1,2,3\n": ["line 2", "column 'step'", "whole number"],
    "1,2,3\n4,5,6\n7,8,9\n": ["names of the variables"],
    "XX,y,u\n1,1,2\n1,1,2\n": ["'x' is missing"],
    "\0\1\2\0": ["not a text file"],
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_is_told_with_its_file_place_and_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_text(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'data.csv'}: ")
    for word in FAULTS[text]:
        assert word in str(caught.value)


def test_two_spellings_of_one_name_are_not_guessed_between(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text('Level[a],level___a,speed,"push[a,b]"\n1,2,3,4\n4,5,6,7\n')
    with pytest.raises(InputError, match=r"which column holds level\[a\]\? These all could: 'Level\[a\]', 'level___a'"):
        read_transitions(path, STATES, ACTIONS)


def test_the_nearest_column_is_suggested(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("levels[a],speed,push___a__b\n1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match=r"'level\[a\]' is missing \(did you mean 'levels\[a\]'\?\)"):
        read_transitions(path, STATES, ACTIONS)


def test_line_numbers_count_what_the_user_sees(tmp_path: Path) -> None:
    for text in ('sep=,\nx,y,u,n\n1,2,3,"a\nb"\n1,2,3,\n1,bad,3,\n', "\n\nx,y,u\n1,2,3\n\n1,bad,3\n"):
        with pytest.raises(InputError, match="line 6, column 'y'"):
            read_text(tmp_path, text)


@pytest.mark.parametrize(("ending", "content"), [("npz", b""), ("npz", b"nonsense"), ("parquet", b"nonsense")])
def test_broken_files_are_bad_input(tmp_path: Path, ending: str, content: bytes) -> None:
    with pytest.raises(InputError, match="cannot be read as"):
        read_text(tmp_path, content, f"data.{ending}")


def test_nothing_in_an_npz_file_is_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, allow_pickle=True, x=np.array([{"a": 1}, None], dtype=object))
    with pytest.raises(InputError, match="pickled"):
        read_transitions(path, ("x",), ())


def test_arrays_of_an_npz_file_must_fit_together(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, allow_pickle=False, x=np.ones(3), y=np.ones(2), u=np.ones(3))
    with pytest.raises(InputError, match="different lengths"):
        read_transitions(path, ("x", "y"), ("u",))
    np.savez(path, allow_pickle=False, x=np.ones((3, 2)), y=np.ones(3), u=np.ones(3))
    with pytest.raises(InputError, match="one number per row"):
        read_transitions(path, ("x", "y"), ("u",))
    np.savez(path, allow_pickle=False, states=np.ones((3, 2)))
    with pytest.raises(InputError, match="state_names"):
        read_transitions(path, ("x", "y"), ("u",))


def test_text_in_a_parquet_column_is_told(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "data.parquet"
    parquet.write_table(pyarrow.table({"x": ["a", "b"], "y": [1, 2], "u": [1.0, None]}), path)
    with pytest.raises(InputError, match=r"column 'x': expected numbers.*'a'"):
        read_transitions(path, ("x",), ("y",))
    with pytest.raises(InputError, match="row 2, column 'u'"):
        read_transitions(path, ("u",), ("y",))


def test_missing_files_and_unknown_endings_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such data file"):
        read_transitions(tmp_path / "none.csv", ("x",), ())
    with pytest.raises(InputError, match="save a sheet as CSV"):
        read_transitions(tmp_path / "data.xlsx", ("x",), ())
    with pytest.raises(InputError, match="no data file"):
        read_transitions([], ("x",), ())
    with pytest.raises(InputError, match="end in"):
        write(episodes_of([2]), tmp_path / "data.xlsx")


def test_files_with_different_columns_are_not_mixed(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("episode,x,y,u\n0,1,2,3\n0,1,2,3\n")
    two.write_text("x,y,u\n1,2,3\n1,2,3\n")
    with pytest.raises(InputError, match=r"two\.csv: has no column for 'episode', but .*one\.csv has"):
        read_transitions([one, two], ("x", "y"), ("u",))
    two.write_text("episode,x,u\n0,1,3\n0,1,3\n")
    with pytest.raises(InputError, match=r"two\.csv: the column 'y' is missing"):
        read_transitions([one, two], ("x", "y"), ("u",))


BOXES = (
    Variable("level[a]", "continuous", 0.0, 10.0),
    Variable("speed"),
    Variable("push[a,b]", "integer", 0.0, 3.0),
)


def test_bounds_that_exclude_data_are_told_with_row_value_and_bounds() -> None:
    data = transitions([[0, 5], [10 + 5e-6, 1], [11, 2]], [[0], [1], [2]], [[99, 0]] * 3, [4, 4, 4], [0, 1, 2])
    with pytest.raises(
        InputError, match=r"my\.csv: row 3 .*step 2.*'level\[a\]': 11 lies outside the bounds \[0, 10\]"
    ):
        require_inside_bounds(data, BOXES, "my.csv")
    require_inside_bounds(data.select(np.array([0, 1])), BOXES)


def test_bounds_that_exclude_data_are_told_with_file_line_and_column(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("x,y,u\n1,2,0\n3,4,0\n")
    bad.write_text("x,y,u\n1,2,0\n3,4,7\n3,4,0\n")
    boxes = [Variable("x"), Variable("y"), Variable("u", "continuous", 0.0, 5.0)]
    with pytest.raises(InputError, match=r"bad\.csv: line 3, column 'u': 7 lies outside the bounds \[0, 5\]"):
        read_transitions([good, bad], ("x", "y"), ("u",), boxes)
    log = tmp_path / "log.csv"
    rows = "t,0,0,1,9,0,0,False\nt,1,1,2,3,6,0,False\nt,2,2,3,3,0,0,True\n"
    log.write_text(f"{LOG_BANNER}timestamp,iteration,epoch,x,y,u,reward,done\n{rows}")
    with pytest.raises(InputError, match=r"log\.csv: line 6, column 'u': 6 lies"):  # beside the state after it
        read_transitions(log, ("x", "y"), ("u",), boxes)
    with pytest.raises(InputError, match=r"log\.csv: line 5, column 'y': 9 lies"):
        read_transitions(log, ("x", "y"), ("u",), [Variable("y", "continuous", 0.0, 5.0)])


@quick
@given(data=some_transitions())
def test_data_are_inside_bounds_made_from_them(data: Transitions) -> None:
    table = np.hstack([data.states, data.actions])
    names = (*STATES, *ACTIONS)
    boxes = [
        Variable(name, "continuous", float(low), float(high))
        for name, low, high in zip(names, table.min(axis=0), table.max(axis=0), strict=True)
    ]
    require_inside_bounds(data, boxes)
    report = data_report(data, boxes)
    assert not {name: count for name, count in report.outside.items() if not name.endswith("'")}
    assert report.rows == len(data)


def test_the_report_counts_what_there_is() -> None:
    data = transitions([[0, 1], [10, 1], [0, 1], [12, 1]], [[0], [1], [0], [1]], [[1, 1]] * 4, [0, 0, 1, 1])
    report = data_report(data, BOXES)
    assert (report.rows, report.episodes, report.missing, report.duplicate_rows) == (4, 2, 0, 1)
    assert report.constant_columns == ("speed",)
    assert report.outside == {"level[a]": 1}
    by_name = {(c.name, c.role): c for c in report.coverage}
    assert by_name["level[a]", "state"].covered == pytest.approx(2 / 20)
    assert by_name["push[a,b]", "action"].covered == pytest.approx(2 / 4)
    assert by_name["speed", "state"].covered is None
    assert json.loads(report.to_json())["coverage"][0]["maximum"] == 12
    console = Console(record=True, width=100, markup=False)
    print_data(report, console)
    text = console.export_text()
    assert "speed never changes" in text
    assert "1 value(s) of level[a] lie outside" in text
    assert "10% (sparse)" in text


@quick
@given(values=hnp.arrays(np.float64, st.integers(2, 50), elements=st.floats(0.0, 10.0)))
def test_coverage_is_the_share_of_parts_with_data(values: Any) -> None:
    data = transitions(np.column_stack([values, values]), values, np.column_stack([values, values]))
    covered = data_report(data, BOXES).coverage[0].covered
    assert covered == len({min(int(value / 0.5), 19) for value in values}) / 20


def test_transitions_of_different_variables_are_not_put_together() -> None:
    one = episodes_of([2])
    with pytest.raises(InputError, match="different variables"):
        concatenate([one, replace(one, action_names=("other",))])


def test_many_rows_are_read_by_numpy_as_by_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core reads CSV without pyarrow, to the same bits."""
    import sys

    original = episodes_of([2000])
    write(original, tmp_path / "data.csv")
    with_arrow = read_transitions(tmp_path / "data.csv", STATES, ACTIONS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    without = read_transitions(tmp_path / "data.csv", STATES, ACTIONS)
    assert same(with_arrow, original)
    assert same(without, original)
    with pytest.raises(InputError, match=r"pip install 'reluplan\[parquet\]'"):
        write(original, tmp_path / "data.parquet")
    assert not (tmp_path / "data.parquet").exists()
