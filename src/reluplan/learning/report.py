"""What training ends with: a network, and what is known about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from reluplan.files import json_text, write_atomically
from reluplan.learning.diagnosis import Trouble
from reluplan.learning.errors import StateError
from reluplan.learning.rollout import Drift, RolloutError
from reluplan.learning.settings import TrainingSettings
from reluplan.learning.trials import SearchReport
from reluplan.network.relu_network import ReluNetwork

Ending = Literal["finished", "interrupted", "time limit"]


@dataclass(frozen=True)
class CurvePoint:
    """One entry of the learning curve: the objective on the training and on the validation part.

    Errors are in units of the variance of the change s' − s: 1 is as good as predicting the mean change.
    """

    stage: str
    epoch: int
    seconds: float
    training: float
    validation: float


@dataclass(frozen=True)
class LearningCurve:
    """The course of the training: every entry, and the number of the one whose weights were kept."""

    points: tuple[CurvePoint, ...]
    kept: int
    ending: Ending


@dataclass(frozen=True)
class TrainingReport:
    """How the network was made and how far it is off on transitions that it has never seen.

    rows: transitions per part; split_by: what was kept together (episodes, blocks of steps, or nothing).
    states: one-step errors. rollouts: errors after many steps; drift: after each step of the longest of them.
    unstable_relus: ReLUs that a planner's bounds leave undecided in the box of the inputs, of relus in all.
    search: the networks that were tried, None if the sizes were given. dropped: rows that conditions have left out.
    troubles: states that are poorly explained, and what that looks like.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: dict[str, int]
    dropped: dict[str, int]
    split_by: str
    states: tuple[StateError, ...]
    rollouts: tuple[RolloutError, ...]
    drift: Drift | None
    relus: int
    unstable_relus: int
    weights: int
    nonzero_weights: int
    learning: LearningCurve
    search: SearchReport | None
    settings: TrainingSettings
    notes: tuple[str, ...]
    troubles: tuple[Trouble, ...]
    versions: dict[str, str]
    fingerprint: str

    @property
    def seconds(self) -> float:
        """How long the training took."""
        return self.learning.points[-1].seconds

    def to_json(self) -> str:
        """The report as JSON, with the names of this class; numbers beyond all measure become null."""
        return json_text({"seconds": self.seconds, **asdict(self)})

    def save(self, path: str | Path) -> None:
        """Write the report as a JSON file."""
        write_atomically(Path(path), self.to_json() + "\n")


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A network in physical units, and the report on it."""

    network: ReluNetwork
    report: TrainingReport
