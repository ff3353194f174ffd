"""Which transitions are learned from, which decide when to stop, and which only judge the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions
from reluplan.errors import InputError

Index = NDArray[np.int64]
By = Literal["episodes", "blocks", "rows"]

FEWEST_ROWS = 30
"""With fewer transitions, held-out ones say nothing."""

FEWEST_EPISODES = 5
"""Fewer episodes are cut into runs of consecutive steps: whole ones would leave too little to learn from."""

BLOCKS = 20
"""The number of such runs. Single rows would not do: neighbouring steps resemble each other."""


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of the three parts, each in the order of the data, and what was kept together."""

    training: Index
    validation: Index
    test: Index
    by: By


def split_transitions(transitions: Transitions, validation_share: float, test_share: float, seed: int) -> Split:
    """Whole episodes at random; runs of steps if there are few episodes; single rows if steps do not follow each other.

    The rows are in the order of episodes and steps. The largest group is always learned from.
    """
    count = len(transitions)
    if count < FEWEST_ROWS:
        raise InputError(f"{count} transitions are too few to learn from and to judge by; at least {FEWEST_ROWS}")
    by, group = _groups(transitions)
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


def _groups(transitions: Transitions) -> tuple[By, Index]:
    """What must not be torn apart: the number 0, 1, ... of each row's group."""
    count = len(transitions)
    names, episode = np.unique(transitions.episode, return_inverse=True)
    if len(names) >= FEWEST_EPISODES:
        return "episodes", episode
    if follows_previous(transitions)[1:].mean() > 0.5:
        return "blocks", np.arange(count) * BLOCKS // count
    return "rows", np.arange(count)


def follows_previous(transitions: Transitions) -> NDArray[np.bool_]:
    """Whether each row goes on where the row before it ended, shape (N,)."""
    follows = np.zeros(len(transitions), dtype=bool)
    follows[1:] = (
        (np.diff(transitions.episode) == 0)
        & (np.diff(transitions.step) == 1)
        & np.isclose(transitions.states[1:], transitions.next_states[:-1], rtol=1e-6, atol=1e-9).all(axis=1)
    )
    return follows
