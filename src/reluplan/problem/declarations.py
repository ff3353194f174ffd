"""What a problem file declares: variables with their bounds, constants, series, lags, and the box of initial states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.lags import LONGEST_LAG, Lag, chains, lag_name, longest_lags, spelt
from reluplan.problem.problem import StepLayout, Variable
from reluplan.problem.scopes import Scopes
from reluplan.problem.series import Series
from reluplan.problem.series_section import folded, read_series
from reluplan.problem.toml_file import TomlFile
from reluplan.problem.variable_section import VariableEntry, read_entries
from reluplan.wording import did_you_mean, shown

Array = NDArray[np.float64]
PLAN_COLUMNS = {"step", "reward"}
"""Columns of plan.csv beside the variables."""


@dataclass(frozen=True)
class Declarations:
    """The names of a problem file.

    own_states: those that the file declares; behind them `states` has one for each of `lags`. series: the last
    auxiliaries; folded: those that became constants. initial: boxes of the first state, by name. step_rows, state_rows:
    texts of constraints of every step, and of those that hold at the final state too: what series say of bounds, and
    limits of change.
    """

    own_states: tuple[Variable, ...]
    actions: tuple[Variable, ...]
    own_auxiliaries: tuple[Variable, ...]
    constants: Mapping[str, float]
    series: tuple[Series, ...] = ()
    folded: tuple[Series, ...] = ()
    lags: tuple[Lag, ...] = ()
    initial: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    step_rows: tuple[str, ...] = ()
    state_rows: tuple[str, ...] = ()

    @cached_property
    def states(self) -> tuple[Variable, ...]:
        """The declared ones and those of lags, which have the bounds of what they hold, its history included."""
        known = {variable.name: variable for variable in (*self.own_states, *self.actions)}
        lagged = []
        for lag in self.lags:
            of, (low, high) = known[lag.variable], self.initial[lag.name]
            before = [self.initial[lag_name(lag.variable, steps)] for steps in range(1, lag.steps + 1)]
            low, high = min(low for low, _ in before), max(high for _, high in before)
            lagged.append(Variable(lag.name, "continuous", min(of.lower, low), max(of.upper, high)))
        return (*self.own_states, *lagged)

    @cached_property
    def auxiliaries(self) -> tuple[Variable, ...]:
        """The declared ones and the series, which have the bounds of their values."""
        known = [Variable(one.name, "continuous", one.values.min(), one.values.max()) for one in self.series]
        return (*self.own_auxiliaries, *known)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Of (s, a, x), in that order."""
        return (*self.states, *self.actions, *self.auxiliaries)

    @property
    def initial_box(self) -> tuple[Array, Array]:
        """Of the first state."""
        boxes = np.array([self.initial[state.name] for state in self.states]).reshape(-1, 2)
        return boxes[:, 0].copy(), boxes[:, 1].copy()

    @cached_property
    def scopes(self) -> Scopes:
        """What expressions may read."""
        layout = StepLayout(len(self.states), len(self.actions), len(self.auxiliaries))
        names = tuple(series.name for series in self.series)
        return Scopes(self.states, self.actions, self.auxiliaries, layout, self.constants, names)


def read_declarations(file: TomlFile) -> Declarations:
    """States, actions, auxiliaries, constants, series and what is read of the past, their names checked."""
    constants = _constants(file)
    series, histories = read_series(file)
    entries = read_entries(file, constants, series)
    _check_names(file, [*(entry.name for entry in entries), *constants, *series])
    _check_columns(file, [*(entry.name for entry in entries), *series])
    longest = longest_lags(_expressions(file), _network_inputs(file))
    for entry in entries:
        if entry.max_change is not None:
            longest[entry.name] = max(1, longest.get(entry.name, 0))
    _check_lags(file, longest, entries, series)
    known = _with_lagged(file, series, histories, longest)
    read_by_network = _network_inputs(file)
    fixed = folded(known, read_by_network)
    lags = tuple(chains(longest, [entry.name for entry in entries if entry.section != "auxiliary"]))
    initial = {entry.name: entry.initial for entry in entries if entry.initial is not None}
    for lag in lags:
        entry = next(entry for entry in entries if entry.name == lag.variable)
        value = entry.past(file, lag.steps, longest[lag.variable])
        initial[lag.name] = value, value
    return Declarations(
        own_states=tuple(entry.variable for entry in entries if entry.section == "state"),
        actions=tuple(entry.variable for entry in entries if entry.section == "action"),
        own_auxiliaries=tuple(entry.variable for entry in entries if entry.section == "auxiliary"),
        constants=constants | fixed | {f"{name}'": value for name, value in fixed.items()},
        series=tuple(one for name, one in known.items() if name not in fixed),
        folded=tuple(known[name] for name in fixed),
        lags=lags,
        initial=initial,
        step_rows=tuple(row for entry in entries for row in entry.rows()),
        state_rows=tuple(row for entry in entries if entry.section != "action" for row in entry.bound_rows()),
    )


def _with_lagged(
    file: TomlFile, series: Mapping[str, Series], histories: Mapping[str, Array], longest: Mapping[str, int]
) -> dict[str, Series]:
    """The series and, for each that is read as it was some steps ago, the shifted ones."""
    found = dict(series)
    for name, one in series.items():
        for steps in range(1, longest.get(name, 0) + 1):
            if not one.repeats and len(histories[name]) < steps:
                raise file.error(
                    f'series."{name}"',
                    f"lag({name}, {steps}) is read, so history = [...] must say what was before the first step, "
                    f"{longest[name]} numbers, the most recent first",
                )
            found[lag_name(name, steps)] = one.lagged(lag_name(name, steps), steps, histories[name])
    return found


def _check_lags(
    file: TomlFile, longest: Mapping[str, int], entries: Iterable[VariableEntry], series: Iterable[str]
) -> None:
    sections = {entry.name: entry.section for entry in entries} | dict.fromkeys(series, "series")
    for name, steps in longest.items():
        if name not in sections:
            hint = did_you_mean(name, sections, "known names")
            raise file.error("", f"lag({name}, {steps}): unknown variable ({hint})")
        if sections[name] == "auxiliary":
            raise file.error("", f"lag({name}, {steps}): only states, actions and series have a past")
        if steps > LONGEST_LAG:
            raise file.error("", f"lag({name}, {steps}): at most {LONGEST_LAG:,} steps can be looked back")


def _expressions(file: TomlFile) -> Iterator[str]:
    """Every text that may read a lag."""
    for key in ("reward", "final_reward", "constraints", "goal", "initial", "transition", "soft"):
        yield from _strings(file.data.get(key))


def _network_inputs(file: TomlFile) -> list[str]:
    network = file.data.get("network")
    return [spelt(name) for name in _strings(network.get("inputs") if isinstance(network, dict) else None)]


def _strings(value: Any) -> Iterator[str]:
    """The texts in a value of a file, and in the lists and tables that it holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


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
