"""Tables whose columns are arrays already: Parquet and NPZ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.tables.table import check_header
from reluplan.tables.time_stamps import seconds_of_array
from reluplan.wording import shortened

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ArrayTable:
    """Named columns of equal length."""

    path: Path
    columns: tuple[str, ...]
    arrays: tuple[NDArray[Any], ...]
    logs_outcomes: bool = False

    @classmethod
    def of(cls, columns: Any) -> ArrayTable:
        """Columns in memory: a dict of arrays, or a data frame of pandas or polars."""
        names = list(columns.keys() if hasattr(columns, "keys") else columns.columns)
        arrays = tuple(np.asarray(columns[name]) for name in names)
        path, texts = Path("the data"), tuple(map(str, names))
        check_header(path, texts)
        if any(array.ndim != 1 for array in arrays) or len({len(array) for array in arrays}) > 1:
            raise InputError(f"{path}: expected columns of equal length, one number in each row")
        return cls(path, texts, arrays)

    @property
    def row_count(self) -> int:
        return len(self.arrays[0]) if self.arrays else 0

    def numbers(self, columns: Sequence[int]) -> Array:
        """The values of some columns as float64."""
        return np.column_stack([self._column(at) for at in columns]) if columns else np.empty((self.row_count, 0))

    def _column(self, at: int) -> Array:
        values = self.arrays[at]
        if values.dtype.kind not in "fiub":
            example = f" such as {shortened(str(values[0]))!r}" if len(values) else ""
            raise InputError(
                f"{self.path}: column '{shortened(self.columns[at])}': expected numbers, got {values.dtype}{example}"
            )
        with np.errstate(over="ignore"):  # an infinity is reported, with its place, by those who need it finite
            return values.astype(np.float64)

    def where(self, row: int) -> str:
        return f"row {row + 1}"

    def stamps(self, column: int) -> Array | None:
        return seconds_of_array(self.arrays[column])

    def gap(self) -> str | None:
        return None
