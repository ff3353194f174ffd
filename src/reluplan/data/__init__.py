"""Transition data: read, check, write."""

from reluplan.data.quality import DataReport, data_report, require_inside_bounds
from reluplan.data.read import read_transitions
from reluplan.data.row_filter import RowFilter
from reluplan.data.transitions import Transitions, concatenate
from reluplan.data.write import write_transitions
from reluplan.tables.formats import DATA_FORMATS, DataFormat

__all__ = [
    "DATA_FORMATS",
    "DataFormat",
    "DataReport",
    "RowFilter",
    "Transitions",
    "concatenate",
    "data_report",
    "read_transitions",
    "require_inside_bounds",
    "write_transitions",
]
