"""A measured guess: plan for a moment, and see how problems ended that looked like this one then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reluplan.errors import ReluplanError
from reluplan.inspection.measured import MeasuredOutlook, OutlookSettings
from reluplan.inspection.model_size import ModelSize
from reluplan.planning.planner import plan
from reluplan.problem.problem import Problem

Outlook = Literal["proven", "likely", "open", "infeasible"]


@dataclass(frozen=True)
class Trial:
    """Planning for a moment, with one thread; status, reward, bound and gap as in result.json."""

    seconds: float
    status: str
    reward: float | None
    bound: float | None
    gap: float | None


@dataclass(frozen=True)
class Guess:
    """What to expect of a longer run. outlook: "proven" by the trial itself; "likely" to be proven, or to come within
    1 % of it, in ten times the trial's time; "open" if that cannot be told; "infeasible", as the trial proved. trial:
    None for models too large to try. measured: how such problems ended; None where the trial was the
    end, or there was none. is_beyond: whether this problem has more integers than any that was measured."""

    outlook: Outlook
    trial: Trial | None
    measured: MeasuredOutlook | None
    is_beyond: bool


def guess(problem: Problem, model: ModelSize, settings: OutlookSettings) -> Guess:
    """Try, and look up what became of such problems."""
    trial = None if model.nonzeros > settings.largest_model else _try(problem, settings.trial_seconds)
    is_beyond = model.integers > settings.most_integers
    if trial is None:
        return Guess("open", None, None, is_beyond)
    if trial.status in ("optimal", "infeasible"):
        return Guess("proven" if trial.status == "optimal" else "infeasible", trial, None, is_beyond)
    if is_likely(trial, model.integers, len(problem.states), settings):
        return Guess("likely", trial, settings.likely, is_beyond)
    return Guess("open", trial, settings.open, is_beyond)


def is_likely(trial: Trial, integers: int, states: int, settings: OutlookSettings) -> bool:
    """The rule of `OutlookSettings`."""
    has_small_gap = trial.gap is not None and trial.gap <= settings.small_gap
    return has_small_gap or integers <= settings.few_integers or states <= settings.few_states


def _try(problem: Problem, seconds: float) -> Trial | None:
    try:
        result = plan(problem, time_limit=seconds, threads=1)
    except ReluplanError:  # such as no finite bounds, which the inspection says by itself
        return None
    return Trial(result.seconds, result.status, result.reward, result.bound, result.gap)
