"""Learning dynamics: a dense ReLU network from transition data, and a report on how far to trust it."""

from reluplan.learning.report import TrainingReport, TrainingResult
from reluplan.learning.settings import TrainingSettings

__all__ = ["TrainingReport", "TrainingResult", "TrainingSettings"]
