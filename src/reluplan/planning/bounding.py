"""The bounds of every step, from cheap to tight, each within its share of the time.

forward     `bounds.reach`: intervals, CROWN and LPs, step by step from the initial state
sweeps      `bounds.sweep`: LPs of single steps, from goals and state bounds backwards, and forwards again
sharpening  `bounds.sharpen`: MILPs of steps and windows for what is still loose, before a whole model is solved
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reluplan import clock
from reluplan.bounds.reachability import HorizonBounds, reachable_bounds
from reluplan.errors import InfeasibleError, NoPlanExistsError
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.options import PlanOptions
from reluplan.planning.run import Run
from reluplan.tightening.obbt_milp import sharpen
from reluplan.tightening.propagation import sweep

FORWARD_SHARE = 0.5
"""At most this share of the time limit goes into LPs for the forward bounds; afterwards there is back-substitution for
as long again, and then intervals."""
SWEEP_SHARE, LONGEST_SWEEP = 0.02, 10.0
SHARPEN_SHARE, LONGEST_SHARPENING = 0.03, 20.0
"""Of the time that is left, and seconds."""
FEW_UNSTABLE = 30
"""A model with no more unstable ReLUs is solved sooner than its bounds are sharpened."""


def bound_steps(run: Run, share: float = FORWARD_SHARE) -> HorizonBounds:
    """Forward bounds: they hold for every plan from the initial state, whatever the goal and the horizon.

    share: of the time that is left, for LPs, if they take so long.
    """
    with run.stage("bounds"):
        bounds = reachable_bounds(run.problem, run.clock.deadline(share), run.clock.deadline(min(1.0, 2.0 * share)))
        run.tell(f"{int(bounds.unstable.sum())} of {bounds.unstable.size} ReLUs are unstable")
    return bounds


def sweep_steps(run: Run, bounds: HorizonBounds) -> HorizonBounds:
    """Bounds of all plans that also know what comes after a step, from bounds of all plans."""
    with run.stage("bounds"), looking_at_all_plans(run):
        swept = sweep(run.problem, bounds, _deadline(run, SWEEP_SHARE, LONGEST_SWEEP))
        before, after = int(bounds.unstable.sum()), int(swept.unstable.sum())
        if after < before:
            run.tell(f"unstable ReLUs: {before} -> {after} by sweeps")
    return swept


def sharpen_steps(run: Run, bounds: HorizonBounds, pool: WorkerPool, seed: int) -> HorizonBounds:
    """What MILPs make of the bounds; worth it before a model over all steps is solved, unless it is tiny.

    The bounds may be those of some plans only; InfeasibleError then says that none of these is left.
    """
    if int(bounds.unstable.sum()) <= FEW_UNSTABLE:
        return bounds
    with run.stage("sharpen"):
        return sharpen(run.problem, bounds, pool, _deadline(run, SHARPEN_SHARE, LONGEST_SHARPENING), seed, run.tell)


def refine_steps(run: Run, bounds: HorizonBounds, options: PlanOptions) -> HorizonBounds:
    """Both, for methods that solve nothing but the whole model."""
    with WorkerPool(options.solver, options.thread_count) as pool:
        swept = sweep_steps(run, bounds)
        with looking_at_all_plans(run):
            return sharpen_steps(run, swept, pool, options.seed)


@contextmanager
def looking_at_all_plans(run: Run) -> Iterator[None]:
    """For work within bounds of ALL plans of the run's problem: if nothing is left there, no plan exists.

    Never around work within bounds of better plans, or on a part of a domain: see `NoPlanExistsError`.
    """
    try:
        yield
    except NoPlanExistsError:
        raise
    except InfeasibleError as error:
        raise NoPlanExistsError(f"{run.problem.source}: no plan exists: {error}", run.problem) from None


def _deadline(run: Run, share: float, longest: float) -> float:
    return min(run.clock.deadline(share), clock.now() + longest)
