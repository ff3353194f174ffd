"""Optimal planning with learned ReLU dynamics: from a problem file to a plan with a proven bound."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reluplan import clock as clock  # first: it notes when the process began
from reluplan.startup import exit_on_signals_during_imports

exit_on_signals_during_imports()  # before the imports that take their time

from reluplan.errors import InfeasibleError, InputError, ReluplanError, SolverError  # noqa: E402
from reluplan.network.relu_network import ReluNetwork  # noqa: E402
from reluplan.problem.check import CheckReport, check  # noqa: E402
from reluplan.problem.problem import Problem  # noqa: E402
from reluplan.problem.rollout import Trajectory, simulate  # noqa: E402

if TYPE_CHECKING:
    from reluplan.learning.report import TrainingResult
    from reluplan.learning.settings import TrainingSettings
    from reluplan.learning.train import train
    from reluplan.network.keras import from_keras
    from reluplan.network.sklearn import from_sklearn
    from reluplan.network.torch import from_torch
    from reluplan.planning.planner import plan
    from reluplan.planning.result import PlanResult
    from reluplan.potentials.compute import reward_potentials
    from reluplan.potentials.potential_set import PotentialSet

__all__ = [
    "CheckReport",
    "InfeasibleError",
    "InputError",
    "PlanResult",
    "PotentialSet",
    "Problem",
    "ReluNetwork",
    "ReluplanError",
    "SolverError",
    "TrainingResult",
    "TrainingSettings",
    "Trajectory",
    "check",
    "from_keras",
    "from_sklearn",
    "from_torch",
    "plan",
    "reward_potentials",
    "simulate",
    "train",
]

_HOMES = {
    "PlanResult": "reluplan.planning.result",
    "PotentialSet": "reluplan.potentials.potential_set",
    "from_keras": "reluplan.network.keras",
    "from_sklearn": "reluplan.network.sklearn",
    "from_torch": "reluplan.network.torch",
    "plan": "reluplan.planning.planner",
    "reward_potentials": "reluplan.potentials.compute",
    "TrainingResult": "reluplan.learning.report",
    "TrainingSettings": "reluplan.learning.settings",
    "train": "reluplan.learning.train",
}


def __getattr__(name: str) -> Any:
    """What needs a solver, or has a library of its own, is imported on first use: a solver's process starts quickly."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reluplan' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
