"""Writing transitions, so that reading them gives the same numbers."""

from __future__ import annotations

from pathlib import Path

from reluplan.data.formats import check_data_ending, content_of
from reluplan.data.transitions import Transitions
from reluplan.files import write_atomically


def write_transitions(transitions: Transitions, path: str | Path) -> None:
    """Write a data file (CSV, Parquet, NPZ, or what was registered); its ending decides the format."""
    path = Path(path)
    check_data_ending(path)
    write_atomically(path, content_of(transitions, path))
