"""The sections [state], [action] and [auxiliary] of a problem file: bounds, first values, limits of change, past."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.expression import quote
from reluplan.problem.problem import Kind, Variable
from reluplan.problem.series import Series
from reluplan.problem.series_section import read_column, read_numbers
from reluplan.problem.toml_file import TomlFile
from reluplan.problem.writer import number
from reluplan.wording import did_you_mean, shown

Array = NDArray[np.float64]
KEYS = {
    "state": {"kind", "bounds", "initial", "history"},
    "action": {"kind", "bounds", "history", "max_change", "previous"},
    "auxiliary": {"kind", "bounds"},
}


@dataclass(frozen=True)
class VariableEntry:
    """One table of these sections.

    bound_series: the series that are its bounds, (lower, upper). initial: of a state. history: what is known of the
    past, the most recent first; None if nothing is said. max_change: (down, up) from step to step.
    """

    section: str
    variable: Variable
    bound_series: tuple[str | None, str | None]
    initial: tuple[float, float] | None
    history: Array | None
    max_change: tuple[float, float] | None

    @property
    def name(self) -> str:
        return self.variable.name

    def past(self, file: TomlFile, steps: int, longest: int) -> float:
        """What the variable was some steps before the first; a state that is known stood still if nothing is said."""
        if self.history is not None and len(self.history) >= steps:
            return float(self.history[steps - 1])
        if self.history is None and self.initial is not None and self.initial[0] == self.initial[1]:
            return self.initial[0]
        how = "previous = ... (one number) or history = [...]" if self.section == "action" else "history = [...]"
        raise file.error(
            f'{self.section}."{self.name}"',
            f"what it was {longest} steps ago is read, so {how} must say what it was before the first step, "
            "the most recent first",
        )

    def rows(self) -> Iterator[str]:
        """Constraints of every step that the table implies."""
        yield from self.bound_rows()
        if self.max_change is not None:
            down, up = self.max_change
            change = f"{quote(self.name)} - lag({quote(self.name)}, 1)"
            yield from (f"{change} >= {number(down)}",) if math.isfinite(down) else ()
            yield from (f"{change} <= {number(up)}",) if math.isfinite(up) else ()

    def bound_rows(self) -> Iterator[str]:
        """Bounds that are series."""
        for name, sign in zip(self.bound_series, (">=", "<="), strict=True):
            if name is not None:
                yield f"{quote(self.name)} {sign} {quote(name)}"


def read_entries(
    file: TomlFile, constants: Mapping[str, float], series: Mapping[str, Series]
) -> tuple[VariableEntry, ...]:
    """Every variable: states, actions, auxiliaries."""
    return tuple(
        _Reader(file, section, name, table, constants, series).entry()
        for section in KEYS
        for name, table in _tables(file, section).items()
    )


def _tables(file: TomlFile, section: str) -> Mapping[str, Any]:
    tables: Mapping[str, Any] = file.get(file.data, section, dict, "", {})
    if not tables and section != "auxiliary":
        raise file.error("", f'no {section} is declared: add a table [{section}."name"]')
    return tables


@dataclass(frozen=True)
class _Reader:
    """Reads one table."""

    file: TomlFile
    section: str
    name: str
    table: Any
    constants: Mapping[str, float]
    series: Mapping[str, Series]

    @property
    def where(self) -> str:
        return f'{self.section}."{self.name}"'

    def entry(self) -> VariableEntry:
        if not isinstance(self.table, dict):
            raise self.file.error(self.where, f"expected a table with keys such as bounds, got {shown(self.table)}")
        self.file.check_keys(self.table, KEYS[self.section], self.where)
        kind: Kind = self.file.get(self.table, "kind", str, self.where, "continuous")
        if kind not in get_args(Kind):
            raise self.file.error(self.where, f"kind must be one of {', '.join(get_args(Kind))}; got {shown(kind)}")
        variable, names = self._bounds(kind)
        initial = self._initial(variable) if self.section == "state" else None
        return VariableEntry(self.section, variable, names, initial, self._history(), self._max_change())

    def _bounds(self, kind: Kind) -> tuple[Variable, tuple[str | None, str | None]]:
        """The variable with the widest box that its bounds allow, and the series among them."""
        given = self.table.get("bounds", [0, 1] if kind == "boolean" else [-math.inf, math.inf])
        sides: Any = given
        names: list[str | None] = [None, None]
        if isinstance(given, list) and any(isinstance(side, str) for side in given):
            ends = [self._side(side, at) for at, side in enumerate(given)]
            sides, names = [end[0] for end in ends], [end[1] for end in ends]
        lower, upper = self.file.interval(sides, f"{self.where}.bounds")
        if kind != "continuous":
            lower, upper = _integers_within(lower, upper)
        if kind == "boolean":
            lower, upper = max(lower, 0.0), min(upper, 1.0)
        if lower > upper:
            message = f"the box is empty: {shown(given)} contains no {kind} value"
            raise self.file.error(f"{self.where}.bounds", message)
        return Variable(self.name, kind, float(lower), float(upper)), (names[0], names[1])

    def _side(self, side: Any, at: int) -> tuple[Any, str | None]:
        """A bound as a number, and the series that it is, of which it is the widest value."""
        if not isinstance(side, str):
            return side, None
        if side in self.constants:
            return self.constants[side], None
        if side not in self.series:
            hint = did_you_mean(side, [*self.series, *self.constants], "series and constants")
            raise self.file.error(f"{self.where}.bounds", f"expected a number or a series, got {shown(side)} ({hint})")
        values = self.series[side].values
        return float(values.min() if at == 0 else values.max()), None if self.series[side].is_constant else side

    def _initial(self, state: Variable) -> tuple[float, float]:
        """The box of the first value: a value, an interval, or the state's own bounds when `initial` is absent."""
        where = f"{self.where}.initial"
        value = self.table.get("initial", [state.lower, state.upper])
        if state.kind == "boolean" and isinstance(value, bool):
            value = int(value)
        file = self.file
        lower, upper = file.interval(value, where) if isinstance(value, list) else (file.finite(value, where),) * 2
        if max(lower, state.lower) > min(upper, state.upper):
            raise file.error(where, f"{value} lies outside the bounds [{state.lower:g}, {state.upper:g}] of the state")
        lower, upper = max(lower, state.lower), min(upper, state.upper)
        if state.is_discrete:
            lower, upper = _integers_within(lower, upper)
        if lower > upper:
            raise file.error(where, f"{value} contains no {state.kind} value")
        return lower, upper

    def _history(self) -> Array | None:
        """What was before the first step: listed, or the last rows of a file."""
        if "previous" in self.table:
            if "history" in self.table:
                raise self.file.error(self.where, "previous and history say the same: keep one of them")
            return np.array([self.file.finite(self.table["previous"], f"{self.where}.previous")])
        if "history" not in self.table:
            return None
        given, where = self.table["history"], f"{self.where}.history"
        if isinstance(given, dict):
            self.file.check_keys(given, {"file", "column"}, where)
            return read_column(self.file, given, self.name, where, {})[::-1]
        return read_numbers(self.file, given, where)

    def _max_change(self) -> tuple[float, float] | None:
        if "max_change" not in self.table:
            return None
        given, where = self.table["max_change"], f"{self.where}.max_change"
        if isinstance(given, list):
            return self.file.interval(given, where)
        size = self.file.number(given, where)
        if size < 0.0:
            raise self.file.error(where, f"must not be negative, got {shown(given)}; write [down, up] for two limits")
        return -size, size


def _integers_within(lower: float, upper: float) -> tuple[float, float]:
    """The smallest box around the integers of an interval, which may be open to either side."""
    return (
        float(math.ceil(lower)) if math.isfinite(lower) else lower,
        float(math.floor(upper)) if math.isfinite(upper) else upper,
    )
