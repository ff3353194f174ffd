"""The text files of an HD-MILP-Plan instance, read and checked line by line.

    dnn/dnn_NAME.txt                  one line per unit: name,activation,input,weight,...,bias-name,bias
    translation/pvariables_NAME.txt   role_kind: name, ...
    translation/mappings_NAME.txt     unit,variable: N... units are network inputs, the others outputs
    translation/KIND_NAME.txt         rows term,...,operator,constant with terms x or c*x, for the kinds
                                      constraints, goal, initial and transitions (where x' is the next state)
    translation/reward_NAME.txt       variable,weight

The last five may be absent. Names lose their `$`: `TEMP[$r1]` is read as `TEMP[r1]`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reluplan.errors import InputError
from reluplan.problem.problem import Kind

Role = Literal["action", "state", "auxiliary"]
Sign = Literal["<=", ">=", "=="]

ROLES: dict[str, Role] = {"action": "action", "state": "state", "auxiliary": "auxiliary"}
KINDS: dict[str, Kind] = {"continuous": "continuous", "integer": "integer", "boolean": "boolean"}
SIGNS: dict[str, Sign] = {"<=": "<=", ">=": ">=", "==": "=="}
FLIPPED: dict[Sign, Sign] = {"<=": ">=", ">=": "<=", "==": "=="}

REQUIRED_FILES = ("dnn", "pvariables", "mappings")
OPTIONAL_FILES = ("constraints", "goal", "initial", "transitions", "reward")
EXAMPLE_FILES = ("goal", "pvariables", "transitions")


@dataclass(frozen=True)
class Line:
    """One line of a file, split at its commas."""

    file: Path
    number: int
    fields: tuple[str, ...]

    def error(self, message: str) -> InputError:
        return InputError(f"{self.file}, line {self.number}: {message}")

    def parse_number(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.error(f"expected a number, got '{text}'")
        return value


@dataclass(frozen=True)
class Row:
    """Σ coefficient · name (sign) constant, without zero coefficients; a trailing ' marks a next state."""

    terms: Mapping[str, float]
    sign: Sign
    constant: float
    line: Line

    @property
    def key(self) -> tuple[frozenset[tuple[str, float]], Sign, float]:
        """Equal for rows that say the same, up to the order of terms and a factor of −1."""
        row = self if self.terms[min(self.terms)] > 0.0 else self.negated()
        return frozenset(row.terms.items()), row.sign, row.constant

    def negated(self) -> Row:
        """The same row, both sides times −1."""
        terms = {name: -coefficient for name, coefficient in self.terms.items()}
        return Row(terms, FLIPPED[self.sign], -self.constant, self.line)

    def solved(self) -> Row:
        """A row of one variable with coefficient 1; other rows as they are."""
        if len(self.terms) > 1:
            return self
        ((name, coefficient),) = self.terms.items()
        sign = self.sign if coefficient > 0.0 else FLIPPED[self.sign]
        return Row({name: 1.0}, sign, self.constant / coefficient, self.line)

    def reads(self, names: Collection[str]) -> bool:
        return any(name in names for name in self.terms)


@dataclass(frozen=True)
class Declaration:
    """What pvariables says of a name."""

    role: Role
    kind: Kind


@dataclass(frozen=True)
class Unit:
    """One network unit: activation(Σ weight · input + bias)."""

    name: str
    activation: str
    weights: Mapping[str, float]
    bias: float
    line: Line


@dataclass(frozen=True)
class UnitMapping:
    """A line of the mappings file: the variable that a network unit stands for."""

    unit: str
    variable: str
    line: Line

    @property
    def is_input(self) -> bool:
        return self.unit.startswith("N")


@dataclass(frozen=True)
class Instance:
    """Everything the files say; `sources` are the files read, relative to the folder."""

    name: str
    variables: Mapping[str, Declaration]
    units: Mapping[str, Unit]
    mappings: tuple[UnitMapping, ...]
    constraints: tuple[Row, ...]
    goal: tuple[Row, ...]
    initial: tuple[Row, ...]
    transitions: tuple[Row, ...]
    reward: Mapping[str, float]
    sources: tuple[str, ...]

    def names(self, role: Role) -> tuple[str, ...]:
        return tuple(name for name, declared in self.variables.items() if declared.role == role)


def read_instance(folder: Path, name: str, examples: Sequence[str] = ()) -> Instance:
    """Read the instance; `examples` lists the kinds to be read from their `example_` files instead."""
    paths = _locate(folder, name, examples)
    variables = _read_variables(paths["pvariables"])
    units = _read_units(paths["dnn"])
    reader = _Reader(variables)
    return Instance(
        name=name,
        variables=variables,
        units=units,
        mappings=reader.mappings(paths["mappings"], units),
        constraints=reader.rows(paths.get("constraints"), ("state", "action", "auxiliary")),
        goal=reader.rows(paths.get("goal"), ("state", "auxiliary")),
        initial=reader.rows(paths.get("initial"), ("state", "auxiliary")),
        transitions=reader.rows(paths.get("transitions"), ("state", "action", "auxiliary"), primed=("state",)),
        reward=reader.reward(paths.get("reward")),
        sources=tuple(path.relative_to(folder).as_posix() for path in paths.values()),
    )


def _locate(folder: Path, name: str, examples: Sequence[str]) -> dict[str, Path]:
    """The files of the instance that exist; it is an error if a required one does not."""
    for part in (folder, folder / "dnn", folder / "translation"):
        if not part.is_dir():
            raise InputError(f"{part}: no such folder; give the folder that holds dnn/ and translation/")
    for kind in examples:
        if kind not in EXAMPLE_FILES:
            raise InputError(f"'{kind}' is no kind of example file: use {', '.join(EXAMPLE_FILES)}")
    if not (folder / "dnn" / f"dnn_{name}.txt").is_file():
        known = sorted(path.stem.removeprefix("dnn_") for path in (folder / "dnn").glob("dnn_*.txt"))
        raise InputError(f"{folder}: no instance '{name}' (available: {', '.join(known) or 'none'})")
    paths = {}
    for kind in (*REQUIRED_FILES, *OPTIONAL_FILES):
        prefix = "example_" if kind in examples else ""
        path = folder / ("dnn" if kind == "dnn" else "translation") / f"{prefix}{kind}_{name}.txt"
        if path.is_file():
            paths[kind] = path
        elif kind in REQUIRED_FILES or kind in examples:
            raise InputError(f"{path}: no such file; the instance '{name}' needs it")
    return paths


def _lines(path: Path) -> Iterable[Line]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not a text file in UTF-8") from None
    for number, content in enumerate(text.splitlines(), start=1):
        if content.strip():
            yield Line(path, number, tuple(part.strip() for part in content.split(",")))


def _clean(name: str) -> str:
    return name.strip().replace("$", "")


def _read_variables(path: Path) -> dict[str, Declaration]:
    variables: dict[str, Declaration] = {}
    for line in _lines(path):
        for entry in filter(None, line.fields):
            prefix, colon, rest = entry.partition(":")
            role, _, kind = prefix.strip().partition("_")
            name = _clean(rest)
            if not colon or role not in ROLES or kind not in KINDS:
                raise line.error(
                    f"cannot read '{entry}': expected role_kind: name, as in 'state_continuous: x', "
                    f"with a role of {', '.join(ROLES)} and a kind of {', '.join(KINDS)}"
                )
            if not name or "'" in name or "`" in name:
                raise line.error(f"'{entry}': the name is empty or contains a quote, which marks next states")
            if name in variables:
                raise line.error(f"the variable '{name}' is declared twice")
            variables[name] = Declaration(ROLES[role], KINDS[kind])
    return variables


def _read_units(path: Path) -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    for line in _lines(path):
        unit = _read_unit(line)
        if unit.name in units:
            raise line.error(f"unit {unit.name} is defined twice (first on line {units[unit.name].line.number})")
        units[unit.name] = unit
    return units


def _read_unit(line: Line) -> Unit:
    name, *rest = line.fields
    if len(rest) % 2 == 0:
        raise line.error(f"unit {name}: expected name,activation,input,weight,...,bias-name,bias")
    activation, *pairs = rest
    if activation not in ("relu", "linear", "step"):
        raise line.error(f"unit {name}: unsupported activation '{activation}' (supported: relu, linear, step)")
    values: dict[str, float] = {}
    for read, text in zip(pairs[::2], pairs[1::2], strict=True):
        if read in values:
            raise line.error(f"unit {name}: '{read}' is listed twice")
        values[read] = line.parse_number(text)
    biases = [read for read in values if read.startswith("B")]
    if len(biases) != 1:
        raise line.error(f"unit {name}: expected one bias (a name that starts with B), found {len(biases)}")
    bias = values.pop(biases[0])
    return Unit(name, activation, values, bias, line)


@dataclass(frozen=True)
class _Reader:
    """Reads the files that use the declared variables."""

    variables: Mapping[str, Declaration]

    def rows(self, path: Path | None, roles: tuple[Role, ...], primed: tuple[Role, ...] = ()) -> tuple[Row, ...]:
        """The linear rows of a file, over variables of these roles; `primed` roles may have a next value."""
        return tuple(self._row(line, roles, primed) for line in _lines(path)) if path else ()

    def reward(self, path: Path | None) -> dict[str, float]:
        reward: dict[str, float] = {}
        for line in _lines(path) if path else ():
            if len(line.fields) != 2:
                raise line.error(f"expected variable,weight; got '{','.join(line.fields)}'")
            name = self._name(line.fields[0], line, tuple(ROLES.values()), ("state", "auxiliary"))
            if name in reward:
                raise line.error(f"'{name}' has a weight already: add the two up")
            reward[name] = line.parse_number(line.fields[1])
        return reward

    def mappings(self, path: Path, units: Mapping[str, Unit]) -> tuple[UnitMapping, ...]:
        mappings: list[UnitMapping] = []
        for line in _lines(path):
            mapping = self._mapping(line, units)
            for other in mappings:
                if other.unit == mapping.unit:
                    raise line.error(f"unit {mapping.unit} is mapped twice (first on line {other.line.number})")
                if (other.variable, other.is_input) == (mapping.variable, mapping.is_input):
                    raise line.error(f"both {other.unit} and {mapping.unit} stand for '{mapping.variable}'")
            mappings.append(mapping)
        return tuple(mappings)

    def _mapping(self, line: Line, units: Mapping[str, Unit]) -> UnitMapping:
        if len(line.fields) != 2:
            raise line.error(f"expected unit,variable; got '{','.join(line.fields)}'")
        unit = line.fields[0]
        is_input = unit.startswith("N")
        name = self._name(line.fields[1], line, ("state", "action") if is_input else ("state",))
        if not is_input and unit not in units:
            raise line.error(f"unit {unit} is not defined in the network file (network inputs start with N)")
        return UnitMapping(unit, name, line)

    def _row(self, line: Line, roles: tuple[Role, ...], primed: tuple[Role, ...]) -> Row:
        if len(line.fields) < 3 or line.fields[-2] not in SIGNS:
            raise line.error(
                f"cannot read '{','.join(line.fields)}': expected term,...,operator,constant "
                f"with terms x or c*x and one of the operators {', '.join(SIGNS)}"
            )
        terms: dict[str, float] = {}
        for text in line.fields[:-2]:
            factor, star, variable = text.rpartition("*")
            name = self._name(variable, line, roles, primed)
            if name in terms:
                raise line.error(f"'{name}' is listed twice: add the two terms up")
            terms[name] = line.parse_number(factor) if star else 1.0
        terms = {name: coefficient for name, coefficient in terms.items() if coefficient != 0.0}
        if not terms:
            raise line.error("every coefficient of this row is zero")
        return Row(terms, SIGNS[line.fields[-2]], line.parse_number(line.fields[-1]), line)

    def _name(self, text: str, line: Line, roles: tuple[Role, ...], primed: tuple[Role, ...] = ()) -> str:
        name = _clean(text)
        base = name.removesuffix("'")
        if base not in self.variables:
            near = difflib.get_close_matches(base, list(self.variables), n=1)
            hint = f"did you mean '{near[0]}'?" if near else "declared: " + ", ".join(self.variables)
            raise line.error(f"unknown variable '{base}' ({hint})")
        role = self.variables[base].role
        if role not in roles:
            raise line.error(f"the {role} '{base}' may not be used here, only {' and '.join(roles)} variables")
        if name != base and role not in primed:
            raise line.error(f"the {role} '{base}' has no next value here: remove the prime of {name}")
        return name
