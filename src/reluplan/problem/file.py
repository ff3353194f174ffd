"""Reading problem files (TOML), with errors that name file, key and value."""

from __future__ import annotations

import math
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from reluplan.errors import InputError
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.dynamics import compose_dynamics
from reluplan.problem.expression import (
    Constraint,
    Scope,
    did_you_mean,
    parse_constraints,
    parse_expression,
    shortened,
    shown,
)  # fmt: skip
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Kind, Problem, StepLayout, Variable
from reluplan.problem.tolerance import TOLERANCE

TOP_KEYS = {
    "name", "horizon", "reward", "constraints", "goal", "initial", "constants",
    "network", "state", "action", "auxiliary", "transition",
}  # fmt: skip
NETWORK_KEYS = {"file", "inputs", "outputs", "predicts"}
PLAN_COLUMNS = {"step", "reward"}
"""Columns of plan.csv beside the variables."""
LONGEST_HORIZON = 1_000_000
LONGEST_KEY = 100
"""How many parts a dotted key may have: the time that Python's TOML reader takes for one grows with its square."""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++\s*+\.\s*+){{{LONGEST_KEY}}}")


@dataclass(frozen=True)
class NetworkSection:
    """What the section [network] of a problem file says; the file itself may not exist yet."""

    file: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    predicts: Literal["next", "delta"]


@dataclass(frozen=True)
class VariableTable:
    """What a problem file declares before anything is learned: variables with their bounds, and its network's names."""

    states: tuple[Variable, ...]
    actions: tuple[Variable, ...]
    auxiliaries: tuple[Variable, ...]
    network: NetworkSection | None
    source: str


def load_problem(path: Path, network: ReluNetwork | None = None) -> Problem:
    """The problem described by a file; see the reference in docs/problem-file.md.

    network: stands in for the network file, such as one that has just been trained.
    """
    return _Reader(path, _parse_toml(path), network).problem()


def read_variables(path: str | Path) -> VariableTable:
    """The variables and the network section of a problem file, without the network, which may not exist yet.

    >>> table = read_variables("examples/tanks/problem.toml")
    >>> [state.name for state in table.states], table.network.predicts
    (['level[upper]', 'level[lower]'], 'delta')
    """
    return _Reader(Path(path), _parse_toml(Path(path))).variable_table()


def _parse_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        if _LONG_KEY.search(text):
            raise InputError(f"{path}: has a dotted key of more than {LONGEST_KEY} parts, which no problem needs")
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{path}: its lists or tables stand too deep inside each other; no key needs that") from None
    except FileNotFoundError:
        raise InputError(f"{path}: no such problem file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not a text file in UTF-8, so not a problem file") from None
    except ValueError as error:  # TOMLDecodeError, or Python's own for a number with thousands of digits
        raise InputError(f"{path}: is not valid TOML: {error}") from None


@dataclass(frozen=True)
class _Reader:
    """Turns the parsed TOML into a Problem, checking every key on the way."""

    path: Path
    data: Mapping[str, Any]
    network: ReluNetwork | None = None

    def variable_table(self) -> VariableTable:
        states, actions, auxiliaries, _ = self._declarations()
        section = self._network_section(states, (*states, *actions, *auxiliaries))
        return VariableTable(states, actions, auxiliaries, section, str(self.path))

    def problem(self) -> Problem:
        states, actions, auxiliaries, constants = self._declarations()
        lower, upper = self._initial_box(states)
        layout = StepLayout(len(states), len(actions), len(auxiliaries))
        scopes = _Scopes(states, actions, auxiliaries, layout, constants)
        return Problem(
            name=self._get(self.data, "name", str, "", self.path.stem),
            horizon=self._horizon(),
            states=states,
            actions=actions,
            auxiliaries=auxiliaries,
            initial_lower=lower,
            initial_upper=upper,
            dynamics=self._dynamics(states, actions, auxiliaries, scopes),
            reward=self._reward(scopes),
            constraints=self._constraints("constraints", scopes.step()),
            initial_constraints=self._constraints("initial", scopes.state("the first state")),
            goal=self._constraints("goal", scopes.state("the final state")),
            source=str(self.path),
        )

    def _declarations(
        self,
    ) -> tuple[tuple[Variable, ...], tuple[Variable, ...], tuple[Variable, ...], dict[str, float]]:
        """States, actions, auxiliaries and constants, their names checked."""
        self._check_keys(self.data, TOP_KEYS, "")
        states = self._variables("state", {"kind", "bounds", "initial"})
        actions = self._variables("action", {"kind", "bounds"})
        auxiliaries = self._variables("auxiliary", {"kind", "bounds"})
        constants = self._constants()
        variables = [v.name for v in (*states, *actions, *auxiliaries)]
        self._check_names([*variables, *constants])
        self._check_columns(variables)
        return states, actions, auxiliaries, constants

    def _fail(self, key: str, message: str) -> InputError:
        return InputError(f"{self.path}: {key}: {message}" if key else f"{self.path}: {message}")

    def _check_keys(self, table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
        for key in table:
            if key not in known:
                raise self._fail(where, f"unknown key '{shortened(key)}' ({did_you_mean(key, known, 'known keys')})")

    def _get(self, table: Mapping[str, Any], key: str, kind: type, where: str, default: Any = None) -> Any:
        value = table.get(key, default)
        if value is None:
            raise self._fail(where, f"the key '{key}' is missing")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self._fail(f"{where}.{key}".lstrip("."), f"expected {_words(kind)}, got {shown(value)}")
        return value

    def _horizon(self) -> int:
        horizon: int = self._get(self.data, "horizon", int, "")
        if horizon < 1:
            raise self._fail("horizon", f"must be at least 1, got {shown(horizon)}")
        if horizon > LONGEST_HORIZON:
            raise self._fail("horizon", f"must be at most {LONGEST_HORIZON:,}, got {shown(horizon)}")
        return horizon

    def _constants(self) -> dict[str, float]:
        table = self._get(self.data, "constants", dict, "", {})
        return {name: self._finite(value, f"constants.{name}") for name, value in table.items()}

    def _number(self, value: Any, where: str) -> float:
        """A number or an infinity; whole numbers of any length are TOML, but must fit into a float."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise self._fail(where, f"expected a number, got {shown(value)}")
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise self._fail(where, f"{shown(value)} is too large a number; write inf for no bound")
        return float(value)

    def _finite(self, value: Any, where: str) -> float:
        number = self._number(value, where)
        if math.isinf(number):
            raise self._fail(where, f"expected a finite number, got {shown(value)}")
        return number

    def _variables(self, section: str, keys: set[str]) -> tuple[Variable, ...]:
        tables = self._get(self.data, section, dict, "", {})
        if not tables and section != "auxiliary":
            raise self._fail("", f'no {section} is declared: add a table [{section}."name"]')
        return tuple(self._variable(section, name, table, keys) for name, table in tables.items())

    def _variable(self, section: str, name: str, table: Any, keys: set[str]) -> Variable:
        where = f'{section}."{name}"'
        if not isinstance(table, dict):
            raise self._fail(where, f"expected a table with keys such as bounds, got {shown(table)}")
        self._check_keys(table, keys, where)
        kind: Kind = self._get(table, "kind", str, where, "continuous")
        if kind not in get_args(Kind):
            raise self._fail(where, f"kind must be one of {', '.join(get_args(Kind))}; got {shown(kind)}")
        default = [0, 1] if kind == "boolean" else [-math.inf, math.inf]
        lower, upper = self._interval(table.get("bounds", default), f"{where}.bounds")
        if kind != "continuous":
            lower, upper = _integers_within(lower, upper)
        if kind == "boolean":
            lower, upper = max(lower, 0.0), min(upper, 1.0)
        if lower > upper:
            raise self._fail(
                f"{where}.bounds", f"the box is empty: {shown(table.get('bounds'))} contains no {kind} value"
            )
        return Variable(name, kind, float(lower), float(upper))

    def _interval(self, value: Any, where: str) -> tuple[float, float]:
        if not isinstance(value, list) or len(value) != 2:
            raise self._fail(where, f"expected two numbers [lower, upper], got {shown(value)}")
        lower, upper = (self._number(side, where) for side in value)
        if lower > upper:
            raise self._fail(where, f"the box is empty: the lower bound {lower:g} exceeds the upper bound {upper:g}")
        if lower == math.inf or upper == -math.inf:
            raise self._fail(where, f"the box is empty: no finite number lies in {shown(value)}")
        return lower, upper

    def _check_names(self, names: Iterable[str]) -> None:
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise self._fail("", f"the name '{name}' is declared twice")
            if "'" in name or "`" in name:
                raise self._fail("", f"the name {shown(name)} contains a quote, which marks next states and names")
            if name != " ".join(name.split()) or not name.isprintable() or not name:
                raise self._fail("", f"the name {shown(name)} is empty or has spaces that cannot be seen: remove them")
            seen.add(name)

    def _check_columns(self, variables: Iterable[str]) -> None:
        for name in PLAN_COLUMNS.intersection(variables):
            raise self._fail("", f"the name '{name}' is taken: plan.csv has a column of that name; choose another")

    def _initial_box(self, states: tuple[Variable, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The box of the first state: a value, an interval, or the state's own bounds when `initial` is absent."""
        boxes = []
        for state in states:
            where = f'state."{state.name}".initial'
            value = self.data["state"][state.name].get("initial", [state.lower, state.upper])
            if state.kind == "boolean" and isinstance(value, bool):
                value = int(value)
            lower, upper = (
                self._interval(value, where) if isinstance(value, list) else (self._finite(value, where),) * 2
            )
            if max(lower, state.lower) > min(upper, state.upper):
                raise self._fail(
                    where, f"{value} lies outside the bounds [{state.lower:g}, {state.upper:g}] of the state"
                )
            lower, upper = max(lower, state.lower), min(upper, state.upper)
            if state.is_discrete:
                lower, upper = _integers_within(lower, upper)
            if lower > upper:
                raise self._fail(where, f"{value} contains no {state.kind} value")
            boxes.append((lower, upper))
        return np.array([low for low, _ in boxes]), np.array([high for _, high in boxes])

    def _reward(self, scopes: _Scopes) -> PiecewiseLinear:
        return parse_expression(self._get(self.data, "reward", str, ""), scopes.step(), f"{self.path}: reward")

    def _constraints(self, key: str, scope: Scope) -> tuple[Constraint, ...]:
        texts = self._get(self.data, key, list, "", [])
        parsed: list[Constraint] = []
        for index, text in enumerate(texts):
            where = f"{key}[{index}]"
            if not isinstance(text, str):
                raise self._fail(where, f'expected a text such as "x + y <= 3", got {shown(text)}')
            for constraint in parse_constraints(text, scope, f"{self.path}: {where}"):
                self._check_constant(constraint, where)
                parsed.append(constraint)
        return tuple(parsed)

    def _check_constant(self, constraint: Constraint, where: str) -> None:
        value = constraint.function.constant
        violation = abs(value) if constraint.equality else value
        if constraint.function.is_constant and violation > TOLERANCE:
            raise self._fail(where, f"'{constraint.text}' reads no variable and is never true")

    def _dynamics(
        self,
        states: tuple[Variable, ...],
        actions: tuple[Variable, ...],
        auxiliaries: tuple[Variable, ...],
        scopes: _Scopes,
    ) -> ReluNetwork:
        inputs = {v.name: i for i, v in enumerate((*states, *actions, *auxiliaries))}
        outputs = {v.name: i for i, v in enumerate(states)}
        transitions = self._transitions(outputs, scopes)
        section = self._network_section(states, (*states, *actions, *auxiliaries))
        network = None if section is None else self._network(section)
        read = [inputs[name] for name in section.inputs] if section else []
        predicted = [outputs[name] for name in section.outputs] if section else []
        self._check_cover(states, predicted, transitions)
        is_delta = section is not None and section.predicts == "delta"
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                whole = compose_dynamics(len(inputs), len(states), network, read, predicted, is_delta, transitions)
            return whole.require_moderate()
        except InputError as error:  # the network alone was fine
            raise self._fail("transition", f"the numbers are too large: {error}") from None

    def _network_section(self, states: Iterable[Variable], variables: Iterable[Variable]) -> NetworkSection | None:
        """The names and the file of [network], without a look at the file; None if there is no such section."""
        table = self._get(self.data, "network", dict, "", {})
        if not table:
            return None
        self._check_keys(table, NETWORK_KEYS, "network")
        predicts = self._get(table, "predicts", str, "network", "next")
        if predicts not in ("next", "delta"):
            raise self._fail("network.predicts", f'must be "next" or "delta", got {shown(predicts)}')
        return NetworkSection(
            file=self.path.parent / self._get(table, "file", str, "network"),
            inputs=self._name_list(table, "inputs", [v.name for v in variables]),
            outputs=self._name_list(table, "outputs", [v.name for v in states]),
            predicts=predicts,
        )

    def _network(self, section: NetworkSection) -> ReluNetwork:
        if self.network is None and not _is_file(section.file):
            raise self._fail("network.file", f"no such file: {shortened(str(section.file))}")
        network = self.network or ReluNetwork.load(section.file)
        self._check_width("inputs", network.input_count, len(section.inputs), section.file)
        self._check_width("outputs", network.output_count, len(section.outputs), section.file)
        return network

    def _name_list(self, table: Mapping[str, Any], key: str, known: list[str]) -> tuple[str, ...]:
        where = f"network.{key}"
        names = self._get(table, key, list, "network")
        declared = frozenset(known)
        for name in names:
            if not isinstance(name, str) or name not in declared:
                raise self._fail(where, f"unknown name {shown(name)} ({did_you_mean(shown(name), known, 'declared')})")
        if len(set(names)) < len(names):
            raise self._fail(where, "a name is listed twice")
        return tuple(names)

    def _check_width(self, key: str, actual: int, listed: int, file: Path) -> None:
        if actual != listed:
            raise self._fail(
                f"network.{key}", f"{listed} names are listed, but the network in '{file.name}' has {actual} {key}"
            )

    def _transitions(self, outputs: Mapping[str, int], scopes: _Scopes) -> dict[int, PiecewiseLinear]:
        table = self._get(self.data, "transition", dict, "", {})
        transitions = {}
        for name, text in table.items():
            where = f'transition."{name}"'
            if name not in outputs:
                raise self._fail(where, f"is not a declared state ({did_you_mean(name, outputs, 'declared')})")
            if not isinstance(text, str):
                raise self._fail(where, f"expected an expression, got {shown(text)}")
            transitions[outputs[name]] = parse_expression(text, scopes.current(), f"{self.path}: {where}")
        return transitions

    def _check_cover(self, states: tuple[Variable, ...], predicted: list[int], known: Mapping[int, Any]) -> None:
        learned = frozenset(predicted)
        for index, state in enumerate(states):
            if index in learned and index in known:
                raise self._fail("", f"state '{state.name}' is both a network output and has a known transition")
            if index not in learned and index not in known:
                raise self._fail(
                    "", f"state '{state.name}' has no transition: list it in network.outputs or under [transition]"
                )


@dataclass(frozen=True)
class _Scopes:
    """The names that each kind of expression may use."""

    states: tuple[Variable, ...]
    actions: tuple[Variable, ...]
    auxiliaries: tuple[Variable, ...]
    layout: StepLayout
    constants: Mapping[str, float]

    def step(self) -> Scope:
        """Everything of one step: rewards and constraints."""
        names = {**self._current(), **self._primed()}
        primed = {f"{v.name}'": "actions have no next value" for v in self.actions}
        return Scope(names, self.constants, self.layout.width, primed)

    def current(self) -> Scope:
        """Before the step: known transitions."""
        reason = "a transition is a function of the current state and action"
        return Scope(self._current(), self.constants, self.layout.width, dict.fromkeys(self._primed(), reason))

    def state(self, which: str) -> Scope:
        """One state alone: initial and goal rows."""
        actions = {v.name for v in self.actions}
        names = {name: at for name, at in self._current().items() if name not in actions}
        reason = f"these rows are about {which} only"
        return Scope(names, self.constants, self.layout.width, dict.fromkeys([*actions, *self._primed()], reason))

    def _current(self) -> dict[str, int]:
        return {v.name: at for at, v in enumerate((*self.states, *self.actions, *self.auxiliaries))}

    def _primed(self) -> dict[str, int]:
        start = self.layout.input_count
        return {f"{v.name}'": start + at for at, v in enumerate((*self.states, *self.auxiliaries))}


def _is_file(path: Path) -> bool:
    """Whether there is such a file; a name that no system takes is the name of none."""
    try:
        return path.is_file()
    except OSError:
        return False


def _integers_within(lower: float, upper: float) -> tuple[float, float]:
    """The smallest box around the integers of an interval, which may be open to either side."""
    return (
        float(math.ceil(lower)) if math.isfinite(lower) else lower,
        float(math.floor(upper)) if math.isfinite(upper) else upper,
    )


def _words(kind: type) -> str:
    return {str: "a text", int: "a whole number", list: "a list", dict: "a table"}[kind]
