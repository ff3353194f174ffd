"""The paper's base model: bounds, one MILP over the horizon."""

from __future__ import annotations

from reluplan.methods.bounding import bound_steps, sharpen_steps, sweep_steps
from reluplan.methods.options import PlanOptions
from reluplan.methods.whole_model import solve_whole_model
from reluplan.run import Run
from reluplan.solvers.pool import WorkerPool


def plan_base(run: Run, options: PlanOptions) -> None:
    """Bounds, then the solver. One constant for all neurons, as published, is not bothered with better bounds."""
    bounds = bound_steps(run)
    if options.big_m is None:
        with WorkerPool(options.solver, options.thread_count) as pool:
            bounds = sharpen_steps(run, sweep_steps(run, bounds), pool, options.seed)
    solve_whole_model(run, bounds, options)
