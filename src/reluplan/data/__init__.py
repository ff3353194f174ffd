"""Transition data: read, check, write."""

from reluplan.data.read import read_transitions
from reluplan.data.transitions import Transitions, concatenate
from reluplan.data.write import write_transitions

__all__ = ["Transitions", "concatenate", "read_transitions", "write_transitions"]
