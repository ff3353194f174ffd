"""Entries in order of size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from reluplan.network.affine import Affine, concatenated
from reluplan.network.torch.call import Call


def in_order(call: Call) -> list[Any]:
    """All entries along an axis, ascending or descending."""
    places = range(call["self"].shape[call["dim"]])
    return _at_places(call, places[::-1] if call["descending"] else places)


def largest_k(call: Call) -> list[Any]:
    """The k largest or smallest entries along an axis."""
    places = range(call["self"].shape[call["dim"]])
    return _at_places(call, (places[::-1] if call["largest"] else places)[: call["k"]])


def median(call: Call) -> list[Any]:
    """The lower of the two in the middle."""
    values, _ = _at_places(call, [(call["self"].shape[call["dim"]] - 1) // 2])
    axis = call["self"].axis(call["dim"])
    return [values if call["keepdim"] else values.rearranged(lambda entries: entries.squeeze(axis)), None]


def _at_places(call: Call, places: Sequence[int]) -> list[Any]:
    """The entries at these places of the ascending order; where they stood is not known."""
    axis = call["self"].axis(call["dim"])
    entries = _ascending(call).rearranged(partial(np.take, indices=list(places), axis=-1))
    return [entries.rearranged(lambda values: np.moveaxis(values, -1, axis)), None]


def _ascending(call: Call) -> Affine:
    """The entries along the axis of the call in ascending order, with that axis last.

    Batcher's odd-even merge sort: stages of comparators (a, b) -> (min, max) of disjoint pairs, a layer of units each.
    """
    axis = call["self"].axis(call["dim"])
    entries = call.tensor("self").rearranged(lambda values: np.moveaxis(values, axis, -1))
    count = entries.shape[-1]
    for lows, highs in _comparator_stages(count):
        a, b = (entries.rearranged(partial(np.take, indices=places, axis=-1)) for places in (lows, highs))
        largest = call.builder.maximum(a, b)
        joined = concatenated([entries, a + b - largest, largest], -1)
        order = np.arange(count)
        order[lows] = count + np.arange(len(lows))
        order[highs] = count + len(lows) + np.arange(len(lows))
        entries = joined.rearranged(partial(np.take, indices=order, axis=-1))
    return entries


def _comparator_stages(count: int) -> Iterable[tuple[list[int], list[int]]]:
    """The lower and upper places of the comparators, stage by stage."""
    block = 1
    while block < count:
        distance = block
        while distance:
            starts = range(distance % block, count - distance, 2 * distance)
            lows = [start + i for start in starts for i in range(min(distance, count - start - distance))]
            lows = [low for low in lows if low // (2 * block) == (low + distance) // (2 * block)]
            yield lows, [low + distance for low in lows]
            distance //= 2
        block *= 2
