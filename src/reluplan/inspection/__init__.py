"""Looking at a problem or a network before planning: sizes, undecided units, the model, what can be proven."""

from reluplan.inspection.inspect import inspect_network, inspect_problem
from reluplan.inspection.report import Inspection

__all__ = ["Inspection", "inspect_network", "inspect_problem"]
