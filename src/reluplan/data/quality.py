"""What transition data cover, and what is wrong with them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions
from reluplan.errors import InputError
from reluplan.problem.problem import Variable

Array = NDArray[np.float64]
Role = Literal["state", "action", "next state"]
Where = Callable[[Role, int], str]
"""The place of a transition's state or action in its file, such as `line 7`."""

BINS = 20
"""Fine enough to show a gap in the data, coarse enough for some hundred rows to fill."""

BOUND_TOLERANCE = 1e-6
"""Values may pass a bound by this much, relative to max(1, |bound|): sensors and simulators round."""


@dataclass(frozen=True)
class Coverage:
    """The values of one column: their range, and how much of the declared range they cover.

    lower, upper: declared bounds, None if there is none. covered: share of the range's parts with data, None if the
    range is not finite. outside: number of values beyond the bounds.
    """

    name: str
    role: Role
    minimum: float
    maximum: float
    lower: float | None
    upper: float | None
    covered: float | None
    outside: int


@dataclass(frozen=True)
class DataReport:
    """Size, repetition and coverage of transition data."""

    rows: int
    episodes: int
    missing: int
    duplicate_rows: int
    constant_columns: tuple[str, ...]
    coverage: tuple[Coverage, ...]

    @property
    def outside(self) -> dict[str, int]:
        """Number of values beyond the declared bounds, for each column that has some; x' is the next value of x."""
        return {
            f"{column.name}'" if column.role == "next state" else column.name: column.outside
            for column in self.coverage
            if column.outside
        }

    def to_json(self) -> str:
        """The report as JSON, with the fields of this class and of `Coverage`."""
        return json.dumps(asdict(self), indent=2)


def data_report(transitions: Transitions, variables: Sequence[Variable] = (), bins: int = BINS) -> DataReport:
    """The report on some transitions; bounds are those of the variables with the columns' names.

    bins: equal parts of a variable's declared range; those with data count as covered.
    """
    known = {variable.name: variable for variable in variables}
    columns = [
        _coverage(name, role, values, known.get(name, Variable(name)), bins)
        for role, names, table in _tables(transitions)
        for name, values in zip(names, table.T, strict=True)
    ]
    return DataReport(
        rows=len(transitions),
        episodes=len(np.unique(transitions.episode)),
        missing=int(sum(np.isnan(table).sum() for _, _, table in _tables(transitions))),
        duplicate_rows=_duplicates(transitions),
        constant_columns=tuple(c.name for c in columns if c.minimum == c.maximum and c.role != "next state"),
        coverage=tuple(columns),
    )


def require_inside_bounds(
    transitions: Transitions, variables: Sequence[Variable], source: str = "the data", where: Where | None = None
) -> None:
    """Complain if a state or an action lies outside its variable's bounds: bounds that exclude the data are wrong.

    Next states may lie outside: how the system leaves its bounds is worth learning. where: how to find the value of a
    transition in its file.
    """
    known = {variable.name: variable for variable in variables}
    for role, names, table in _tables(transitions)[:2]:
        for name, values in zip(names, table.T, strict=True):
            outside = np.flatnonzero(_is_outside(values, known.get(name, Variable(name))))
            if len(outside):
                row = int(outside[0])
                place = _row_name(transitions, row) if where is None else where(role, row)
                raise InputError(f"{source}: {place}, {_outside_text(values, row, len(outside), known[name])}")


def _row_name(transitions: Transitions, row: int) -> str:
    return f"row {row + 1} (episode {transitions.episode[row]}, step {transitions.step[row]})"


def _outside_text(values: Array, row: int, count: int, variable: Variable) -> str:
    others = f" ({count} rows do)" if count > 1 else ""
    return (
        f"column '{variable.name}': {values[row]:g} lies outside the bounds [{variable.lower:g}, {variable.upper:g}] "
        f"that the problem declares{others}; the column ranges over [{values.min():g}, {values.max():g}]: widen the "
        "bounds, or take such rows out"
    )


def _tables(transitions: Transitions) -> list[tuple[Role, tuple[str, ...], Array]]:
    return [
        ("state", transitions.state_names, transitions.states),
        ("action", transitions.action_names, transitions.actions),
        ("next state", transitions.state_names, transitions.next_states),
    ]


def _coverage(name: str, role: Role, values: Array, variable: Variable, bins: int) -> Coverage:
    return Coverage(
        name=name,
        role=role,
        minimum=float(values.min()),
        maximum=float(values.max()),
        lower=variable.lower if math.isfinite(variable.lower) else None,
        upper=variable.upper if math.isfinite(variable.upper) else None,
        covered=_covered_share(values, variable, bins),
        outside=int(_is_outside(values, variable).sum()),
    )


def _is_outside(values: Array, variable: Variable) -> NDArray[np.bool_]:
    low, high = (BOUND_TOLERANCE * max(1.0, abs(side)) for side in (variable.lower, variable.upper))
    below = values < variable.lower - low if math.isfinite(variable.lower) else np.zeros(len(values), dtype=bool)
    above = values > variable.upper + high if math.isfinite(variable.upper) else np.zeros(len(values), dtype=bool)
    return np.asarray(below | above)


def _covered_share(values: Array, variable: Variable, bins: int) -> float | None:
    """The share of `bins` equal parts of [lower, upper] that hold data; of the whole numbers, if those are fewer."""
    width = variable.upper - variable.lower
    if not math.isfinite(width):
        return None
    if width == 0.0:
        return 1.0
    count = int(min(bins, width + 1)) if variable.is_discrete else bins
    inside = values[(values >= variable.lower) & (values <= variable.upper)]
    edge = 0.5 if variable.is_discrete else 0.0
    hits, _ = np.histogram(inside, bins=count, range=(variable.lower - edge, variable.upper + edge))
    return float(np.count_nonzero(hits) / count)


def _duplicates(transitions: Transitions) -> int:
    """How many transitions repeat an earlier one in every number."""
    table = np.hstack([transitions.states, transitions.actions, transitions.next_states]) + 0.0  # no negative zeros
    rows = np.ascontiguousarray(table).view(np.dtype((np.void, table.shape[1] * table.itemsize)))
    return len(rows) - len(np.unique(rows))
