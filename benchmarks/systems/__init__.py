"""Systems of many kinds, to choose constants on and to test them on: simulators, data, networks, problem files."""

from .registry import FAMILY, SCALED, SYSTEMS
from .system import System

__all__ = ["FAMILY", "SCALED", "SYSTEMS", "System"]
