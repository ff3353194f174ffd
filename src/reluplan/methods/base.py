"""The paper's base model: bounds, one MILP over the horizon."""

from __future__ import annotations

from reluplan.methods.bounding import bound_steps, refine_steps
from reluplan.methods.options import PlanOptions
from reluplan.methods.whole_model import solve_whole_model
from reluplan.run import Run


def plan_base(run: Run, options: PlanOptions) -> None:
    """Bounds, then the solver. One constant for all neurons, as published, is not bothered with better bounds."""
    bounds = bound_steps(run)
    if options.big_m is None:
        bounds = refine_steps(run, bounds, options)
    solve_whole_model(run, bounds, options)
