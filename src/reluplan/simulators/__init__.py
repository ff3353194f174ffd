"""True systems to collect data from and to run plans in: RDDL, gymnasium, Python functions."""

from reluplan.simulators.base import Simulator
from reluplan.simulators.open import SIMULATORS, open_simulator

__all__ = ["SIMULATORS", "Simulator", "open_simulator"]
