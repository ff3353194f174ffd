"""Time stamps of rows as seconds: ISO 8601, day.month.year, or dates of Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PATTERNS = ("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S")
"""Beside ISO 8601. Month and day in the other order mean two things, and are not read."""


def seconds_of_texts(texts: Sequence[str]) -> Array | None:
    """Seconds since some moment; None unless every text is a time. With an offset (+01:00, Z) they are true times,
    without one those of a clock that may have been changed."""
    for read in (datetime.fromisoformat, *(_by(pattern) for pattern in PATTERNS)):
        try:
            times = [read(text.strip()) for text in texts]
        except ValueError:
            continue
        aware = [time.tzinfo is not None for time in times]
        if all(aware) or not any(aware):
            return np.array([(time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() for time in times])
    return None


def seconds_of_array(values: NDArray[np.generic]) -> Array | None:
    """The same for a column that is an array already."""
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[ns]").astype(np.int64).astype(np.float64) / 1e9
        return np.where(np.isnat(values), np.nan, seconds)
    if values.dtype.kind in "OU":
        return seconds_of_texts([str(value) for value in values])
    return None


def _by(pattern: str) -> Callable[[str], datetime]:
    return lambda text: datetime.strptime(text, pattern)


def shown_time(seconds: float, is_number: bool) -> str:
    """A moment as an error names it."""
    if is_number:
        return f"{seconds:g}"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00")


def shown_span(seconds: float) -> str:
    """A span of time: 15 min, 1 h, 2.5 s.

    >>> shown_span(900.0), shown_span(3600.0), shown_span(2.5), shown_span(172800.0)
    ('15 min', '1 h', '2.5 s', '2 d')
    """
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= size and seconds % size == 0.0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
