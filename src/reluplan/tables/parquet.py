"""Parquet files, by pyarrow."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError, MissingExtraError
from reluplan.tables.array_table import ArrayTable
from reluplan.tables.table import check_header


def open_parquet(path: Path) -> ArrayTable:
    """The columns of a Parquet file; missing values read as NaN."""
    parquet = require_parquet()
    try:
        table = parquet.read_table(path)
    except Exception as error:  # pyarrow's errors share no base
        raise InputError(f"{path}: cannot be read as Parquet ({_first_line(error)})") from None
    check_header(path, table.column_names)
    try:
        arrays = tuple(column.to_numpy() for column in table.columns)
    except Exception as error:  # a column of some type that is no array
        raise InputError(f"{path}: has a column that is not of numbers ({_first_line(error)})") from None
    return ArrayTable(path, tuple(name.strip() for name in table.column_names), arrays)


def parquet_bytes(names: Sequence[str], columns: Sequence[NDArray[Any]]) -> bytes:
    """The content of a Parquet file with these columns."""
    parquet = require_parquet()
    import pyarrow

    buffer = io.BytesIO()
    table = pyarrow.table([pyarrow.array(np.ascontiguousarray(column)) for column in columns], names=list(names))
    parquet.write_table(table, buffer)
    return buffer.getvalue()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def require_parquet() -> Any:
    """pyarrow's module for Parquet; complains if it is not installed."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "Parquet data") from None
    return parquet
