"""Collecting transitions from a simulator."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reluplan.data.names import plain_name
from reluplan.data.transitions import Transitions
from reluplan.errors import InputError
from reluplan.interrupts import interruptible
from reluplan.simulators.collector import Collection, Collector, Episode
from reluplan.simulators.processes import run_in_processes
from reluplan.simulators.settings import DEFAULT_COLLECTION, CollectionSettings

Array = NDArray[np.float64]
OnEpisode = Callable[[int], None]

REWARD_COLUMNS = ("reward", "simulator_reward")
"""What the simulator's reward is called in the data: the first name that is no variable's."""


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
    the episodes that are done, if there are any. The simulator's own reward is the extra column "reward".

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
    runs = _run_here(collector) if processes == 1 else run_in_processes(work, collector.steps, processes)
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


def _run_here(collector: Collector) -> Generator[Episode, None, None]:
    for number in range(collector.work.episodes):
        yield collector.run(number)


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
        extras=_rewards((*state_names, *action_names), np.concatenate([part.rewards for part in parts])),
    )


def _rewards(names: tuple[str, ...], rewards: Array) -> dict[str, Array]:
    """The column of the simulator's own reward, if it gives one, under a name that no variable has."""
    taken = {plain_name(name) for name in names}
    name = next((name for name in REWARD_COLUMNS if name not in taken), None)
    return {} if name is None or np.isnan(rewards).all() else {name: rewards}
