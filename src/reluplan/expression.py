"""The expression language of problem files: a small grammar, never `eval`.

    comparison := sum (("<=" | ">=" | "==") sum)+          chains such as 0 <= x <= 10 are allowed
    sum        := product (("+" | "-") product)*
    product    := unary (("*" | "/") unary)*               one side of "*", and the right of "/", a number
    unary      := ("+" | "-") unary | atom
    atom       := NUMBER | NAME ["'"] | ("abs" | "min" | "max") "(" sum ("," sum)* ")" | "(" sum ")"

A NAME is a word with an optional index, as in `rlevel[t1]`, or anything between backquotes. A prime marks the next
state. Results are `PiecewiseLinear` functions over the positions that the scope gives to the names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from reluplan.errors import InputError
from reluplan.piecewise import PiecewiseLinear

FUNCTIONS = ("abs", "min", "max")
NAME_PATTERN = r"[^\W\d]\w*(?:\[[^\]\[]*\])?"
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
    rf"|`(?P<quoted>[^`]+)`|(?P<name>{NAME_PATTERN})|(?P<symbol><=|>=|==|[-+*/(),'<>=]))"
)


@dataclass(frozen=True)
class Scope:
    """The names an expression may use.

    positions: name (with a trailing ' for next-state names) to position in the vector w.
    constants: name to number. width: length of w. elsewhere: names not allowed here, with the reason.
    """

    positions: Mapping[str, int]
    constants: Mapping[str, float]
    width: int
    elsewhere: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Constraint:
    """function(w) <= 0, or == 0 if `equality`; `text` is what the user wrote."""

    function: PiecewiseLinear
    equality: bool
    text: str


def parse_expression(text: str, scope: Scope, where: str) -> PiecewiseLinear:
    """Parse a function, such as a reward; `where` names the file and key in errors."""
    parser = _Parser(text, scope, where)
    function = parser.sum()
    parser.expect_end()
    return function


def parse_constraints(text: str, scope: Scope, where: str) -> list[Constraint]:
    """Parse a comparison; a chain a <= b <= c gives one constraint for each sign."""
    parser = _Parser(text, scope, where)
    left = parser.sum()
    constraints = []
    while parser.peek() in ("<=", ">=", "=="):
        sign = parser.take()
        right = parser.sum()
        difference = right - left if sign == ">=" else left - right
        constraints.append(Constraint(difference, sign == "==", text))
        left = right
    if not constraints or parser.peek() in ("<", ">", "="):
        advice = {"<": "write <= (strict signs have no meaning here)", ">": "write >=", "=": "write =="}
        raise parser.error(
            "expected one of <=, >=, == here" + (f": {advice[s]}" if (s := parser.peek()) in advice else "")
        )
    parser.expect_end()
    return constraints


def quote(name: str) -> str:
    """The name as an expression must write it."""
    plain = re.fullmatch(NAME_PATTERN, name) and name not in FUNCTIONS
    return name if plain else f"`{name}`"


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    column: int


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str, scope: Scope, where: str) -> None:
        self._text, self._scope, self._where = text, scope, where
        self._index = 0
        self._tokens = self._tokenize()

    def error(self, message: str, column: int | None = None) -> InputError:
        """An error that points at a column (the current token's by default)."""
        at = self._tokens[self._index].column if column is None else column
        return InputError(f"{self._where}: {message}, at column {at + 1}:\n    {self._text}\n    {' ' * at}^")

    def peek(self) -> str:
        """The current token, if it is a symbol; '' otherwise."""
        token = self._tokens[self._index]
        return token.text if token.kind == "symbol" else ""

    def take(self) -> str:
        token = self._tokens[self._index]
        self._index += 1
        return token.text

    def expect_end(self) -> None:
        if self._tokens[self._index].kind != "end":
            raise self.error(f"unexpected '{self._tokens[self._index].text}'")

    def sum(self) -> PiecewiseLinear:
        value = self._product()
        while self.peek() in ("+", "-"):
            value = value + self._product() if self.take() == "+" else value - self._product()
        return value

    def _tokenize(self) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        while self._text[position:].strip():
            match = _TOKEN.match(self._text, position)
            if match is None:
                start = position + len(self._text[position:]) - len(self._text[position:].lstrip())
                self._tokens = tokens
                raise self.error(f"cannot read '{self._text[start]}'", start)
            kind = str(match.lastgroup)
            tokens.append(_Token("name" if kind == "quoted" else kind, match[kind], match.start(kind)))
            position = match.end()
        return [*tokens, _Token("end", "", len(self._text))]

    def _product(self) -> PiecewiseLinear:
        value = self._unary()
        while self.peek() in ("*", "/"):
            column = self._tokens[self._index].column
            sign = self.take()
            other = self._unary()
            if sign == "/":
                value = self._quotient(value, other, column)
            elif other.is_constant:
                value = value * other.constant
            elif value.is_constant:
                value = other * value.constant
            else:
                raise self.error("a product of two variables is not piecewise linear", column)
        return value

    def _quotient(self, value: PiecewiseLinear, divisor: PiecewiseLinear, column: int) -> PiecewiseLinear:
        if not divisor.is_constant:
            raise self.error("division by a variable is not piecewise linear", column)
        if divisor.constant == 0.0:
            raise self.error("division by zero", column)
        return value * (1.0 / divisor.constant)

    def _unary(self) -> PiecewiseLinear:
        if self.peek() in ("+", "-"):
            return -self._unary() if self.take() == "-" else self._unary()
        return self._atom()

    def _atom(self) -> PiecewiseLinear:
        token = self._tokens[self._index]
        if token.kind == "number":
            self._index += 1
            return PiecewiseLinear.constant_of(float(token.text), self._scope.width)
        if token.kind == "name":
            self._index += 1
            if token.text in FUNCTIONS and self.peek() == "(":
                return self._call(token)
            return self._named(token)
        if self.peek() == "(":
            self._index += 1
            value = self.sum()
            self._close()
            return value
        raise self.error("the expression ends too early" if token.kind == "end" else f"unexpected '{token.text}'")

    def _call(self, function: _Token) -> PiecewiseLinear:
        self._index += 1
        arguments = [self.sum()]
        while self.peek() == ",":
            self._index += 1
            arguments.append(self.sum())
        self._close()
        if function.text == "abs":
            if len(arguments) != 1:
                raise self.error(f"abs takes one argument, got {len(arguments)}", function.column)
            arguments = [arguments[0], -arguments[0]]
        constants = [argument.constant for argument in arguments if argument.is_constant]
        if len(constants) == len(arguments):
            value = min(constants) if function.text == "min" else max(constants)
            return PiecewiseLinear.constant_of(value, self._scope.width)
        combine = PiecewiseLinear.minimum if function.text == "min" else PiecewiseLinear.maximum
        return combine(arguments)

    def _close(self) -> None:
        if self.peek() != ")":
            raise self.error("expected ')'")
        self._index += 1

    def _named(self, token: _Token) -> PiecewiseLinear:
        name = token.text
        if self.peek() == "'":
            self._index += 1
            name += "'"
        if name in self._scope.positions:
            return PiecewiseLinear.variable(self._scope.positions[name], self._scope.width)
        if name in self._scope.constants:
            return PiecewiseLinear.constant_of(self._scope.constants[name], self._scope.width)
        if name in self._scope.elsewhere:
            raise self.error(f"'{name}' may not be used here: {self._scope.elsewhere[name]}", token.column)
        if name in FUNCTIONS:
            raise self.error(f"'{name}' is a function: write {name}(...)", token.column)
        near = difflib.get_close_matches(name, [*self._scope.positions, *self._scope.constants], n=1)
        known = f"did you mean '{near[0]}'?" if near else "known names: " + ", ".join(sorted(self._scope.positions))
        raise self.error(f"unknown variable '{name}' ({known})", token.column)
