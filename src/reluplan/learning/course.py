"""The course of one training: data, best weights so far, learning curve, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from reluplan import clock
from reluplan.learning.dense_net import DenseNet
from reluplan.learning.objective import Objective
from reluplan.learning.report import CurvePoint


class OutOfTime(Exception):  # noqa: N818  (ends the training, not the command)
    """The deadline has passed; the best weights so far are the result."""


@dataclass
class Course:
    """Stages record their epochs here; whatever ends the training, the best recorded weights are there."""

    net: DenseNet
    objective: Objective
    inputs: Tensor
    targets: Tensor
    validation_inputs: Tensor
    validation_targets: Tensor
    deadline: float = math.inf
    on_progress: Callable[[CurvePoint], Any] | None = None
    started: float = field(default_factory=clock.now)
    curve: list[CurvePoint] = field(default_factory=list)
    best: list[Tensor] | None = None
    best_loss: float = math.inf
    best_entry: int = -1

    def check_time(self) -> None:
        if clock.now() > self.deadline:
            raise OutOfTime

    @torch.no_grad()
    def record(self, stage: str, epoch: int, training: float) -> bool:
        """Add an entry to the curve; True if these are the best weights so far."""
        validation = float(self.objective.loss(self.net, self.validation_inputs, self.validation_targets))
        entry = CurvePoint(stage, epoch, round(clock.now() - self.started, 3), training, validation)
        self.curve.append(entry)
        better = validation < self.best_loss
        if better:
            values = self.net.snapshot()
            self.best, self.best_loss, self.best_entry = values, validation, len(self.curve) - 1
        if self.on_progress is not None:
            self.on_progress(entry)
        return better

    @torch.no_grad()
    def training_loss(self) -> float:
        """The objective on the training part."""
        return float(self.objective.loss(self.net, self.inputs, self.targets))

    def forget_best(self) -> None:
        """The weights before, better or not, no longer are what is asked for (they were pruned)."""
        self.best, self.best_loss = None, math.inf

    def restore_best(self) -> None:
        if self.best is not None:
            self.net.restore(self.best)
