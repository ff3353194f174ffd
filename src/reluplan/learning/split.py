"""Which transitions are learned from, which decide when to stop, and which only judge the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions, follows_previous
from reluplan.errors import InputError
from reluplan.learning.settings import SplitSettings

Index = NDArray[np.int64]
By = Literal["episodes", "blocks", "rows"]

DEFAULT = SplitSettings()


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of the three parts, each in the order of the data, and what was kept together."""

    training: Index
    validation: Index
    test: Index
    by: By


def split_transitions(
    transitions: Transitions, validation_share: float, test_share: float, seed: int, settings: SplitSettings = DEFAULT
) -> Split:
    """Whole episodes at random; runs of steps if there are few episodes; single rows if steps do not follow each other.

    The rows are in the order of episodes and steps. The largest group is always learned from.
    """
    count = len(transitions)
    if count < settings.fewest_rows:
        raise InputError(
            f"{count} transitions are too few to learn from and to judge by; at least {settings.fewest_rows}"
        )
    by, group = _groups(transitions, settings)
    sizes = np.bincount(group)
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = np.append(order[order != sizes.argmax()], sizes.argmax())
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    ends = np.cumsum(sizes[order])
    shares = np.array([test_share, test_share + validation_share])
    test, validation = np.searchsorted(ends, shares * count + 1e-9, side="right").tolist()
    test = min(max(test, 1), len(sizes) - 2)
    validation = min(max(validation, test + 1), len(sizes) - 1)
    place = position[group]
    return Split(
        training=np.flatnonzero(place >= validation),
        validation=np.flatnonzero((place >= test) & (place < validation)),
        test=np.flatnonzero(place < test),
        by=by,
    )


def _groups(transitions: Transitions, settings: SplitSettings) -> tuple[By, Index]:
    """What must not be torn apart: the number 0, 1, ... of each row's group."""
    count = len(transitions)
    names, episode = np.unique(transitions.episode, return_inverse=True)
    if len(names) >= settings.fewest_episodes:
        return "episodes", episode
    if follows_previous(transitions)[1:].mean() > 0.5:
        return "blocks", np.arange(count) * settings.blocks // count
    return "rows", np.arange(count)
