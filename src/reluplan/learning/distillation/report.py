"""What distilling ends with: a network, and how far it is from its teacher."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from reluplan.files import json_text, write_atomically
from reluplan.learning.distillation.settings import DistilSettings
from reluplan.learning.report import Ending
from reluplan.learning.settings import TrainingSettings
from reluplan.network.relu_network import ReluNetwork


@dataclass(frozen=True)
class OutputDistance:
    """|student − teacher| of one output, in its own unit: mean, 99 % and largest at fresh samples, and the largest that
    ascent found, with the point where it is. The true maximum is at least `worst`. spread: the deviation of the
    teacher's output, to compare with."""

    name: str
    mean: float
    percentile_99: float
    sampled_worst: float
    worst: float
    worst_at: dict[str, float]
    teacher_there: float
    student_there: float
    spread: float


@dataclass(frozen=True)
class TrajectoryDistance:
    """Student against teacher after so many steps of their own: per output root mean square and largest distance."""

    steps: int
    rollouts: int
    rmse: tuple[float, ...]
    worst: tuple[float, ...]


@dataclass(frozen=True)
class DistilReport:
    """How the student was made and how far it is from the teacher. region: "box" or "data". samples:
    points that it learned from; judged: points that it was judged at. unstable_relus: as in a training's report."""

    teacher: str
    inputs: tuple[str, ...]
    region: str
    samples: int
    judged: int
    outputs: tuple[OutputDistance, ...]
    rollouts: tuple[TrajectoryDistance, ...]
    ending: Ending
    relus: int
    unstable_relus: int
    weights: int
    nonzero_weights: int
    seconds: float
    training: TrainingSettings
    settings: DistilSettings
    notes: tuple[str, ...]
    versions: dict[str, str]
    fingerprint: str

    def to_json(self) -> str:
        """The report as JSON, with the names of this class; numbers beyond all measure become null."""
        return json_text(asdict(self))

    def save(self, path: str | Path) -> None:
        """Write the report as a JSON file."""
        write_atomically(Path(path), self.to_json() + "\n")


@dataclass(frozen=True, eq=False)
class DistilResult:
    """A network in physical units, and the report on it."""

    network: ReluNetwork
    report: DistilReport
