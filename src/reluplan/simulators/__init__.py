"""True systems to collect data from and to run plans in: RDDL, gymnasium, Python functions."""

from reluplan.simulators.base import Simulator
from reluplan.simulators.open import open_simulator

__all__ = ["Simulator", "open_simulator"]
