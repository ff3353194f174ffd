"""Conditions on a row of numbers, in the language of problem files.

    condition  := clause ("or" clause)*
    clause     := comparison ("and" comparison)*
    comparison := sum (("<" | "<=" | ">" | ">=" | "==") sum)+

`and` binds before `or`. Unlike the constraints of a plan, a condition may be strict: data are what they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.expression import Parser, Scope
from reluplan.problem.piecewise import PiecewiseLinear

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

SIGNS = ("<=", ">=", "==", "<", ">")


@dataclass(frozen=True, eq=False)
class Comparison:
    """left sign right, as difference = left − right."""

    difference: PiecewiseLinear
    sign: str

    def holds(self, rows: Array) -> Mask:
        value = self.difference.evaluate(np.where(self.difference.support(), rows, 0.0))  # 0 · NaN would be NaN
        if self.sign == "==":
            return np.asarray(value == 0.0)
        if self.sign in ("<", ">"):
            return np.asarray(value < 0.0 if self.sign == "<" else value > 0.0)
        return np.asarray(value <= 0.0 if self.sign == "<=" else value >= 0.0)


@dataclass(frozen=True, eq=False)
class Condition:
    """Holds where every comparison of one of its clauses does."""

    clauses: tuple[tuple[Comparison, ...], ...]
    text: str

    def holds(self, rows: Array) -> Mask:
        """For each row, shape (N, width), whether it holds; where a number is missing, no comparison does."""
        with np.errstate(invalid="ignore"):
            clauses = [np.all([part.holds(rows) for part in clause], axis=0) for clause in self.clauses]
        return np.asarray(np.any(clauses, axis=0))


def parse_condition(text: str, scope: Scope, where: str) -> Condition:
    """Parse a condition; `where` says in errors where the text stands."""
    with np.errstate(over="ignore", invalid="ignore"):
        parser = _ConditionParser(text, scope, where)
        clauses = [parser.clause()]
        while parser.take_word("or"):
            clauses.append(parser.clause())
        parser.expect_end()
    return Condition(tuple(clauses), text)


class _ConditionParser(Parser):
    """Comparisons joined by words."""

    signs = SIGNS

    def clause(self) -> tuple[Comparison, ...]:
        found = self._chain()
        while self.take_word("and"):
            found += self._chain()
        return tuple(found)

    def _chain(self) -> list[Comparison]:
        """A comparison, or several in a chain such as 0 <= x < 10."""
        left = self.sum()
        found: list[Comparison] = []
        while not found or self.peek() in (*SIGNS, "=", "!"):
            sign = self.comparison()
            right = self.sum()
            found.append(Comparison(self.finite(left - right), sign))
            left = right
        return found

    def take_word(self, word: str) -> bool:
        """Take a word if it comes next."""
        token = self._tokens[self._index]
        is_next = token.kind == "name" and token.text == word
        self._index += is_next
        return is_next
