"""Formats of data files, by the ending of their names.

CSV, Parquet and NPZ are built in. Another is added by a call before data are read or written,

    DATA_FORMATS.register("feather", DataFormat(open_feather, feather_bytes))

or by an installed package with an entry point of that name in the group `reluplan.data_formats`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reluplan.errors import InputError
from reluplan.registry import Registry
from reluplan.tables.table import Table


@dataclass(frozen=True)
class DataFormat:
    """How files of one ending are read and written.

    open: the table of a file, which exists. content: what a file with these `Transitions` holds, so that reading it
    gives the same numbers; None if such files are only read. require: raises where a package that writing needs is
    missing, so that a command complains before its work.
    """

    open: Callable[[Path], Table]
    content: Callable[[Any], str | bytes] | None = None
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
    found = format_of(path)
    if found is None:
        *others, last = written_endings()
        raise InputError(f"{path}: data must be a file ending in {', '.join(others)} or {last}; save a sheet as CSV")
    if not path.is_file():
        raise InputError(f"{path}: no such data file")
    return found.open(path)


def written_endings() -> tuple[str, ...]:
    """The endings of files that can be written, with their dots."""
    return tuple(f".{name}" for name in DATA_FORMATS.names() if DATA_FORMATS[name].content is not None)


def format_of(path: Path) -> DataFormat | None:
    """The format that a file has by its ending; None if there is no such format."""
    ending = path.suffix.lower().removeprefix(".")
    if ending not in DATA_FORMATS:
        return None
    return DATA_FORMATS[ending]
