"""Formats of data files, by the ending of their names.

CSV, Parquet and NPZ are built in. Another is added by a call before data are read or written,

    DATA_FORMATS.register("feather", DataFormat(open_feather, feather_bytes))

or by an installed package with an entry point of that name in the group `reluplan.data_formats`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reluplan.data.table import Table
from reluplan.data.transitions import Transitions
from reluplan.errors import InputError
from reluplan.registry import Registry


@dataclass(frozen=True)
class DataFormat:
    """How files of one ending are read and written.

    open: the table of a file, which exists. content: what a file with these transitions holds, so that reading it
    gives the same numbers; None if such files are only read. require: raises where a package that writing needs is
    missing, so that a command complains before its work.
    """

    open: Callable[[Path], Table]
    content: Callable[[Transitions], str | bytes] | None = None
    require: Callable[[], object] | None = None


DATA_FORMATS: Registry[DataFormat] = Registry("data format", "reluplan.data_formats")
"""The formats, each under an ending in small letters and without its dot."""

DATA_FORMATS.register("csv", "reluplan.data.built_in:CSV")
DATA_FORMATS.register("tsv", "reluplan.data.built_in:TEXT")
DATA_FORMATS.register("txt", "reluplan.data.built_in:TEXT")
DATA_FORMATS.register("parquet", "reluplan.data.built_in:PARQUET")
DATA_FORMATS.register("npz", "reluplan.data.built_in:NPZ")


def open_table(path: Path) -> Table:
    """The table of a file; its ending decides the format."""
    found = _format(path)
    if found is None:
        *others, last = written_endings()
        raise InputError(f"{path}: data must be a file ending in {', '.join(others)} or {last}; save a sheet as CSV")
    if not path.is_file():
        raise InputError(f"{path}: no such data file")
    return found.open(path)


def content_of(transitions: Transitions, path: Path) -> str | bytes:
    """What a file with these transitions holds; its ending decides the format."""
    return _writer(path)(transitions)


def check_data_ending(path: Path) -> None:
    """Complain before the work if the file's ending is none that can be written."""
    _writer(path)
    found = _format(path)
    if found is not None and found.require is not None:
        found.require()


def written_endings() -> tuple[str, ...]:
    """The endings of files that can be written, with their dots."""
    return tuple(f".{name}" for name in DATA_FORMATS.names() if DATA_FORMATS[name].content is not None)


def _format(path: Path) -> DataFormat | None:
    ending = path.suffix.lower().removeprefix(".")
    if ending not in DATA_FORMATS:
        return None
    return DATA_FORMATS[ending]


def _writer(path: Path) -> Callable[[Transitions], str | bytes]:
    found = _format(path)
    if found is None or found.content is None:
        raise InputError(f"{path}: data files end in {', '.join(written_endings())}")
    return found.content
