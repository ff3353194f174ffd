"""Networks learned by the product's own recipe from transitions of a simulator in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from reluplan.data import Transitions
from reluplan.learning import TrainingSettings
from reluplan.learning.train import train
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Variable
from reluplan.problem.writer import ProblemText

Array = NDArray[np.float64]
Step = Callable[[Array, Array], Array]
"""States (B, n) and actions (B, m) to next states (B, n)."""
Draw = Callable[[Generator, int], Array]
"""So many states to begin with."""
QUICK = TrainingSettings(hidden=(32,), epochs=100, polish=300, predicts="delta", seed=1)
"""The recipe of `reluplan train`, ended sooner: seconds, not minutes."""


@dataclass(frozen=True)
class Learned:
    """Called, it collects transitions and trains: the same network every time.

    step: the true system. start: draws first states; all over the box if None. fitting: draws actions that are allowed
    in given states; all over the box if None. episodes, steps: of the data.
    """

    problem: ProblemText
    step: Step
    settings: TrainingSettings = QUICK
    start: Draw | None = None
    fitting: Callable[[Generator, Array], Array] | None = None
    episodes: int = 400
    steps: int = 10
    seed: int = field(default=1)

    def __call__(self) -> ReluNetwork:
        entry = self.problem.network
        assert entry is not None
        settings = replace(self.settings, predicts="delta" if entry.predicts == "delta" else "next")
        variables = (*self.problem.states, *self.problem.actions)
        return train(self.data(), entry.inputs, entry.outputs, settings, variables=variables).network

    def data(self) -> Transitions:
        """Transitions of the true system under random actions."""
        rng = np.random.default_rng(self.seed)
        states, actions = self.problem.states, self.problem.actions
        start = self.start or (lambda rng, count: uniform(rng, states, count))
        fitting = self.fitting or (lambda rng, now: uniform(rng, actions, len(now)))
        return explore(states, actions, self.step, start, fitting, self.episodes, self.steps, rng)


def explore(
    states: Sequence[Variable],
    actions: Sequence[Variable],
    step: Step,
    start: Draw,
    fitting: Callable[[Generator, Array], Array],
    count: int,
    steps: int,
    rng: Generator,
) -> Transitions:
    """Episodes side by side; one that would leave the box ends there, and another begins."""
    low, high = np.array([v.lower for v in states]), np.array([v.upper for v in states])
    now, episode, at = start(rng, count), np.arange(count), np.zeros(count, dtype=np.int64)
    rows = []
    for _ in range(steps):
        chosen = fitting(rng, now)
        after = step(now, chosen)
        inside = np.all((after >= low) & (after <= high), axis=1)
        rows.append([part[inside] for part in (episode, at, now, chosen, after)])
        fresh = episode.max() + 1 + np.arange(count)
        episode, at = np.where(inside, episode, fresh), np.where(inside, at + 1, 0)
        now = np.where(inside[:, None], after, start(rng, count))
    numbers, steps_of, before, acted, reached = (np.concatenate(part) for part in zip(*rows, strict=True))
    names = tuple(v.name for v in states), tuple(v.name for v in actions)
    return Transitions(*names, numbers, steps_of, before, acted, reached)


def uniform(rng: Generator, variables: Sequence[Variable], count: int) -> Array:
    """Values all over the box, (count, variables); whole numbers where the kind says so."""
    drawn = rng.uniform([v.lower for v in variables], [v.upper for v in variables], (count, len(variables)))
    return np.where([v.is_discrete for v in variables], np.round(drawn), drawn)
