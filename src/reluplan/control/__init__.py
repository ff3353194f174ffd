"""Receding-horizon control: plan from the observed state, apply the first action, plan again."""

from reluplan.control.controller import Controller, Decision
from reluplan.control.episode import Episode, run_episode
from reluplan.control.report import ControlReport

__all__ = ["ControlReport", "Controller", "Decision", "Episode", "run_episode"]
