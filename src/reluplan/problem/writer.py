"""Writing problem files (TOML) that a person can read and `Problem.load` reads back to the same numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reluplan.files import write_atomically
from reluplan.problem.expression import quote
from reluplan.problem.problem import Variable


@dataclass(frozen=True)
class NetworkEntry:
    """The [network] table: the file, and the names of its inputs and outputs in the network's order."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    predicts: str = "next"


@dataclass(frozen=True)
class ProblemText:
    """The content of a problem file, with expressions as text.

    initial_values: state to its first value, or to an interval (lower, upper); initial: rows on the first state.
    transitions: state to the expression of its known transition. comments: lines at the top of the file.

    >>> text = ProblemText("tank", 3, "-abs(level' - 5)", states=(Variable("level"),), actions=(Variable("flow"),),
    ...                    initial_values={"level": 4.0}, transitions={"level": "level + flow"})
    >>> print(text.to_toml())
    name = "tank"
    horizon = 3
    reward = "-abs(level' - 5)"
    <BLANKLINE>
    [state."level"]
    initial = 4
    <BLANKLINE>
    [action."flow"]
    <BLANKLINE>
    [transition]
    "level" = "level + flow"
    <BLANKLINE>
    """

    name: str
    horizon: int
    reward: str
    states: tuple[Variable, ...]
    actions: tuple[Variable, ...]
    auxiliaries: tuple[Variable, ...] = ()
    final_reward: str | None = None
    discount: float = 1.0
    initial_values: Mapping[str, float | tuple[float, float]] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    goal: tuple[str, ...] = ()
    initial: tuple[str, ...] = ()
    constants: Mapping[str, float] = field(default_factory=dict)
    network: NetworkEntry | None = None
    transitions: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()

    def to_toml(self) -> str:
        """The file's text."""
        return "\n\n".join("\n".join(block) for block in self._blocks() if block) + "\n"

    def write(self, path: Path) -> None:
        """Write the file; a reader never sees half of it."""
        write_atomically(path, self.to_toml())

    def _blocks(self) -> Iterator[list[str]]:
        yield [f"# {comment}".rstrip() for comment in self.comments]
        yield self._top()
        if self.constants:
            yield ["[constants]", *(f"{string(name)} = {number(value)}" for name, value in self.constants.items())]
        if self.network is not None:
            yield self._network(self.network)
        for section, variables in (("state", self.states), ("action", self.actions), ("auxiliary", self.auxiliaries)):
            for variable in variables:
                yield self._variable(section, variable)
        if self.transitions:
            yield ["[transition]", *(f"{string(name)} = {string(text)}" for name, text in self.transitions.items())]

    def _top(self) -> list[str]:
        lines = [f"name = {string(self.name)}", f"horizon = {self.horizon}", f"reward = {string(self.reward)}"]
        if self.final_reward is not None:
            lines.append(f"final_reward = {string(self.final_reward)}")
        if self.discount != 1.0:
            lines.append(f"discount = {number(self.discount)}")
        for key, rows in (("constraints", self.constraints), ("goal", self.goal), ("initial", self.initial)):
            if rows:
                lines += [f"{key} = [", *(f"    {string(row)}," for row in rows), "]"]
        return lines

    def _network(self, network: NetworkEntry) -> list[str]:
        return [
            "[network]",
            f"file = {string(network.file)}",
            f"inputs = {string_list(network.inputs)}",
            f"outputs = {string_list(network.outputs)}",
            f"predicts = {string(network.predicts)}",
        ]

    def _variable(self, section: str, variable: Variable) -> list[str]:
        lines = [f"[{section}.{string(variable.name)}]"]
        if variable.kind != "continuous":
            lines.append(f"kind = {string(variable.kind)}")
        if math.isfinite(variable.lower) or math.isfinite(variable.upper):
            lines.append(f"bounds = {_interval((variable.lower, variable.upper))}")
        if section == "state" and variable.name in self.initial_values:
            value = self.initial_values[variable.name]
            lines.append(f"initial = {_interval(value) if isinstance(value, tuple) else number(value)}")
        return lines


def number(value: float) -> str:
    """The shortest text that reads back as the same number: 10, 0.1, 1e-05, inf."""
    return str(int(value)) if math.isfinite(value) and value == int(value) and abs(value) < 1e15 else repr(float(value))


def name_in_expression(name: str) -> str:
    """The name as expressions write it; a trailing prime marks the next state."""
    base = name.removesuffix("'")
    return quote(base) + name[len(base) :]


def format_sum(parts: Iterable[tuple[float, str]]) -> str:
    """Σ coefficient · factor, where a factor is an expression that needs no brackets, or "" for a constant.

    >>> format_sum([(-1, "x"), (0, "y"), (10, "abs(z)"), (-2.5, "")])
    '-x + 10*abs(z) - 2.5'
    """
    text = "".join(_signed_product(coefficient, factor) for coefficient, factor in parts if coefficient != 0.0)
    if not text:
        return "0"
    return text.removeprefix(" + ") if text.startswith(" + ") else "-" + text.removeprefix(" - ")


def _signed_product(coefficient: float, factor: str) -> str:
    size = number(abs(coefficient))
    sign = " - " if coefficient < 0.0 else " + "
    if not factor:
        return sign + size
    return sign + (factor if size == "1" else f"{size}*{factor}")


def format_row(terms: Mapping[str, float], sign: str, constant: float) -> str:
    """A linear row. Without a constant, negative terms go to the right: `flow <= level`, not `flow - level <= 0`."""
    left = [(coefficient, name_in_expression(name)) for name, coefficient in terms.items()]
    right: list[tuple[float, str]] = [(constant, "")]
    if constant == 0.0 and any(coefficient > 0.0 for coefficient, _ in left):
        right = [(-coefficient, name) for coefficient, name in left if coefficient < 0.0]
        left = [(coefficient, name) for coefficient, name in left if coefficient > 0.0]
    return f"{format_sum(left)} {sign} {format_sum(right)}"


def _interval(value: tuple[float, float]) -> str:
    return f"[{number(value[0])}, {number(value[1])}]"


def string(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, except that TOML wants DEL escaped as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def string_list(texts: Iterable[str]) -> str:
    """A TOML list of strings."""
    return f"[{', '.join(map(string, texts))}]"
