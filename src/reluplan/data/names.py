"""Spellings of variable names: what spreadsheets and pyRDDLGym make of `rlevel[t1]`."""

from __future__ import annotations

import re

GROUND_SEPARATOR = "___"
OBJECT_SEPARATOR = "__"
"""pyRDDLGym writes rlevel[t1] as rlevel___t1, and x[a,b] as x___a__b."""

PRIMES = ("'", "’", "′")
"""What marks a next state; word processors turn the plain quote into one of the others."""


def bracket_name(name: str) -> str:
    """The name of a grounded fluent as problem files write it.

    >>> bracket_name("rlevel___t1"), bracket_name("link___a__b"), bracket_name("speed")
    ('rlevel[t1]', 'link[a,b]', 'speed')
    """
    base, separator, objects = name.partition(GROUND_SEPARATOR)
    return f"{base}[{objects.replace(OBJECT_SEPARATOR, ',')}]" if separator and base and objects else name


def plain_name(name: str) -> str:
    """A form in which all spellings of one name agree: no outer spaces, small letters, objects in brackets.

    >>> plain_name(" RLevel___T1 ") == plain_name("rlevel[t1]") == plain_name("rlevel( t1 )")
    True
    """
    name = bracket_name(" ".join(name.replace("\ufeff", "").casefold().split()))
    if name.endswith(")"):
        name = re.sub(r" ?\(([^()]*)\)$", r"[\1]", name)
    return re.sub(r" ?([\[\],]) ?", r"\1", name) if "[" in name or "," in name or "]" in name else name


def next_state_base(name: str) -> str | None:
    """The state whose next value a column holds, by its marking: x', next_x or x_next; None if it has none.

    >>> next_state_base("x'"), next_state_base("next_x"), next_state_base("X_next"), next_state_base("x")
    ('x', 'x', 'X', None)
    """
    name = name.replace("\ufeff", "").strip()
    for prime in PRIMES:
        if name.endswith(prime):
            return name.removesuffix(prime)
    if name.lower().startswith("next_"):
        return name[len("next_") :]
    return name[: -len("_next")] if name.lower().endswith("_next") else None
