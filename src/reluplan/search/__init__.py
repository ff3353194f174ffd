"""Good plans in seconds, with numpy and linear programs only."""

from reluplan.search.context import PlanSink
from reluplan.search.schedule import search_plans

__all__ = ["PlanSink", "search_plans"]
