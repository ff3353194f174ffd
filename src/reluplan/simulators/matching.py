"""The variables of a problem among those of a simulator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reluplan.data.names import plain_name
from reluplan.errors import InputError
from reluplan.wording import did_you_mean

Index = NDArray[np.int64]


def match_names(known: Sequence[str], wanted: Sequence[str], what: str, source: str) -> Index:
    """The position of each wanted name among the known ones: exactly, or in another spelling."""
    return np.array([_match(known, name, what, source) for name in wanted], dtype=np.int64)


def _match(known: Sequence[str], name: str, what: str, source: str) -> int:
    if name in known:
        return known.index(name)
    plain = plain_name(name)
    places = [at for at, other in enumerate(known) if plain_name(other) == plain]
    if len(places) != 1:
        hint = did_you_mean(name, known, "it has")
        raise InputError(f"{source}: the simulator has no {what} '{name}' ({hint})")
    return places[0]
