"""All patterns of a domain, by a search over neighbouring regions, for where there are few."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.potentials.features import neighbours
from reluplan.potentials.pattern_store import PatternStore

Entries = NDArray[np.int8]


def enumerate_patterns(store: PatternStore, seeds: Iterable[Entries], most: int, deadline: float = math.inf) -> bool:
    """Solve every pattern that is reached from the seeds; False if there are more than `most`, or time is out.

    The store knows then that it is complete.

    Regions are closed: a step between two of them lies in both, and so in every pattern that differs from these in
    edges through the step. Moving one unit at a time therefore reaches all patterns of a connected set of steps. One LP
    says whether a neighbour is empty, so P patterns of K units cost up to 2 K P of them.
    """
    found = [at for seed in seeds if (at := store.solve(seed, deadline)) is not None]
    waiting = list(dict.fromkeys(found))
    seen = set(found)
    while waiting:
        for neighbour in neighbours(store.entries[waiting.pop()], store.features.interval_count):
            at = store.solve(neighbour, deadline)
            if at is not None and at not in seen:
                seen.add(at)
                waiting.append(at)
        if len(seen) > most or clock.now() > deadline:
            return False
    store.is_complete = clock.now() <= deadline
    return store.is_complete
