"""The default method: a plan within seconds, then one proof after the other until a bound meets it.

    bounds      boxes of every state, action and neuron that hold for all plans, and first bounds from them
    primal      plans by search, without any MILP; a small model goes to the solver after a short search
    proofs      upper bounds of every plan's reward (PROOFS below), each narrowing the boxes of plans that are better
    milp        the whole model over what is left, its boxes sharpened by MILPs, beginning from the best plan

A proof is a file in `reluplan.proofs`: it gets what is known, offers bounds to the run, and may narrow the boxes.
"""

from __future__ import annotations

import math

from reluplan import clock
from reluplan.bounds.reachability import HorizonBounds
from reluplan.encoding.window import Span, narrow
from reluplan.errors import InfeasibleError, OutOfTimeError, ReluplanError
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.bounding import bound_steps, looking_at_all_plans, sharpen_steps, sweep_steps
from reluplan.planning.options import PlanOptions
from reluplan.planning.run import Run
from reluplan.planning.whole_model import solve_whole_model
from reluplan.proofs.grid.proof import GridProof
from reluplan.proofs.interval import BoxProof
from reluplan.proofs.lagrangian.proof import PieceProof
from reluplan.proofs.proof_state import Knowledge, Proof
from reluplan.proofs.single_steps import StepProof
from reluplan.search import search_plans

PRIMAL_SHARE, LONGEST_PRIMAL = 0.12, 60.0
"""The search for plans gets this share of the time limit, and no more than these seconds."""
SMALL_MODEL, QUICK_PRIMAL = 400, 2.0
"""With at most this many binaries, or a reward without evident bound, the solver's turn comes after these seconds,"""
SMALL_SHARE, LONGEST_SMALL = 0.2, 20.0
"""for this share of the time and these seconds; the search goes on if that was not enough."""
FIRST_BOUNDS_SHARE, EARLY_SHARE, BOUNDS_SHARE = 0.15, 0.3, 0.5
"""A plan never waits long for a bound: where the LPs of the forward bounds take more than the first share of the time,
the search for plans comes first, with the second share, and the LPs then get the third of what is left."""
STEPS_SHARE = 0.05
"""For bounds from the LPs of single steps, which need no plan."""
PROOFS: tuple[tuple[Proof, float], ...] = ((GridProof(), 0.9), (PieceProof(), 0.95))
"""In this order, each with at most this share of the time that is left when its turn comes."""


def plan_auto(run: Run, options: PlanOptions) -> None:
    """The schedule; it ends as soon as the bound meets the plan."""
    bounds = sweep_steps(run, _bound(run, options))
    with WorkerPool(options.solver, options.thread_count) as pool:
        known = Knowledge(run, bounds, pool, options.seed)
        _prove(known, BoxProof(), 1.0)
        if int(bounds.unstable.sum()) <= SMALL_MODEL or math.isinf(run.bound):
            _search(run, options, bounds, QUICK_PRIMAL)
            if not run.is_proven:
                with looking_at_all_plans(run):
                    known.bounds = bounds = sharpen_steps(run, bounds, pool, options.seed)
                _solve_small(run, bounds, options)
        if not run.is_proven:
            _search(run, options, bounds, LONGEST_PRIMAL)
            with looking_at_all_plans(run):  # nothing has narrowed the boxes to better plans yet
                _prove(known, StepProof(), STEPS_SHARE)
        if run.best is not None:
            for proof, share in PROOFS:
                _prove(known, proof, share)
        if not run.is_proven and run.clock.remaining > 0.0:
            _solve_rest(known, options, bounds)
    if run.best is None and run.clock.remaining <= 0.0:
        run.note("the time limit ended before a plan was found")


def _bound(run: Run, options: PlanOptions) -> HorizonBounds:
    """Forward bounds; if they are slow to come by, a first search before most of them."""
    first_share = run.clock.deadline(FIRST_BOUNDS_SHARE)
    bounds = bound_steps(run, FIRST_BOUNDS_SHARE)
    if clock.now() <= first_share:
        return bounds
    _search(run, options, bounds, LONGEST_PRIMAL, EARLY_SHARE)
    again = bound_steps(run, BOUNDS_SHARE)
    with looking_at_all_plans(run):
        return narrow(bounds, [Span(0, bounds.horizon)], [again])


def _solve_small(run: Run, bounds: HorizonBounds, options: PlanOptions) -> None:
    """The whole model for a while; one that cannot even be built in time leaves the time to others."""
    try:
        solve_whole_model(run, bounds, options, min(LONGEST_SMALL, SMALL_SHARE * run.clock.remaining))
    except OutOfTimeError as error:
        run.tell(str(error))


def _prove(known: Knowledge, proof: Proof, share: float) -> None:
    """One proof, for a share of the time that is left, unless everything is proven."""
    run = known.run
    if not run.is_proven and run.clock.remaining > 0.0:
        with run.stage(proof.stage):
            proof.improve(known, run.clock.deadline(share))


def _solve_rest(known: Knowledge, options: PlanOptions, of_all_plans: HorizonBounds) -> None:
    """The whole model over the boxes that are left: of plans better than the best one, or, without any plan, of all."""
    run = known.run
    if run.best is None:
        with looking_at_all_plans(run):
            bounds = sharpen_steps(run, of_all_plans, known.pool, options.seed)
        solve_whole_model(run, bounds, options)
        return
    try:
        known.bounds = sharpen_steps(run, known.bounds, known.pool, options.seed)
    except InfeasibleError:
        known.offer(known.plan.total_reward, 0.0, "windows: no better plan is left")
        return
    solve_whole_model(run, known.bounds, options, only_better=True)


def _search(run: Run, options: PlanOptions, bounds: HorizonBounds, longest: float, share: float = PRIMAL_SHARE) -> None:
    """Plans by search, beginning with the best so far; what goes wrong there costs plans, never the run."""
    deadline = min(run.clock.deadline(share), clock.now() + longest)
    start = options.start if run.best is None else run.best
    with run.stage("primal"):
        try:
            search_plans(run.problem, bounds, deadline, run.offer_plan, options.seed, start, run.tell)
        except ReluplanError as error:
            run.note(f"the search for plans stopped: {error}")
