"""What time stamps say of rows: which follow each other, and where time stands still, jumps or is set back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.tables.time_stamps import shown_span, shown_time

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

HOUR = 3_600.0
SAME = 1e-3
"""Relative to the interval: stamps are rounded."""
REGULAR = 0.9
"""Share of the pairs of rows that must be one interval apart."""
CLOCK_CHANGES = (3, 4, 9, 10, 11)
"""Months in which clocks are set forward or back, on a Sunday before four o'clock."""


@dataclass(frozen=True, eq=False)
class Sampling:
    """interval: in seconds. follows (N,): whether a row is one interval behind the row before it. jumps: rows of an
    episode before which time is missing or goes back."""

    interval: float
    follows: Mask
    jumps: Index


def sampling(
    seconds: Array, episode: Index | None, is_number: bool, where: Callable[[int], str], source: str
) -> Sampling | None:
    """What the stamps of rows say; None if they are none: most rows have that of the row before, as days have.

    InputError for two rows of an episode with one stamp, for a missing one, and where there is no common interval.
    """
    same_episode = np.ones(len(seconds) - 1, dtype=bool) if episode is None else np.diff(episode) == 0
    spans = np.diff(seconds)
    if not (spans[same_episode] > 0.0).any() or (spans[same_episode] == 0.0).mean() > 0.5:
        return None
    if len(missing := np.flatnonzero(~np.isfinite(seconds))):
        raise InputError(f"{source}: {where(int(missing[0]))}: the time stamp is missing; fill it in or delete the row")
    interval = float(np.median(spans[same_episode & (spans > 0.0)]))
    changed = same_episode & _is_clock_change(seconds, spans, interval, is_number)
    regular = same_episode & (np.abs(spans - interval) <= SAME * interval)
    for row in np.flatnonzero(same_episode & (spans == 0.0) & ~changed)[:1].tolist():
        stamp = shown_time(float(seconds[row]), is_number)
        raise InputError(
            f"{source}: {where(row)} and {where(row + 1)} have the same time stamp, {stamp}; delete one of them"
        )
    forward = same_episode & (spans > 0.0)
    if (regular | changed)[forward].mean() < REGULAR:
        row = int(np.flatnonzero(forward & ~regular & ~changed)[0])
        raise InputError(
            f"{source}: the sampling interval changes: most rows are {shown_span(interval)} apart, but "
            f"{where(row)} and {where(row + 1)} are {shown_span(float(spans[row]))} apart, and they are not alone; "
            "resample the data, or keep a part with one interval"
        )
    follows = np.concatenate([[False], regular | changed])
    jumps = 1 + np.flatnonzero(same_episode & ~regular & ~changed)
    return Sampling(interval, follows, jumps)


def _is_clock_change(seconds: Array, spans: Array, interval: float, is_number: bool) -> Mask:
    """Where a clock was set forward or back by an hour between two rows that are one interval apart."""
    off = np.abs(np.abs(spans - interval) - HOUR) <= SAME * interval
    found = np.zeros(len(spans), dtype=bool)
    for row in np.flatnonzero(off).tolist() if not is_number and interval <= HOUR else ():
        time = datetime.fromtimestamp(seconds[row + 1], UTC)
        found[row] = time.month in CLOCK_CHANGES and time.weekday() == 6 and time.hour < 4
    return found
