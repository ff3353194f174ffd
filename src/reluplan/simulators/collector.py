"""Episodes of a simulator under exploring actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.simulators.base import Simulator
from reluplan.simulators.exploration import action_fractions, check_exploration, latin_hypercube
from reluplan.simulators.limits import ActionLimits, Box
from reluplan.simulators.open import open_simulator
from reluplan.simulators.problem_limits import ProblemLimits, problem_limits
from reluplan.simulators.settings import DEFAULT_COLLECTION, CollectionSettings

Array = NDArray[np.float64]
Step = tuple[Array, Array, Array, float]

LEAVES = 1e-6
"""An episode ends where a state passes its bound by this much, relative to max(1, |bound|)."""


@dataclass(frozen=True)
class Collection:
    """What to collect; everything that decides the data, so that processes can share the work."""

    simulator: str
    instance: str | None
    episodes: int
    steps: int | None
    seed: int
    exploration: str
    problem: Path | None
    settings: CollectionSettings = DEFAULT_COLLECTION

    def __post_init__(self) -> None:
        check_exploration(self.exploration)
        for name, value, least in (("episodes", self.episodes, 1), ("steps", self.steps, 1), ("seed", self.seed, 0)):
            if value is not None and value < least:
                raise InputError(f"{name} must be at least {least}, got {value}")

    def random(self, stream: int) -> np.random.Generator:
        """Random numbers of their own for each stream, the same in whatever process."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(stream,)))


@dataclass(frozen=True, eq=False)
class Episode:
    """The transitions of one episode: states (T, n), actions (T, m), next states (T, n), and rewards (T,).

    The rewards are the simulator's own, NaN where it gives none.
    """

    states: Array
    actions: Array
    next_states: Array
    rewards: Array


class Collector:
    """Runs episodes of a collection, by number."""

    def __init__(self, work: Collection) -> None:
        self.work = work
        self.simulator: Simulator = open_simulator(work.simulator, work.instance)
        self.limits: ProblemLimits = problem_limits(self.simulator, work.problem)
        self._box = self._action_box()
        if work.exploration == "latin":
            _ = self._starts  # complains if states cannot be chosen

    @property
    def steps(self) -> int:
        """Of an episode."""
        settings = self.work.settings
        usual = self.simulator.horizon or settings.default_steps
        return self.work.steps or (min(usual, settings.restarted_steps) if self.work.exploration == "latin" else usual)

    def run(self, number: int) -> Episode:
        """The episode of that number; its random numbers are its own."""
        rng = self.work.random(number + 1)
        state = self.simulator.reset(int(rng.integers(2**31)))
        if self.work.exploration == "latin":
            state = self._starts[number]
            self.simulator.set_state(state)
        fractions = action_fractions(
            self.work.exploration, self.steps, len(self._box.lower), rng, self.work.settings.exploration
        )
        rows = list(self._roll(state, fractions, rng))
        widths = (len(state), len(self._box.lower), len(state))
        states, actions, after = (
            np.array([row[i] for row in rows]).reshape(len(rows), width) for i, width in enumerate(widths)
        )
        return Episode(states, actions, after, np.array([row[3] for row in rows]))

    def _roll(self, state: Array, fractions: Array, rng: np.random.Generator) -> Iterator[Step]:
        """(s, a, s', reward) until the episode is over; a step into numbers that are not finite does not count."""
        for row in fractions:
            action = self._action(state, row, rng)
            next_state, reward, over = self.simulator.step(action)
            if not np.isfinite(next_state).all():
                return
            yield state, action, next_state, reward
            if over or self._leaves(next_state):
                return
            state = next_state

    def _action(self, state: Array, fractions: Array, rng: np.random.Generator) -> Array:
        """An action that problem and simulator allow; asking the problem alone is often enough, and quick."""

        def in_problem(action: Array) -> bool:
            return self.limits.allow(state, action)

        def in_both(action: Array) -> bool:
            return self.limits.allow(state, action) and self.simulator.allows(action)

        default = np.clip(self.simulator.default_action, self._box.lower, self._box.upper)
        settings = self.work.settings.exploration
        action = ActionLimits(self._box, default, in_problem, settings).spread(fractions, rng)
        if action is not None and not self.simulator.allows(action):
            action = ActionLimits(self._box, default, in_both, settings).spread(fractions, rng)
        if action is None:
            values = dict(zip(self.simulator.state_names, state.tolist(), strict=True))
            raise InputError(f"{self.work.simulator}: no allowed action was found in the state {values}")
        return action

    def _leaves(self, state: Array) -> bool:
        lower, upper = self.limits.state_lower, self.limits.state_upper
        below = lower - LEAVES * np.maximum(1.0, np.abs(lower)) > state
        above = upper + LEAVES * np.maximum(1.0, np.abs(upper)) < state
        return bool((below | above).any())

    def _action_box(self) -> Box:
        simulator = self.simulator
        limits = self.limits
        return Box.of(
            simulator.action_names, limits.action_lower, limits.action_upper, simulator.action_is_discrete, "action"
        )

    @cached_property
    def _starts(self) -> Array:
        """A Latin hypercube of first states, one per episode."""
        simulator = self.simulator
        limits = self.limits
        if not simulator.can_set_state:
            raise InputError(
                f"{self.work.simulator}: this simulator cannot be put into a chosen state, which the exploration "
                "'latin' needs; choose uniform or smooth"
            )
        box = Box.of(
            simulator.state_names, limits.state_lower, limits.state_upper, simulator.state_is_discrete, "state"
        )
        return box.point(latin_hypercube(self.work.episodes, len(box.lower), self.work.random(0)))
