"""How errors name things: short, with the nearest known name."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

LISTED_NAMES = 12
"""How many names an error lists."""

COMPARED_NAMES = 5_000
"""How many names a misspelt one is compared with: the comparison takes a while for each."""

SHOWN_VALUE = 200
"""How many characters of a value an error shows."""


def did_you_mean(name: str, known: Iterable[str], label: str) -> str:
    """The known name that a misspelt one stands for or, if none is near, a list of known names."""
    names = sorted(known)
    near = difflib.get_close_matches(name[:SHOWN_VALUE], names[:COMPARED_NAMES], n=1)
    if near:
        return f"did you mean '{shortened(near[0])}'?"
    listed = ", ".join(shortened(known) for known in names[:LISTED_NAMES])
    return f"{label}: {listed}{', ...' if len(names) > LISTED_NAMES else ''}"


def shortened(text: str) -> str:
    """The text, or the start of a very long one: nobody reads a megabyte on a screen."""
    return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}..."


def shown(value: Any) -> str:
    """A value of a file as an error shows it: short, whatever it is."""
    if isinstance(value, int) and value.bit_length() > SHOWN_VALUE:  # Python refuses to print thousands of digits
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, (str, list, dict)):
        return _SHORT.repr(value)
    return shortened(repr(value))


class _ShortRepr(reprlib.Repr):
    """Like repr, but with few items, few levels and few characters."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxlist = 20
        self.maxdict = 20
        self.maxstring = self.maxother = SHOWN_VALUE

    def repr_int(self, x: int, level: int) -> str:
        return shown(x)


_SHORT = _ShortRepr()
