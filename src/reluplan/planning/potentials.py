"""The paper's strengthened model: bounds, reward potentials, one MILP over the horizon."""

from __future__ import annotations

from reluplan.bounds.reachability import HorizonBounds
from reluplan.encoding.window import equal_steps
from reluplan.planning.bounding import bound_steps, refine_steps
from reluplan.planning.options import PlanOptions
from reluplan.planning.run import Run
from reluplan.planning.whole_model import solve_whole_model
from reluplan.potentials.compute import compute_potentials
from reluplan.potentials.generation import tell_rounds
from reluplan.potentials.potential_set import PotentialSet
from reluplan.potentials.reprove import reprove
from reluplan.potentials.settings import PotentialSettings

POTENTIALS_SHARE = 0.3
"""At most this share of the time that is left after the bounds goes into reward potentials."""

FEW_BOXES = 10
"""With at most so many different boxes each step has potentials of its own, by far the tightest; else all share one."""


def plan_with_potentials(run: Run, options: PlanOptions) -> None:
    """Bounds, potentials (computed, or those given), then the solver."""
    bounds = bound_steps(run)  # potentials hold for every goal and horizon, and so must the bounds that they rest on
    with run.stage("potentials"):
        run.potentials = _potentials(run, bounds, options)
    solve_whole_model(run, refine_steps(run, bounds, options), options)


def _potentials(run: Run, bounds: HorizonBounds, options: PlanOptions) -> PotentialSet:
    """Those given, if this process proved them, or proves them now, or is told to trust them; else computed."""
    given = options.potentials
    if given is None:
        return _compute_potentials(run, bounds, options)
    if given.is_proven:
        return given
    if options.trust_potentials:
        run.note(
            "the potentials were trusted, not proven again: the bound, and infeasibility if it is claimed, hold only "
            "if the potentials do"
        )
        return given
    proven, notes = reprove(run.problem, bounds, given, options.thread_count, run.clock.deadline(POTENTIALS_SHARE))
    for note in notes:
        run.note(note)
    return proven


def _compute_potentials(run: Run, bounds: HorizonBounds, options: PlanOptions) -> PotentialSet:
    settings = PotentialSettings(options.interval_count, threads=options.thread_count, seed=options.seed)
    per_step = len(equal_steps(bounds)) <= FEW_BOXES
    deadline = run.clock.deadline(POTENTIALS_SHARE)
    potentials = compute_potentials(run.problem, bounds, settings, per_step, deadline, tell_rounds(run.tell))
    run.tell(potentials.summary())
    if potentials.report.interrupted:
        raise KeyboardInterrupt
    return potentials
