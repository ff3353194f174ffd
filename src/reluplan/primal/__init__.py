"""The primal search: good plans in seconds, with numpy and linear programs only."""

from reluplan.primal.context import PlanSink
from reluplan.primal.search import search_plans

__all__ = ["PlanSink", "search_plans"]
