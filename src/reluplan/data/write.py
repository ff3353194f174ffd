"""Writing transitions, so that reading them gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reluplan.data.transitions import Transitions
from reluplan.errors import InputError
from reluplan.files import write_atomically
from reluplan.tables.formats import format_of, written_endings


def write_transitions(transitions: Transitions, path: str | Path) -> None:
    """Write a data file (CSV, Parquet, NPZ, or what was registered); its ending decides the format."""
    path = Path(path)
    check_data_ending(path)
    write_atomically(path, _writer(path)(transitions))


def check_data_ending(path: Path) -> None:
    """Complain before the work if the file's ending is none that can be written."""
    _writer(path)
    found = format_of(path)
    if found is not None and found.require is not None:
        found.require()


def _writer(path: Path) -> Callable[[Transitions], str | bytes]:
    found = format_of(path)
    if found is None or found.content is None:
        raise InputError(f"{path}: data files end in {', '.join(written_endings())}")
    return found.content
