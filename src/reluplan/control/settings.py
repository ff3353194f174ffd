"""Settings of control."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepPlanSettings:
    """When the plan of a step is to be proven too, beside being searched for.

    small_window: up to this many units in all steps of the window a proof is possible in a moment. long_limit: with as
    many seconds for a step it is tried for larger ones.
    """

    small_window: int = 400
    long_limit: float = 10.0
