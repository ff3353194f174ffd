"""How data are collected from a simulator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExplorationSettings:
    """How actions are chosen.

    memory: range of the memory ρ of smooth actions, one per episode: from a few steps to hundreds. stretch: smooth
    fractions are stretched by this about 1/2 and clipped, so that actions stay at their ends for a while.
    spread_rounds: halvings that find the end of what is allowed when actions are spread; ten find it to 1/1000 of the
    range. attempts: random actions that are tried where the default action is not allowed.
    """

    memory: tuple[float, float] = (0.5, 0.99)
    stretch: float = 1.2
    spread_rounds: int = 10
    attempts: int = 1000


@dataclass(frozen=True)
class CollectionSettings:
    """How episodes are run.

    default_steps: of an episode where neither the user nor the simulator says. restarted_steps: of an episode that
    starts in a chosen state: the more starts, the better they cover the states. chunk_steps: steps that a process is
    given at a time: few enough to answer Ctrl-C soon, and worth the sending. steps_per_process: fewer steps than this
    are done before another process has started.
    """

    default_steps: int = 100
    restarted_steps: int = 10
    chunk_steps: int = 500
    steps_per_process: int = 2000
    exploration: ExplorationSettings = ExplorationSettings()


DEFAULT_EXPLORATION = ExplorationSettings()
DEFAULT_COLLECTION = CollectionSettings()
