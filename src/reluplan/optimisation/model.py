"""A mixed-integer linear program as plain sparse arrays, and a builder that appends blocks to one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from reluplan import clock

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Name = str | Callable[..., str]
"""What a block of columns or rows is called: a word that gets counted, or a function of the position in the block."""
INTEGER_SLACK = 1e-6
"""A bound that misses an integer by no more than this is meant to be it."""
Scalar = TypeVar("Scalar", bound=np.generic)

ENTRY_OPERATIONS = 300.0
"""What an entry of the matrix costs when it is added, and again when the model is put together and handed over."""


@dataclass(frozen=True, eq=False)
class Model:
    """maximise objective @ x + offset  subject to  row_lower <= matrix @ x <= row_upper,
    column_lower <= x <= column_upper, x_j integer where integer[j].

    Absent sides are -inf and +inf. Names are optional; they matter for export only. The bounds of integer columns are
    moved to integers, which changes no solution: for x in [0, 0.52], integer, the presolve of HiGHS 1.15 may find that
    a model with a solution at x = 0 is infeasible.
    """

    objective: Array
    offset: float
    matrix: sparse.csr_array
    row_lower: Array
    row_upper: Array
    column_lower: Array
    column_upper: Array
    integer: NDArray[np.bool_]
    column_names: tuple[str, ...] | None = None
    row_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        lower, upper = integer_bounds(self.column_lower, self.column_upper, self.integer)
        object.__setattr__(self, "column_lower", lower)
        object.__setattr__(self, "column_upper", upper)

    @property
    def column_count(self) -> int:
        return len(self.objective)

    @property
    def row_count(self) -> int:
        return len(self.row_lower)

    def relaxed(self) -> Model:
        """The same without integrality."""
        return replace(self, integer=np.zeros_like(self.integer))

    def value(self, x: Array) -> float:
        """The objective at x."""
        return float(self.objective @ x) + self.offset

    def violation(self, x: Array) -> float:
        """The largest violation of a row, a bound or an integrality at x."""
        activity = self.matrix @ x
        parts = [
            self.row_lower - activity,
            activity - self.row_upper,
            self.column_lower - x,
            x - self.column_upper,
            np.abs(x - np.round(x))[self.integer],
        ]
        return max((float(p.max()) for p in parts if p.size), default=0.0)


def integer_bounds(lower: Array, upper: Array, integer: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Bounds with those of integer columns moved to the integers inside; one that is missed by a hair counts as inside,
    and where there is none the bounds stay as they are."""
    low, high = np.ceil(lower - INTEGER_SLACK) + 0.0, np.floor(upper + INTEGER_SLACK) + 0.0
    moved = integer & (low <= high)
    return np.where(moved, low, lower), np.where(moved, high, upper)


class ModelBuilder:
    """Collects columns and rows in blocks of numpy arrays; `build` turns them into a Model at the end.

    named: also keep a name for every column and row (for export; costs time on long horizons).
    """

    def __init__(self, named: bool = False) -> None:
        self._names: tuple[list[str], list[str]] | None = ([], []) if named else None
        self._lower: list[Array] = []
        self._upper: list[Array] = []
        self._integer: list[NDArray[np.bool_]] = []
        self._cost_columns: list[Index] = []
        self._cost_values: list[Array] = []
        self._row_lower: list[Array] = []
        self._row_upper: list[Array] = []
        self._entry_rows: list[Index] = []
        self._entry_columns: list[Index] = []
        self._entry_values: list[Array] = []
        self.offset = 0.0
        self.column_count = 0
        self.row_count = 0
        self.entry_count = 0

    @classmethod
    def continuing(cls, model: Model) -> ModelBuilder:
        """A builder that begins with all of a model but its names."""
        builder = cls()
        builder.append(model)
        return builder

    def append(self, model: Model, factor: float = 1.0) -> Index:
        """Append all of a model but its names, its objective times a factor; returns the indices of its columns."""
        columns = self.add_columns(model.column_lower, model.column_upper, model.integer)
        rows = self.add_rows(model.row_lower, model.row_upper)
        entries = model.matrix.tocoo()
        self.add_entries(rows[entries.row], columns[entries.col], entries.data)
        self.add_cost(columns, factor * model.objective)
        self.offset += factor * model.offset
        return columns

    def add_columns(self, lower: ArrayLike, upper: ArrayLike, integer: ArrayLike = False, name: Name = "x") -> Index:
        """Append columns with these bounds (arrays of one shape); returns their indices in that shape."""
        low, high = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
        self._lower.append(low.ravel())
        self._upper.append(high.ravel())
        self._integer.append(np.broadcast_to(np.asarray(integer, dtype=bool), low.shape).ravel())
        indices = np.arange(self.column_count, self.column_count + low.size, dtype=np.int64)
        self.column_count += low.size
        if self._names is not None:
            self._names[0].extend(_block_names(name, low.shape))
        return indices.reshape(low.shape)

    def add_rows(self, lower: ArrayLike, upper: ArrayLike, name: Name = "row") -> Index:
        """Append empty rows with these sides; fill them with `add_entries`."""
        low, high = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
        self._row_lower.append(low.ravel())
        self._row_upper.append(high.ravel())
        indices = np.arange(self.row_count, self.row_count + low.size, dtype=np.int64)
        self.row_count += low.size
        if self._names is not None:
            self._names[1].extend(_block_names(name, low.shape))
        return indices.reshape(low.shape)

    def add_entries(self, rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> None:
        """Add values at (row, column), the three broadcast against each other; repeats add up."""
        r, c, v = np.broadcast_arrays(np.asarray(rows), np.asarray(columns), np.asarray(values, dtype=np.float64))
        keep = v != 0.0
        self._entry_rows.append(r[keep].astype(np.int64, copy=False))
        self._entry_columns.append(c[keep].astype(np.int64, copy=False))
        self._entry_values.append(v[keep])
        self.entry_count += len(self._entry_values[-1])
        clock.spend(ENTRY_OPERATIONS * len(self._entry_values[-1]))

    def add_cost(self, columns: ArrayLike, values: ArrayLike) -> None:
        """Add to the objective coefficients of columns."""
        c, v = np.broadcast_arrays(np.asarray(columns), np.asarray(values, dtype=np.float64))
        self._cost_columns.append(c.ravel().astype(np.int64, copy=False))
        self._cost_values.append(v.ravel())

    def build(self) -> Model:
        """The finished model."""
        clock.spend(ENTRY_OPERATIONS * self.entry_count)
        shape = (self.row_count, self.column_count)
        places = (_join(self._entry_rows, np.int64), _join(self._entry_columns, np.int64))
        matrix = sparse.coo_array((_join(self._entry_values, np.float64), places), shape=shape).tocsr()
        matrix.sum_duplicates()
        objective = np.zeros(self.column_count)
        cost_columns = _join(self._cost_columns, np.int64)
        np.add.at(objective, cost_columns, _join(self._cost_values, np.float64))
        return Model(
            objective=objective,
            offset=self.offset,
            matrix=matrix,
            row_lower=_join(self._row_lower, np.float64),
            row_upper=_join(self._row_upper, np.float64),
            column_lower=_join(self._lower, np.float64),
            column_upper=_join(self._upper, np.float64),
            integer=_join(self._integer, np.bool_),
            column_names=tuple(unique_names(self._names[0])) if self._names else None,
            row_names=tuple(unique_names(self._names[1])) if self._names else None,
        )


def _block_names(name: Name, shape: tuple[int, ...]) -> list[str]:
    """The names of a block; a word becomes word_1, word_2, ... counted along each axis."""
    if callable(name):
        return [name(*index) for index in np.ndindex(shape)]
    return [f"{name}{''.join(f'_{i + 1}' for i in index)}" for index in np.ndindex(shape)]


def unique_names(names: list[str]) -> list[str]:
    """Equal names (blocks of one a step, say) are told apart by a running number."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        count = seen[name] = seen.get(name, 0) + 1
        result.append(name if count == 1 else f"{name}#{count}")
    return result


def _join(parts: list[NDArray[Scalar]], dtype: type[Scalar]) -> NDArray[Scalar]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)
