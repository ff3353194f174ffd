"""A data file as named columns of numbers, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.wording import shortened

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Table(Protocol):
    """Columns of one file; cells that are empty read as NaN."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in the header, in order."""
        ...

    @property
    def logs_outcomes(self) -> bool:
        """Whether a row holds the state after its action; otherwise it holds the one before."""
        ...

    @property
    def row_count(self) -> int:
        """Rows of data, the header not counted."""
        ...

    def numbers(self, columns: Sequence[int]) -> Array:
        """The values of some columns, by position, shape (rows, columns); an error names the cell that is no number."""
        ...

    def where(self, row: int) -> str:
        """How to find a row (from 0) in the file, such as `line 7`."""
        ...

    def stamps(self, column: int) -> Array | None:
        """The times of a column in seconds (`time_stamps`), NaN where there is none; None if it does not hold times."""
        ...

    def gap(self) -> str | None:
        """Where an empty line stands between rows, None if there is none."""
        ...


def no_number(value: float) -> str:
    """What is wrong with a cell that is not finite."""
    return "the cell is empty or not a number" if np.isnan(value) else f"the value is {value}"


def check_header(path: Path, columns: Sequence[str]) -> None:
    """Every column has a name of its own."""
    seen: set[str] = set()
    for name in columns:
        if name in seen and name:
            raise InputError(f"{path}: two columns are named '{shortened(name)}'; rename or delete one of them")
        seen.add(name)
