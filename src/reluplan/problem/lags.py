"""What a variable was some steps ago: `lag(x, k)`.

A state or action has a chain of further states, l_1' = x and l_j' = l_{j−1}, with known transitions: l_k is lag(x, k).
A series has a series that is shifted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reluplan.problem.expression import lags_in, quote

LONGEST_LAG = 1_000
"""Steps; each is a state more."""


@dataclass(frozen=True)
class Lag:
    """A state that holds what a state or an action was some steps ago."""

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


def longest_lags(texts: Iterable[str]) -> dict[str, int]:
    """How far back each variable is read."""
    longest: dict[str, int] = {}
    for text in texts:
        for variable, steps in lags_in(text):
            longest[variable] = max(steps, longest.get(variable, 0))
    return longest


def chains(longest: Mapping[str, int], variables: Iterable[str]) -> Iterator[Lag]:
    """The further states that some variables need."""
    for variable in variables:
        for steps in range(1, longest.get(variable, 0) + 1):
            yield Lag(variable, steps)
