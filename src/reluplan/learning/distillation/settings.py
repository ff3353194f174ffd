"""How a network is distilled."""

from __future__ import annotations

from dataclasses import dataclass, field

from reluplan.errors import InputError
from reluplan.learning.distillation.worst_case import AscentSettings

MOST_SAMPLES = 10_000_000
"""More would fill the memory."""


@dataclass(frozen=True)
class DistilSettings:
    """Everything that distilling depends on beside the training of the student.

    samples: points to learn from, or as many as a slow teacher answers in teaching_share of the time. judging: points
    that the student is judged at and has never seen; ascent: how the worst error is looked for from these, within
    judging_seconds if the time is up. perturbation: around rows of data, in deviations of each column. rollouts: how
    many are compared; horizons: after how many steps. far: an error of this share of the spread is pointed out.
    """

    samples: int = 20_000
    teaching_share: float = 0.2
    judging: int = 20_000
    judging_seconds: float = 2.0
    perturbation: float = 0.1
    rollouts: int = 256
    far: float = 0.1
    horizons: tuple[int, ...] = (1, 10, 50)
    ascent: AscentSettings = field(default_factory=AscentSettings)

    def __post_init__(self) -> None:
        for name, least in (("samples", 100), ("judging", 1), ("rollouts", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} = {getattr(self, name)}: must be at least {least}")
        if self.samples > MOST_SAMPLES:
            raise InputError(f"samples = {self.samples}: must be at most {MOST_SAMPLES}")
