"""A first problem file from data: bounds, first values and a past as the data have them, lags that they ask for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reluplan.data.past import LagSettings, SuggestedLag, suggested_lags
from reluplan.data.read import read_transitions
from reluplan.data.transitions import Transitions
from reluplan.problem.lags import Lag
from reluplan.problem.writer import name_in_expression, number, string, string_list

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DraftSettings:
    """horizon: of the draft. widening: of the range that data have, for states. digits: that bounds are rounded to.
    most_integers: different whole numbers of an action that count as choices."""

    horizon: int = 24
    widening: float = 0.1
    digits: int = 3
    most_integers: int = 20
    lags: LagSettings = field(default_factory=LagSettings)


@dataclass(frozen=True)
class Draft:
    """A problem file's text, and what somebody should know about it."""

    text: str
    lags: tuple[SuggestedLag, ...]
    warnings: tuple[str, ...]


def draft_problem(
    paths: Sequence[Path],
    states: Sequence[str],
    actions: Sequence[str],
    series: Sequence[str] = (),
    name: str = "problem",
    settings: DraftSettings | None = None,
) -> Draft:
    """The draft for data files that have columns of these names; series: inputs that nobody chooses."""
    settings = settings or DraftSettings()
    transitions = read_transitions(paths, states, [*actions, *series], extras=True)
    lags = suggested_lags(transitions, settings.lags)
    writer = _Writer(transitions, len(actions), lags, name, settings)
    return Draft("\n".join(writer.lines()) + "\n", lags, tuple(writer.warnings()))


@dataclass(frozen=True)
class _Writer:
    """Writes one draft; the actions of the transitions are actions, then series."""

    transitions: Transitions
    action_count: int
    lags: tuple[SuggestedLag, ...]
    name: str
    settings: DraftSettings

    @property
    def actions(self) -> tuple[str, ...]:
        return self.transitions.action_names[: self.action_count]

    @property
    def series(self) -> tuple[str, ...]:
        return self.transitions.action_names[self.action_count :]

    def lines(self) -> Iterator[str]:
        yield f"# A draft from {len(self.transitions):,} transitions. Change what it says; then"
        yield "#     reluplan train DATA --problem THIS_FILE, and reluplan plan THIS_FILE --out run"
        yield ""
        yield f"name = {string(self.name)}"
        yield f"horizon = {self.settings.horizon}"
        yield from self._reward()
        if self.series:
            yield ""
            yield '[series]  # what they were last; put a forecast in their place: { file = "forecast.csv" }'
            yield from (self._one_series(name) for name in self.series)
        for at, name in enumerate(self.transitions.state_names):
            yield from self._state(name, self.transitions.states[:, at])
        for at, name in enumerate(self.actions):
            yield from self._action(name, self.transitions.actions[:, at])
        yield from self._network()

    def warnings(self) -> Iterator[str]:
        for at, name in enumerate(self.transitions.action_names):
            column = self.transitions.actions[:, at]
            if column.min() == column.max():
                kind = "action" if at < self.action_count else "series"
                yield f"{kind} '{name}' is {number(float(column[0]))} in every row: nothing can be learned of it"

    def _reward(self) -> Iterator[str]:
        """A stand-in: hold the first state where it was on average, with little effort."""
        state = self.transitions.state_names[0]
        target = _rounded(float(self.transitions.next_states[:, 0].mean()), self.settings.digits)
        effort = "".join(f" - 0.01*abs({name_in_expression(name)})" for name in self.actions)
        yield "# What is best? For a start: hold a state where it was on average."
        text = f"-abs({name_in_expression(state + chr(39))} - {number(target)}){effort}".replace("- -", "+ ")
        yield f"reward = {string(text)}"
        for name, column in self.transitions.extras.items():
            if name.casefold() == "reward" and np.isfinite(column).all():
                yield f"# The data have rewards between {column.min():.6g} and {column.max():.6g} a step."

    def _one_series(self, name: str) -> str:
        values = self._last(self.transitions.actions[:, self.transitions.action_names.index(name)])
        shown = ", ".join(number(float(value)) for value in values[-self.settings.horizon :])
        history = self._history(name, self.transitions.actions)
        return f"{string(name)} = {{ values = [{shown}], repeat = true{history and ', ' + history} }}"

    def _state(self, name: str, column: Array) -> Iterator[str]:
        after = self.transitions.next_states[:, self.transitions.state_names.index(name)]
        low, high = min(column.min(), after.min()), max(column.max(), after.max())
        yield ""
        yield f"[state.{string(name)}]"
        yield f"bounds = {self._widened(float(low), float(high))}  # data: {low:.6g} to {high:.6g}"
        yield f"initial = {number(float(self._last(after)[-1]))}  # the last one of the data"
        if history := self._history(name, self.transitions.states):
            yield history

    def _action(self, name: str, column: Array) -> Iterator[str]:
        values = np.unique(column)
        low, high = float(values[0]), float(values[-1])
        yield ""
        yield f"[action.{string(name)}]"
        whole = bool((values == np.round(values)).all()) and 2 <= len(values) <= self.settings.most_integers
        if whole and set(values.tolist()) == {0.0, 1.0}:
            yield 'kind = "boolean"'
        else:
            if whole:
                yield 'kind = "integer"'
            yield f"bounds = [{number(low)}, {number(high)}]"
        if history := self._history(name, self.transitions.actions):
            yield history

    def _network(self) -> Iterator[str]:
        inputs = [*self.transitions.state_names, *self.transitions.action_names]
        inputs += [lag.name for lag in self._lagged()]
        yield ""
        yield "[network]"
        yield 'file = "network.onnx"'
        yield f"inputs = {string_list(inputs)}"
        yield f"outputs = {string_list(self.transitions.state_names)}"
        yield 'predicts = "delta"'
        for found in self.lags:
            yield f"# {found.lag.name} explains {found.share:.0%} of what is left of the change of {found.state}"

    def _lagged(self) -> list[Lag]:
        return sorted({found.lag for found in self.lags})

    def _history(self, name: str, values: Array) -> str:
        """What was before the first step, as far as lags read it."""
        deepest = max((lag.steps for lag in self._lagged() if lag.variable == name), default=0)
        if not deepest:
            return ""
        known = self.transitions.state_names if values is self.transitions.states else self.transitions.action_names
        last = self._last(values[:, known.index(name)])[::-1][:deepest]
        last = np.concatenate([last, np.repeat(last[-1:], deepest - len(last))])
        return f"history = [{', '.join(number(float(value)) for value in last)}]"

    def _last(self, column: Array) -> Array:
        """The values of the last episode, in the order of its steps."""
        order = np.lexsort((self.transitions.step, self.transitions.episode))
        same = self.transitions.episode[order] == self.transitions.episode[order[-1]]
        return np.asarray(column[order[same]])

    def _widened(self, low: float, high: float) -> str:
        """A little more than the range of the data, rounded outward."""
        more = self.settings.widening * (high - low) or max(1.0, abs(low))
        low, high = low - more, high + more
        unit = 10.0 ** (math.floor(math.log10(high - low)) + 1 - self.settings.digits)
        ends = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
        return f"[{', '.join(number(_rounded(end, 12)) for end in ends)}]"


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
