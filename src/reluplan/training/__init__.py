"""Learning dynamics: a dense ReLU network from transition data, and a report on how far to trust it."""

from reluplan.training.report import TrainingReport, TrainingResult
from reluplan.training.settings import TrainingSettings

__all__ = ["TrainingReport", "TrainingResult", "TrainingSettings"]
