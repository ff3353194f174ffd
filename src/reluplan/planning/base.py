"""The paper's base model: bounds, one MILP over the horizon."""

from __future__ import annotations

from reluplan.planning.bounding import bound_steps, refine_steps
from reluplan.planning.options import PlanOptions
from reluplan.planning.run import Run
from reluplan.planning.whole_model import solve_whole_model


def plan_base(run: Run, options: PlanOptions) -> None:
    """Bounds, then the solver. One constant for all neurons, as published, is not bothered with better bounds."""
    bounds = bound_steps(run)
    if options.big_m is None:
        bounds = refine_steps(run, bounds, options)
    solve_whole_model(run, bounds, options)
