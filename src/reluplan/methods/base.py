"""The paper's base model: bounds, one MILP over the horizon."""

from __future__ import annotations

from reluplan.bounds.reach import HorizonBounds, reachable_bounds
from reluplan.methods.options import PlanOptions
from reluplan.methods.whole_model import solve_whole_model
from reluplan.run import Run

BOUNDS_SHARE = 0.5
"""At most this share of the time limit goes into bounds before the solver starts."""


def plan_base(run: Run, options: PlanOptions) -> None:
    """Bounds, then the solver."""
    solve_whole_model(run, bound_steps(run), options)


def bound_steps(run: Run) -> HorizonBounds:
    """Proven boxes of every state, action and neuron, the stage that all methods begin with."""
    with run.stage("bounds"):
        bounds = reachable_bounds(run.problem, run.clock.deadline(BOUNDS_SHARE), run.clock.deadline())
        run.tell(f"{int(bounds.unstable.sum())} of {bounds.unstable.size} ReLUs are unstable")
    return bounds
