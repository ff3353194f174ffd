"""The expression language of problem files: a small grammar, never `eval`.

    comparison := sum (("<=" | ">=" | "==") sum)+          chains such as 0 <= x <= 10 are allowed
    sum        := product (("+" | "-") product)*
    product    := unary (("*" | "/") unary)*               one side of "*", and the right of "/", known at every step
    unary      := ("+" | "-") unary | atom
    atom       := NUMBER | NAME ["'"] | ("abs" | "min" | "max") "(" sum ("," sum)* ")" | "(" sum ")"
                | "lag" "(" NAME "," NUMBER ")"

A NAME is a word with an optional index, as in `rlevel[t1]`, or anything between backquotes. A prime marks the next
state. Known are numbers, constants and series, and what is made of them. Line breaks count as spaces. Results are
`PiecewiseLinear` functions over the positions that the scope gives to the names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.wording import did_you_mean, shortened

Array = NDArray[np.float64]

FUNCTIONS = ("abs", "min", "max", "lag")
COMPARISONS = ("<=", ">=", "==")
DEEPEST = 100
"""How many brackets may stand inside each other."""

SHOWN_BEFORE = 60
SHOWN_AFTER = 40
"""How much of a long expression an error shows around the place it points at."""

NAME_PATTERN = r"[^\W\d]\w*(?:\[[^\]\[]*\])?"
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
    rf"|`(?P<quoted>[^`]+)`|(?P<name>{NAME_PATTERN})|(?P<symbol><=|>=|==|[-+*/(),'<>=!]))"
)

_LAG = re.compile(rf"\blag\s*\(\s*(?:`(?P<quoted>[^`]+)`|(?P<name>{NAME_PATTERN}))\s*,\s*(?P<steps>\d{{1,9}})\s*\)")


@dataclass(frozen=True)
class Scope:
    """The names an expression may use.

    positions: name (with a trailing ' for next-state names) to position in the vector w.
    constants: name to number. width: length of w. elsewhere: names not allowed here, with the reason.
    series: positions of what is known at every step, and may be multiplied with.
    """

    positions: Mapping[str, int]
    constants: Mapping[str, float]
    width: int
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    series: frozenset[int] = frozenset()

    def is_known(self, function: PiecewiseLinear) -> bool:
        """Whether a function reads series alone."""
        return bool(self.series) and self.series.issuperset(np.flatnonzero(function.support()).tolist())


@dataclass(frozen=True, eq=False)
class Constraint:
    """function(w) <= 0, or == 0 if `equality`; `text` is what the user wrote."""

    function: PiecewiseLinear
    equality: bool
    text: str

    def violation(self, w: Array) -> Array:
        """By how much each row of w, shape (..., width), breaks it: |g(w)| of an equation, else g(w); shape (...)."""
        value = self.function.evaluate(w)
        return np.abs(value) if self.equality else value


def parse_expression(text: str, scope: Scope, where: str) -> PiecewiseLinear:
    """Parse a function, such as a reward; `where` names the file and key in errors."""
    with np.errstate(over="ignore", invalid="ignore"):
        parser = Parser(text, scope, where)
        function = parser.sum()
        parser.expect_end()
        return parser.finite(function)


def parse_constraints(text: str, scope: Scope, where: str) -> list[Constraint]:
    """Parse a comparison; a chain a <= b <= c gives one constraint for each sign."""
    with np.errstate(over="ignore", invalid="ignore"):
        parser = Parser(text, scope, where)
        left = parser.sum()
        constraints: list[Constraint] = []
        while not constraints or parser.peek() in _SIGN_LIKE:
            sign = parser.comparison()
            right = parser.sum()
            difference = right - left if sign == ">=" else left - right
            constraints.append(Constraint(parser.finite(difference), sign == "==", text))
            left = right
        parser.expect_end()
        return constraints


def lags_in(text: str) -> list[tuple[str, int]]:
    """The variables that a text reads as they were some steps ago, and how many; of a faulty text, some of them."""
    return [(match["quoted"] or match["name"], int(match["steps"])) for match in _LAG.finditer(text)]


def quote(name: str) -> str:
    """The name as an expression must write it."""
    plain = re.fullmatch(NAME_PATTERN, name) and name not in FUNCTIONS
    return name if plain else f"`{name}`"


_SIGN_LIKE = (*COMPARISONS, "<", ">", "=", "!")
_SIGN_ADVICE = {
    "<": "; write <=, since a strict sign has no meaning for real numbers",
    ">": "; write >=, since a strict sign has no meaning for real numbers",
    "=": "; write ==",
    "=<": "; write <=",
    "=>": "; write >=",
}
_CHARACTER_ADVICE = {
    "^": "; powers are not piecewise linear",
    "`": "; the closing backquote is missing",
    "[": "; an index stands right behind its name, as in x[t1]",
}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    column: int


class Parser:
    """Recursive descent over the tokens of one expression; signs: what a comparison may consist of."""

    signs: tuple[str, ...] = COMPARISONS

    def __init__(self, text: str, scope: Scope, where: str) -> None:
        self._text = text
        self._scope = scope
        self._where = where
        self._index = self._depth = 0
        self._tokens = self._tokenize()

    def error(self, message: str, column: int | None = None) -> InputError:
        """An error that points at a column (the current token's by default)."""
        at = self._tokens[self._index].column if column is None else column
        return InputError(f"{self._where}: {message}, {_point_at(self._text, at)}")

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
            raise self._unexpected()

    def comparison(self) -> str:
        """Take one of the comparison signs."""
        sign = self.peek()
        if sign not in self.signs:
            following = self._tokens[self._index + 1] if sign == "=" else None
            sign += following.text if following is not None and following.text in ("<", ">") else ""
            raise self.error(f"expected one of {', '.join(self.signs)} here" + _SIGN_ADVICE.get(sign, ""))
        return self.take()

    def finite(self, function: PiecewiseLinear) -> PiecewiseLinear:
        """The function, unless its numbers have overflowed."""
        if not function.is_finite:
            raise InputError(f"{self._where}: the numbers in '{shortened(self._text)}' overflow; scale the variables")
        return function

    def sum(self) -> PiecewiseLinear:
        values = [self._product()]
        while self.peek() in ("+", "-"):
            values.append(self._product() if self.take() == "+" else -self._product())
        return PiecewiseLinear.total(values)

    def _tokenize(self) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        end = len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None:
                character = self._text[position:].lstrip()[0]
                advice = _CHARACTER_ADVICE.get(character, "")
                raise self.error(f"cannot read '{character}'{advice}", self._text.index(character, position))
            kind = str(match.lastgroup)
            tokens.append(_Token(kind, match[kind], match.start(kind)))
            position = match.end()
        return [*tokens, _Token("end", "", end)]

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
            elif self._scope.is_known(other):
                value = value.times(other)
            elif self._scope.is_known(value):
                value = other.times(value)
            else:
                raise self.error("a product of two variables is not piecewise linear", column)
        return value

    def _quotient(self, value: PiecewiseLinear, divisor: PiecewiseLinear, column: int) -> PiecewiseLinear:
        if self._scope.is_known(divisor) and not divisor.is_constant:
            return value.times(divisor, divides=True)
        if not divisor.is_constant:
            raise self.error("division by a variable is not piecewise linear", column)
        if divisor.constant == 0.0:
            raise self.error("division by zero", column)
        return value / divisor.constant

    def _unary(self) -> PiecewiseLinear:
        negative = False
        while self.peek() in ("+", "-"):
            negative ^= self.take() == "-"
        value = self._atom()
        return -value if negative else value

    def _atom(self) -> PiecewiseLinear:
        token = self._tokens[self._index]
        if token.kind == "end":
            raise self.error("the expression ends too early" if self._index else "the expression is empty")
        self._index += 1
        if token.kind == "number":
            return PiecewiseLinear.constant_of(self._number(token), self._scope.width)
        if token.kind == "name" and token.text in FUNCTIONS and self.peek() == "(":
            return self._call(token)
        if token.kind in ("name", "quoted"):
            return self._named(token)
        if token.text == "(":
            return self._bracket(token, several=False)[0]
        self._index -= 1
        raise self._unexpected()

    def _number(self, token: _Token) -> float:
        value = float(token.text)
        if math.isinf(value):
            raise self.error(f"the number {shortened(token.text)} is too large", token.column)
        return value

    def _bracket(self, opening: _Token, several: bool) -> list[PiecewiseLinear]:
        """What stands after an opening bracket, with its closing one: a sum, or `several` with commas between."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise self.error(f"more than {DEEPEST} brackets inside each other", opening.column)
        values = [self.sum()]
        while several and self.peek() == ",":
            self._index += 1
            values.append(self.sum())
        if self.peek() != ")":
            raise self.error("expected ')'")
        self._index += 1
        self._depth -= 1
        return values

    def _call(self, function: _Token) -> PiecewiseLinear:
        self._index += 1
        if function.text == "lag":
            return self._lag(function)
        arguments = self._bracket(function, several=True)
        if function.text == "abs":
            if len(arguments) != 1:
                raise self.error(f"abs takes one argument, got {len(arguments)}", function.column)
            if arguments[0].is_constant:
                return PiecewiseLinear.constant_of(abs(arguments[0].constant), self._scope.width)
            return PiecewiseLinear.absolute(arguments[0])
        constants = [argument.constant for argument in arguments if argument.is_constant]
        if len(constants) == len(arguments):
            value = min(constants) if function.text == "min" else max(constants)
            return PiecewiseLinear.constant_of(value, self._scope.width)
        combine = PiecewiseLinear.minimum if function.text == "min" else PiecewiseLinear.maximum
        return combine(arguments)

    def _lag(self, function: _Token) -> PiecewiseLinear:
        """What stands after `lag(`: a name, and a number of steps."""
        name, comma, steps, closing = [*self._tokens[self._index :], *[self._tokens[-1]] * 4][:4]
        is_name = name.kind in ("name", "quoted")
        if not (is_name and comma.text == "," and steps.text.isdigit() and closing.text == ")"):
            raise self.error("lag takes a variable and a whole number of steps, as in lag(x, 1)", function.column)
        self._index += 4
        if self.peek() == "'":
            raise self.error("the next value of a lag is that of one step less", function.column)
        if int(steps.text) == 0:
            return self._named(name)
        text = f"lag({name.text}, {int(steps.text)})"
        if text not in {*self._scope.positions, *self._scope.constants, *self._scope.elsewhere}:
            self._named(name)  # complains unless there is such a variable
            raise self.error(f"{text} is not known here", function.column)
        return self._named(_Token("name", text, function.column))

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
        hint = did_you_mean(name, [*self._scope.positions, *self._scope.constants], "known names")
        raise self.error(f"unknown variable '{shortened(name)}' ({hint})", token.column)

    def _unexpected(self) -> InputError:
        token = self._tokens[self._index]
        before = self._tokens[self._index - 1] if self._index else _Token("start", "", 0)
        advice = ""
        if token.kind in ("name", "quoted", "number") and before.kind == "number":
            advice = f"; write {before.text}*{token.text} for a product"
        elif token.text == "*" == before.text:
            advice = _CHARACTER_ADVICE["^"]
        elif token.text in _SIGN_LIKE:
            advice = "; a comparison has no place here"
        return self.error(f"unexpected '{token.text}'{advice}")


def _point_at(text: str, at: int) -> str:
    """Names the position and shows its line, shortened if it is long, with a caret below."""
    start = text.rfind("\n", 0, at) + 1
    line = text[start:].partition("\n")[0]
    column = at - start
    first = max(0, column - SHOWN_BEFORE)
    shown = "…" * (first > 0) + line[first : column + SHOWN_AFTER] + "…" * (len(line) > column + SHOWN_AFTER)
    indent = "".join("\t" if character == "\t" else " " for character in shown[: column - first + (first > 0)])
    row = f"line {text.count(chr(10), 0, at) + 1}, " if "\n" in text.strip() else ""
    return f"at {row}column {column + 1}:\n    {shown}\n    {indent}^"
