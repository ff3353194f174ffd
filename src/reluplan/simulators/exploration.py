"""How actions and first states are chosen when data are collected."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from reluplan.errors import InputError
from reluplan.simulators.settings import DEFAULT_EXPLORATION, ExplorationSettings

Array = NDArray[np.float64]
Exploration = Literal["uniform", "smooth", "latin"]


def check_exploration(name: str) -> None:
    """Complain about an unknown way to explore."""
    if name not in get_args(Exploration):
        raise InputError(f"unknown exploration '{name}'; choose one of {', '.join(get_args(Exploration))}")


def action_fractions(
    exploration: str,
    steps: int,
    count: int,
    rng: np.random.Generator,
    settings: ExplorationSettings = DEFAULT_EXPLORATION,
) -> Array:
    """Where in their ranges the actions of one episode lie, each in [0, 1], shape (steps, count).

    uniform, latin: independent. smooth: z_{t+1} = ρ z_t + sqrt(1 − ρ²) ε_t with standard normal ε, and the fraction
    is Φ(z), which is uniform, stretched so that both ends are reached.
    """
    if exploration != "smooth":
        return rng.random((steps, count))
    memory = rng.uniform(*settings.memory)
    noise = rng.standard_normal((steps, count))
    filtered = np.empty_like(noise)
    value = rng.standard_normal(count)
    for t in range(steps):
        value = memory * value + np.sqrt(1.0 - memory**2) * noise[t]
        filtered[t] = value
    fractions: Array = ndtr(filtered)
    return np.clip(0.5 + settings.stretch * (fractions - 0.5), 0.0, 1.0)


def latin_hypercube(count: int, width: int, rng: np.random.Generator) -> Array:
    """`count` points of the unit cube: in every coordinate, one in each of `count` equal parts."""
    ranks = np.column_stack([rng.permutation(count) for _ in range(width)]) if width else np.empty((count, 0))
    return np.asarray((ranks + rng.random((count, width))) / count)
