"""Good plans in seconds, with numpy and linear programs only."""

from reluplan.search.context import PlanSink
from reluplan.search.schedule import search_plans
from reluplan.search.settings import SearchSettings

__all__ = ["PlanSink", "SearchSettings", "search_plans"]
