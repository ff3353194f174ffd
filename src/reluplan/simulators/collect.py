"""Collecting transitions from a simulator."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions
from reluplan.errors import InputError, ReluplanError
from reluplan.interrupts import SIGNALS, interruptible
from reluplan.simulators.base import Simulator
from reluplan.simulators.exploration import action_fractions, check_exploration, latin_hypercube
from reluplan.simulators.limits import ActionLimits, Box
from reluplan.simulators.open import open_simulator
from reluplan.simulators.problem_limits import ProblemLimits, problem_limits
from reluplan.simulators.settings import DEFAULT_COLLECTION, CollectionSettings

Array = NDArray[np.float64]
OnEpisode = Callable[[int], None]

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


def collect(
    simulator: str,
    instance: str | None = None,
    episodes: int = 100,
    steps: int | None = None,
    seed: int = 0,
    exploration: str = "uniform",
    processes: int = 1,
    problem: str | Path | None = None,
    on_episode: OnEpisode | None = None,
    settings: CollectionSettings = DEFAULT_COLLECTION,
) -> Transitions:
    """Transitions of a simulator under exploring actions; the same for the same seed, whatever the processes.

    simulator, instance: as in `open_simulator`. steps: of each episode; the simulator's horizon by default, 10 for
    latin. exploration: "uniform" (independent actions), "smooth" (actions that stay a while), "latin" (uniform, from
    first states that are spread over their bounds). problem: a problem file whose bounds and constraints the data
    keep to. An episode ends early where the simulator ends it, and where a state leaves its bounds. Ctrl-C ends with
    the episodes that are done, if there are any.

    With several processes, call it under `if __name__ == "__main__":`, as multiprocessing asks for.
    """
    path = None if problem is None else Path(problem)
    work = Collection(simulator, instance, episodes, steps, seed, exploration, path, settings)
    return run_collection(Collector(work), processes, on_episode).transitions


@dataclass(frozen=True, eq=False)
class Collected:
    """The transitions of the episodes that were run, the first ones of the collection, and their number."""

    transitions: Transitions
    episodes: int
    interrupted: bool


def run_collection(collector: Collector, processes: int, on_episode: OnEpisode | None = None) -> Collected:
    """All episodes of a collection, here or in several processes; tells how many are done.

    Ctrl-C ends with the whole episodes so far; it is passed on if they hold no transition.
    """
    work = collector.work
    simulator = collector.simulator
    if processes < 1:
        raise InputError(f"the number of processes must be at least 1, got {processes}")
    parts: list[Episode] = []
    runs = _run_here(collector) if processes == 1 else _run_in_processes(work, collector.steps, processes)
    interrupted = False
    try:
        with interruptible(), closing(runs):
            for part in runs:
                parts.append(part)
                if on_episode is not None:
                    on_episode(len(parts))
    except KeyboardInterrupt:
        if not any(len(part.states) for part in parts):
            raise
        interrupted = True
    simulator.close()
    return Collected(_assemble(simulator.state_names, simulator.action_names, parts), len(parts), interrupted)


@dataclass(frozen=True, eq=False)
class Episode:
    """The transitions of one episode: states (T, n), actions (T, m), next states (T, n)."""

    states: Array
    actions: Array
    next_states: Array


def _assemble(state_names: tuple[str, ...], action_names: tuple[str, ...], parts: list[Episode]) -> Transitions:
    lengths = [len(part.states) for part in parts]
    if not any(lengths):
        raise InputError("the simulator gave no transition: every episode ended at once")
    return Transitions(
        state_names,
        action_names,
        episode=np.repeat(np.arange(len(parts)), lengths),
        step=np.concatenate([np.arange(length) for length in lengths]),
        states=np.concatenate([part.states for part in parts]),
        actions=np.concatenate([part.actions for part in parts]),
        next_states=np.concatenate([part.next_states for part in parts]),
    )


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
        return Episode(
            *(np.array([row[i] for row in rows]).reshape(len(rows), width) for i, width in enumerate(widths))
        )

    def _roll(self, state: Array, fractions: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array, Array]]:
        """(s, a, s') until the episode is over; a step into numbers that are not finite does not count."""
        for row in fractions:
            action = self._action(state, row, rng)
            next_state, _, over = self.simulator.step(action)
            if not np.isfinite(next_state).all():
                return
            yield state, action, next_state
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


_worker: list[Collector] = []
"""The collector of a worker process, which opens its simulator once."""


def _start_worker(work: Collection) -> None:
    for number in SIGNALS:  # the parent's to answer, even if a whole group of processes hears them
        signal.signal(number, signal.SIG_IGN)
    _worker.append(Collector(work))


def _run_in_worker(number: int) -> Episode:
    return _worker[0].run(number)


def _run_here(collector: Collector) -> Generator[Episode, None, None]:
    for number in range(collector.work.episodes):
        yield collector.run(number)


def _run_in_processes(work: Collection, steps: int, processes: int) -> Generator[Episode, None, None]:
    """Episodes in their order, run by several processes that share nothing.

    At Ctrl-C nothing more is wanted of them: they are killed, whatever a simulator is doing.
    """
    processes = min(processes, work.episodes)
    chunk = max(1, min(work.episodes // (8 * processes), work.settings.chunk_steps // steps))
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _start_worker, (work,))
    try:
        yield from pool.map(_run_in_worker, range(work.episodes), chunksize=chunk)
    except BrokenProcessPool:
        raise ReluplanError("a process that runs the simulator ended; try --processes 1") from None
    except (KeyboardInterrupt, GeneratorExit):
        for process in list(pool._processes.values()):
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
