"""What a problem file declares: variables with their bounds, constants, and the box of initial states."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.problem import Kind, StepLayout, Variable
from reluplan.problem.scopes import Scopes
from reluplan.problem.toml_file import TomlFile
from reluplan.wording import shown

Array = NDArray[np.float64]
PLAN_COLUMNS = {"step", "reward"}
"""Columns of plan.csv beside the variables."""


@dataclass(frozen=True)
class Declarations:
    """The names of a problem file."""

    states: tuple[Variable, ...]
    actions: tuple[Variable, ...]
    auxiliaries: tuple[Variable, ...]
    constants: dict[str, float]

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Of (s, a, x), in that order."""
        return (*self.states, *self.actions, *self.auxiliaries)

    @cached_property
    def scopes(self) -> Scopes:
        """What expressions may read."""
        layout = StepLayout(len(self.states), len(self.actions), len(self.auxiliaries))
        return Scopes(self.states, self.actions, self.auxiliaries, layout, self.constants)


def read_declarations(file: TomlFile) -> Declarations:
    """States, actions, auxiliaries and constants, their names checked."""
    found = Declarations(
        _variables(file, "state", {"kind", "bounds", "initial"}),
        _variables(file, "action", {"kind", "bounds"}),
        _variables(file, "auxiliary", {"kind", "bounds"}),
        _constants(file),
    )
    variables = [variable.name for variable in found.variables]
    _check_names(file, [*variables, *found.constants])
    _check_columns(file, variables)
    return found


def initial_box(file: TomlFile, states: tuple[Variable, ...]) -> tuple[Array, Array]:
    """The box of the first state: a value, an interval, or the state's own bounds when `initial` is absent."""
    boxes = []
    for state in states:
        where = f'state."{state.name}".initial'
        value = file.data["state"][state.name].get("initial", [state.lower, state.upper])
        if state.kind == "boolean" and isinstance(value, bool):
            value = int(value)
        lower, upper = file.interval(value, where) if isinstance(value, list) else (file.finite(value, where),) * 2
        if max(lower, state.lower) > min(upper, state.upper):
            raise file.error(where, f"{value} lies outside the bounds [{state.lower:g}, {state.upper:g}] of the state")
        lower, upper = max(lower, state.lower), min(upper, state.upper)
        if state.is_discrete:
            lower, upper = _integers_within(lower, upper)
        if lower > upper:
            raise file.error(where, f"{value} contains no {state.kind} value")
        boxes.append((lower, upper))
    return np.array([low for low, _ in boxes]), np.array([high for _, high in boxes])


def _variables(file: TomlFile, section: str, keys: set[str]) -> tuple[Variable, ...]:
    tables = file.get(file.data, section, dict, "", {})
    if not tables and section != "auxiliary":
        raise file.error("", f'no {section} is declared: add a table [{section}."name"]')
    return tuple(_variable(file, section, name, table, keys) for name, table in tables.items())


def _variable(file: TomlFile, section: str, name: str, table: Any, keys: set[str]) -> Variable:
    where = f'{section}."{name}"'
    if not isinstance(table, dict):
        raise file.error(where, f"expected a table with keys such as bounds, got {shown(table)}")
    file.check_keys(table, keys, where)
    kind: Kind = file.get(table, "kind", str, where, "continuous")
    if kind not in get_args(Kind):
        raise file.error(where, f"kind must be one of {', '.join(get_args(Kind))}; got {shown(kind)}")
    default = [0, 1] if kind == "boolean" else [-math.inf, math.inf]
    lower, upper = file.interval(table.get("bounds", default), f"{where}.bounds")
    if kind != "continuous":
        lower, upper = _integers_within(lower, upper)
    if kind == "boolean":
        lower, upper = max(lower, 0.0), min(upper, 1.0)
    if lower > upper:
        raise file.error(f"{where}.bounds", f"the box is empty: {shown(table.get('bounds'))} contains no {kind} value")
    return Variable(name, kind, float(lower), float(upper))


def _check_names(file: TomlFile, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise file.error("", f"the name '{name}' is declared twice")
        if "'" in name or "`" in name:
            raise file.error("", f"the name {shown(name)} contains a quote, which marks next states and names")
        if name != " ".join(name.split()) or not name.isprintable() or not name:
            raise file.error("", f"the name {shown(name)} is empty or has spaces that cannot be seen: remove them")
        seen.add(name)


def _check_columns(file: TomlFile, variables: Iterable[str]) -> None:
    for name in PLAN_COLUMNS.intersection(variables):
        raise file.error("", f"the name '{name}' is taken: plan.csv has a column of that name; choose another")


def _constants(file: TomlFile) -> dict[str, float]:
    table = file.get(file.data, "constants", dict, "", {})
    return {name: file.finite(value, f"constants.{name}") for name, value in table.items()}


def _integers_within(lower: float, upper: float) -> tuple[float, float]:
    """The smallest box around the integers of an interval, which may be open to either side."""
    return (
        float(math.ceil(lower)) if math.isfinite(lower) else lower,
        float(math.floor(upper)) if math.isfinite(upper) else upper,
    )
