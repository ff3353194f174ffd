"""Distilling: a ReLU network that is like a smooth one over a region of inputs, and a report on how much."""

from reluplan.learning.distillation.report import DistilReport, DistilResult
from reluplan.learning.distillation.settings import DistilSettings

__all__ = ["DistilReport", "DistilResult", "DistilSettings"]
