"""A hash of everything that an object holds, by construction: a field that is added later is in it."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import sys
from collections.abc import Mapping

import numpy as np

DEEPEST = 10_000
"""Frames that a walk may take: a hundred nested brackets, the most in an expression, need some two thousand."""
Irrelevant = Mapping[tuple[str, str], str]
"""(class, field): the reason why it is left out."""


def fingerprint(value: object, irrelevant: Irrelevant | None = None) -> str:
    """The SHA-256 of a canonical form: equal for objects that hold the same in every field that counts.

    Dataclasses are walked field by field, so a new field counts unless it is declared irrelevant, with the reason why;
    a value of a kind that is not known here is an error, never left out in silence.

    >>> fingerprint((1.0, "a")) == fingerprint((1.0, "a")), fingerprint((-0.0,)) == fingerprint((0.0,))
    (True, True)
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEPEST))
    try:
        return _Walk(irrelevant or {}).digest(value).hex()
    finally:
        sys.setrecursionlimit(limit)


class _Walk:
    """Digests of all parts of an object; a part that stands in several places, as in nested `abs`, is visited once."""

    def __init__(self, irrelevant: Irrelevant) -> None:
        self._irrelevant = irrelevant
        self._known: dict[int, bytes] = {}

    def digest(self, value: object) -> bytes:
        """The digest of bytes that name the kind and the length of every part, so that no two values share them."""
        if id(value) not in self._known:  # the root keeps every part alive, so no id is used twice
            self._known[id(value)] = hashlib.sha256(self._canonical_form(value)).digest()
        return self._known[id(value)]

    def _canonical_form(self, value: object) -> bytes:
        match value:
            case None | bool():
                return _tagged(b"constant", str(value).encode())
            case int() | np.integer():
                return _tagged(b"integer", str(int(value)).encode())
            case float() | np.floating():
                return _tagged(b"float", struct.pack("<d", float(value) + 0.0))  # + 0.0: a negative zero is zero
            case str():
                return _tagged(b"text", value.encode("utf-8", "surrogatepass"))
            case np.ndarray():
                return _of_array(value)
            case tuple() | list():
                return _tagged(b"sequence", *(self.digest(part) for part in value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._of_dataclass(value)
        raise TypeError(f"no canonical form for {type(value).__name__}: give it one, or declare its field irrelevant")

    def _of_dataclass(self, value: object) -> bytes:
        assert dataclasses.is_dataclass(value)
        kind = type(value).__name__
        names = [field.name for field in dataclasses.fields(value) if (kind, field.name) not in self._irrelevant]
        parts = [_tagged(name.encode(), self.digest(getattr(value, name))) for name in names]
        return _tagged(b"object", kind.encode(), *parts)


def _of_array(value: np.ndarray) -> bytes:
    if value.dtype.kind not in "biuf":
        raise TypeError(f"no canonical form for arrays of {value.dtype}")
    numbers = np.ascontiguousarray(value + 0.0 if value.dtype.kind == "f" else value)
    return _tagged(b"array", numbers.dtype.str.encode(), str(value.shape).encode(), numbers.tobytes())


def _tagged(kind: bytes, *parts: bytes) -> bytes:
    """The kind and the parts, each with its length before it."""
    return b"".join(str(len(part)).encode() + b":" + part for part in (kind, *parts))
