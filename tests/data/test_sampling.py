"""Time stamps: which rows follow each other, and what is said where they do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from reluplan.data import Transitions, read_transitions
from reluplan.errors import InputError
from reluplan.tables.time_stamps import seconds_of_texts

BERLIN = ZoneInfo("Europe/Berlin")


def stamps(start: datetime, minutes: int, count: int, zone: ZoneInfo | None = None) -> list[datetime]:
    times = [start + timedelta(minutes=minutes * i) for i in range(count)]
    return [time.astimezone(zone) for time in times] if zone else times


def read(tmp_path: Path, times: list[str], header: str = "timestamp", before: str = "") -> Transitions:
    """Rows with a state that counts them, so that x' − x tells which rows were paired."""
    lines = [f"{before and before.split('=')[0] + ','}{header},x,a"]
    lines += [f"{before and before.split('=')[1] + ','}{time},{row},0" for row, time in enumerate(times)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    return read_transitions(tmp_path / "log.csv", ["x"], ["a"])


def pairs(found: Transitions) -> list[int]:
    np.testing.assert_array_equal(found.next_states, found.states + 1.0)
    return [int(value) for value in found.states[:, 0]]


START = datetime(2024, 3, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    "pattern",
    ["%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S+01:00"],
)
def test_a_gap_pairs_nothing(tmp_path: Path, pattern: str) -> None:
    times = stamps(START, 15, 20) + stamps(START + timedelta(hours=9), 15, 20)
    found = read(tmp_path, [time.strftime(pattern) for time in times])
    assert pairs(found) == [*range(19), *range(20, 39)]
    assert found.dropped == {"the next time stamp is not 15 min later (first: before line 22)": 1}


def test_numbers_are_time_stamps_too(tmp_path: Path) -> None:
    found = read(tmp_path, [f"{value}" for value in (*np.arange(0, 5, 0.5), *np.arange(20, 25, 0.5))], "time")
    assert pairs(found) == [*range(9), *range(10, 19)]
    restarted = read(tmp_path, [f"{value}" for value in (*range(10), *range(10))], "time")
    assert pairs(restarted) == [*range(9), *range(10, 19)]


@pytest.mark.parametrize("minutes", [15, 60])
@pytest.mark.parametrize(("month", "day"), [(3, 31), (10, 27)])
def test_days_of_23_and_25_hours_have_no_gap(tmp_path: Path, minutes: int, month: int, day: int) -> None:
    """A clock on the wall: an hour is missing in spring, another comes twice in autumn."""
    local = stamps(datetime(2024, month, day - 1, 12, tzinfo=UTC), minutes, 24 * 60 // minutes, BERLIN)
    found = read(tmp_path, [time.strftime("%Y-%m-%d %H:%M") for time in local])
    assert pairs(found) == list(range(len(local) - 1))
    assert found.dropped == {}
    with_offset = read(tmp_path, [time.isoformat() for time in local])
    assert pairs(with_offset) == list(range(len(local) - 1))


def test_an_hour_that_is_missing_on_another_day_is_a_gap(tmp_path: Path) -> None:
    times = stamps(datetime(2024, 6, 2, tzinfo=UTC), 15, 8) + stamps(datetime(2024, 6, 2, 3, tzinfo=UTC), 15, 30)
    found = read(tmp_path, [time.strftime("%Y-%m-%d %H:%M") for time in times])
    assert pairs(found) == [*range(7), *range(8, 37)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda times: [*times[:5], times[4], *times[5:]],
            "line 6 and line 7 have the same time stamp, 2024-03-04 01:00",
        ),
        (lambda times: [*times[:5], "", *times[6:]], "line 7: the time stamp is missing"),
        (
            lambda times: [*times, *(f"2024-03-05 {hour:02}:00" for hour in range(10))],
            "most rows are 15 min apart, but line 31 and line 32 are 1005 min apart",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, change: object, message: str) -> None:
    times = [time.strftime("%Y-%m-%d %H:%M") for time in stamps(START, 15, 30)]
    with pytest.raises(InputError) as raised:
        read(tmp_path, change(times))  # type: ignore[operator]
    assert message in str(raised.value)


def test_days_and_remarks_are_no_time_stamps(tmp_path: Path) -> None:
    """A column of dates beside many rows a day, of words, or of a variable says nothing of the order."""
    for times in (["2024-03-04"] * 10 + ["2024-03-05"] * 10, ["Monday"] * 20, ["03/04/2024 12:00"] * 20):
        assert pairs(read(tmp_path, times, "date")) == list(range(19))
    (tmp_path / "log.csv").write_text("time,x,a\n" + "".join(f"{row % 7},{row},0\n" for row in range(20)))
    assert len(read_transitions(tmp_path / "log.csv", ["x", "time"], ["a"])) == 19


def test_episodes_and_steps_come_first(tmp_path: Path) -> None:
    times = [time.strftime("%Y-%m-%d %H:%M") for time in stamps(START, 15, 10)]
    gap = [*times, *(time.replace("-04", "-06") for time in times)]
    assert pairs(read(tmp_path, gap, before="episode=3")) == [*range(9), *range(10, 19)]
    lines = ["step,timestamp,x,a", *(f"{row},{time},{row},0" for row, time in enumerate(gap))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    assert len(read_transitions(tmp_path / "log.csv", ["x"], ["a"])) == 19


def test_times_of_parquet_files(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    times = [*stamps(START, 15, 10), *stamps(START + timedelta(days=2), 15, 10)]
    table = pyarrow.table({"datetime": times, "x": np.arange(20.0), "a": np.zeros(20)})
    parquet.write_table(table, tmp_path / "log.parquet")
    assert pairs(read_transitions(tmp_path / "log.parquet", ["x"], ["a"])) == [*range(9), *range(10, 19)]


def test_texts_of_several_kinds_are_no_times() -> None:
    assert seconds_of_texts(["2024-03-04", "2024-03-04T00:00Z"]) is None
    assert seconds_of_texts(["2024-03-04", "4.3.2024 10:00"]) is None
    found = seconds_of_texts(["1970-01-01T01:00+01:00", "1970-01-01 00:00Z"])
    assert found is not None
    np.testing.assert_array_equal(found, [0.0, 0.0])
