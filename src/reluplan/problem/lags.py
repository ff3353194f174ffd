"""What a variable was some steps ago: `lag(x, k)`.

A state or action has a chain of further states, l_1' = x and l_j' = l_{j−1}, with known transitions: l_k is lag(x, k).
A series has a series that is shifted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reluplan.problem.expression import lags_in, quote

LONGEST_LAG = 1_000
"""Steps; each is a state more."""


@dataclass(frozen=True, order=True)
class Lag:
    """What a variable was some steps ago; of a state or an action a state that holds it."""

    variable: str
    steps: int

    @property
    def name(self) -> str:
        return lag_name(self.variable, self.steps)

    @property
    def source(self) -> str:
        """The variable whose value before the step it takes."""
        return self.variable if self.steps == 1 else lag_name(self.variable, self.steps - 1)

    @property
    def transition(self) -> str:
        """The expression of its known transition."""
        return quote(self.variable) if self.steps == 1 else f"lag({quote(self.variable)}, {self.steps - 1})"


def lag_name(variable: str, steps: int) -> str:
    """The name of what a variable was some steps ago.

    >>> lag_name("power", 2)
    'lag(power, 2)'
    """
    return f"lag({variable}, {steps})"


def named_lag(name: str) -> Lag | None:
    """The lag that a name stands for, as in a list of inputs; None for other names.

    >>> named_lag("lag( room temp,2 )"), named_lag("temp")
    (Lag(variable='room temp', steps=2), None)
    """
    found = re.fullmatch(r"\s*lag\s*\(\s*(.+?)\s*,\s*(\d{1,9})\s*\)\s*", name)
    return None if found is None else Lag(found[1].strip("`"), int(found[2]))


def spelt(name: str) -> str:
    """A name in a list as it is declared: `lag( x,2 )` is `lag(x, 2)`."""
    found = named_lag(name)
    return name if found is None else found.name


def longest_lags(expressions: Iterable[str], names: Iterable[str]) -> dict[str, int]:
    """How far back each variable is read, in expressions and by names that stand for lags."""
    lags = [Lag(*found) for text in expressions for found in lags_in(text)]
    lags += [lag for lag in map(named_lag, names) if lag is not None]
    longest: dict[str, int] = {}
    for lag in lags:
        longest[lag.variable] = max(lag.steps, longest.get(lag.variable, 0))
    return longest


def chains(longest: Mapping[str, int], variables: Iterable[str]) -> Iterator[Lag]:
    """The further states that some variables need."""
    for variable in variables:
        for steps in range(1, longest.get(variable, 0) + 1):
            yield Lag(variable, steps)
