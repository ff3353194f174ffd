"""From a problem to a plan with a proven bound: the stages, top down.

    problem --> bounds --> search --> proofs --> milp --> result
                boxes      plans      bounds     both

Which stages run, and for how long, is the method's schedule (`schedule`); each stage is a file in `stages`.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata

from reluplan.bounds.reachability import reachable_bounds
from reluplan.clock import OVERHEAD, Clock, WorkClock, is_counted, using
from reluplan.encoding.unroll import PlanModel
from reluplan.errors import InfeasibleError, InputError, NoPlanExistsError, OutOfTimeError
from reluplan.interrupts import interruptible
from reluplan.optimisation.solvers import get_solver
from reluplan.planning.log import Event
from reluplan.planning.options import PlanOptions
from reluplan.planning.options import available_cores as available_cores
from reluplan.planning.result import PlanResult, summarise
from reluplan.planning.run import Run
from reluplan.planning.schedule import METHODS as METHODS
from reluplan.planning.schedule import Schedule, run_schedule, schedule_of
from reluplan.planning.settings import PlanSettings
from reluplan.planning.stages.milp import build_whole_model
from reluplan.planning.work import Work
from reluplan.potentials.potential_set import PotentialSet
from reluplan.potentials.settings import require_interval_count
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.threads import matrix_threads


def plan(
    problem: Problem,
    *,
    horizon: int | None = None,
    method: str = "auto",
    solver: str = "highs",
    time_limit: float = math.inf,
    gap: float = 1e-4,
    threads: int | None = None,
    seed: int = 0,
    big_m: float | None = None,
    interval_count: int = 2,
    potentials: PotentialSet | None = None,
    trust_potentials: bool = False,
    start: Trajectory | None = None,
    stages: Sequence[str] | None = None,
    settings: PlanSettings | None = None,
    deterministic: bool = False,
    clock: Clock | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> PlanResult:
    """The best plan for a problem, with a proven bound on how much better any other could be.

    Stops at the time limit (seconds, all stages together) or at Ctrl-C with the best plan and bound so far; the
    status says what is proven. method: "base" is the paper's base model, "potentials" the model strengthened by reward
    potentials with `interval_count` intervals per unit (computed, or given as `potentials`), "auto" searches for a plan
    first and then proves it. Potentials from a file or made by hand are proven again, unless trust_potentials. start: a
    plan to begin from, as `simulate` returns it. stages: these in place of the method's own (`reluplan plan
    --list-stages` names them). settings: of all stages, recorded with the result.
    gap: `optimal` means bound − reward <= gap · max(1, |reward|); below 2e-6 it cannot be reached. threads: all cores
    by default. big_m: only to reproduce the published baseline, by "base". deterministic: limits count work in place of
    time, about as much as a core does in a second, on one thread: the same seed then gives the same result on every
    machine with the same libraries. clock: started earlier, if the limit counts from there.

    >>> from reluplan import Problem, plan
    >>> result = plan(Problem.load("examples/tanks/problem.toml"), horizon=4)
    >>> result.status
    'optimal'
    """
    if big_m is not None and method == "auto":
        method = "base"
    if deterministic:
        threads = _require_one_thread(threads)
    options = PlanOptions(
        method, solver, time_limit, gap, threads, seed, big_m, interval_count, potentials, start, trust_potentials
    )
    check_options(options)
    schedule = METHODS[method] if stages is None else schedule_of(stages)
    problem = problem if horizon is None else problem.with_horizon(horizon)
    if deterministic and not is_counted():
        with using(WorkClock(overhead=OVERHEAD)):
            return plan_by(schedule, problem, options, settings or PlanSettings(), None, on_event)
    return plan_by(schedule, problem, options, settings or PlanSettings(), clock, on_event)


def plan_by(
    schedule: Schedule,
    problem: Problem,
    options: PlanOptions,
    settings: PlanSettings,
    clock: Clock | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> PlanResult:
    """`plan`, by any schedule."""
    if options.potentials is not None:
        options.potentials.require_fit(problem)
    run = Run(problem, clock or Clock(options.time_limit), options.gap, on_event)
    try:
        with interruptible(), matrix_threads(options.thread_count):
            _plan(run, schedule, options, settings)
    except KeyboardInterrupt:
        run.interrupted = True
    except InfeasibleError as error:
        _conclude_infeasible(run, error)
    except OutOfTimeError as error:
        run.log.note(str(error))
    except InputError:
        raise
    except Exception as error:
        if run.incumbent.plan is None and math.isinf(run.incumbent.bound):
            raise
        run.log.note(f"stopped early: {error}")
    return summarise(run, options, settings, schedule, _versions(options.solver))


def _plan(run: Run, schedule: Schedule, options: PlanOptions, settings: PlanSettings) -> None:
    """The schedule, and once more if it finds no plan that keeps its distance from rounding ties."""
    has_ties = bool(run.problem.tie_distances.any())
    try:
        with Work(run, options, settings) as work:
            run_schedule(work, schedule)
    except NoPlanExistsError as error:
        if error.problem is not run.problem or run.incumbent.plan is not None or not has_ties:
            raise
    if run.incumbent.plan is None and has_ties and run.clock.remaining > 0.0:
        run.allow_rounding_ties()
        with Work(run, replace(options, potentials=None), settings) as work:
            run_schedule(work, schedule)


def _conclude_infeasible(run: Run, error: InfeasibleError) -> None:
    """Claim that no plan exists if the error says so of this very problem, and no plan contradicts it; else note it."""
    if not isinstance(error, NoPlanExistsError) or error.problem is not run.problem:
        run.log.note(f"stopped early, which proves nothing about the whole problem: {error}")
    elif run.incumbent.plan is None:
        run.proven_infeasible = True
        run.log.note(str(error))
    else:
        run.log.note(f"a claim was dropped, since a plan was found and checked: {error}")


def build_model(problem: Problem, big_m: float | None = None, named: bool = False) -> PlanModel:
    """The planning MILP alone, without solving it."""
    return build_whole_model(problem, reachable_bounds(problem), big_m, named)


def check_options(options: PlanOptions) -> None:
    """Refuse a method, a solver or numbers that make no sense."""
    if options.method not in METHODS:
        raise InputError(f"unknown method '{options.method}'; choose one of {', '.join(METHODS)}")
    if not 0.0 <= options.gap < math.inf:
        raise InputError(f"the gap must be zero or positive, got {options.gap:g}")
    if options.threads is not None and options.threads < 1:
        raise InputError(f"the number of threads must be at least 1, got {options.threads}")
    if options.seed < 0:
        raise InputError(f"the seed must be zero or positive, got {options.seed}")
    get_solver(options.solver)
    if not options.time_limit > 0.0:
        raise InputError(f"the time limit must be positive, got {options.time_limit:g}")
    require_interval_count(options.interval_count)
    if options.big_m is not None and options.method == "potentials":
        raise InputError("--big-m goes with --method base only")
    if options.big_m is not None and not 0.0 < options.big_m < math.inf:
        raise InputError(f"--big-m must be a positive number, got {options.big_m:g}")


def _require_one_thread(threads: int | None) -> int:
    if threads not in (None, 1):
        raise InputError(f"--deterministic goes with one thread, not with {threads}")
    return 1


def _versions(solver: str) -> dict[str, str]:
    names = ("reluplan", "numpy", "scipy")
    found = {name: metadata.version(name) for name in names}
    return {**found, "python": platform.python_version(), solver: get_solver(solver).version()}
