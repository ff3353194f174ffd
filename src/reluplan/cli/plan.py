"""`reluplan plan`: the best plan and a bound on it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from reluplan.cli.options import (
    BaselineBigMOption,
    DeterministicOption,
    GapOption,
    HorizonOption,
    InitialOption,
    JsonOption,
    ListStagesOption,
    MethodOption,
    PlanIntervalsOption,
    PotentialsFileOption,
    ProblemArgument,
    QuietOption,
    RunFolderOption,
    SolverOption,
    SolverSeedOption,
    StagesOption,
    StartPlanOption,
    ThreadsOption,
    TimeLimitOption,
    TrustPotentialsOption,
)
from reluplan.cli.shared import EPILOG, app, check_writable, failure_of, names_in, print_outcome, showing, with_initial
from reluplan.clock import Clock, command_started, now, start_counting
from reluplan.errors import InputError
from reluplan.interrupts import handling_signals
from reluplan.planning.log import Event

if TYPE_CHECKING:
    from reluplan.planning.result import PlanResult
    from reluplan.potentials.potential_set import PotentialSet
    from reluplan.problem.problem import Problem
    from reluplan.problem.rollout import Trajectory


@app.command(epilog=EPILOG)
def plan(
    problem: ProblemArgument,
    out: RunFolderOption,
    horizon: HorizonOption = None,
    initial: InitialOption = None,
    start: StartPlanOption = None,
    method: MethodOption = "auto",
    stages: StagesOption = None,
    list_stages: ListStagesOption = False,
    intervals: PlanIntervalsOption = 2,
    potentials: PotentialsFileOption = None,
    trust_potentials: TrustPotentialsOption = False,
    solver: SolverOption = "highs",
    time_limit: TimeLimitOption = math.inf,
    gap: GapOption = 1e-4,
    threads: ThreadsOption = None,
    seed: SolverSeedOption = 0,
    big_m: BaselineBigMOption = None,
    deterministic: DeterministicOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Find the best plan and prove a bound on it."""
    if deterministic:
        start_counting()
    clock = Clock(time_limit, now() if deterministic else command_started())
    from reluplan.planning.planner import plan as find_plan
    from reluplan.problem.problem import Problem
    from reluplan.report.progress import ProgressView

    if trust_potentials and potentials is None:
        raise InputError("--trust-potentials goes with --potentials")
    loaded = with_initial(Problem.load(problem), initial)
    begun = None if start is None else _load_start(start, loaded, horizon)
    known = None if potentials is None else _load_potentials(potentials, loaded, horizon, method)
    check_writable(out)
    with handling_signals() as handler:
        with ProgressView(clock, quiet) as view:
            result = find_plan(
                loaded, horizon=horizon, method=method, solver=solver, time_limit=time_limit, gap=gap, threads=threads,
                seed=seed, big_m=big_m, interval_count=intervals, potentials=known, start=begun,
                trust_potentials=trust_potentials, stages=None if stages is None else names_in(stages), clock=clock,
                on_event=view, deterministic=deterministic,
            )  # fmt: skip
            view(_last_event(clock, result))
        failure = failure_of(lambda: result.write(out, view.log))
        with showing(handler, out):
            print_outcome(as_json, quiet and not failure, result.to_json, lambda: _print(result, out))
    if failure is not None:
        raise failure
    return result.exit_code


def _load_start(path: Path, problem: Problem, horizon: int | None) -> Trajectory:
    """A plan from a file, rolled out from the first state here over as many steps; its last action goes on."""
    from reluplan.problem.plan_file import read_plan, started_from

    problem = problem if horizon is None else problem.with_horizon(horizon)
    return started_from(problem, read_plan(problem, path))


def _last_event(clock: Clock, result: PlanResult) -> Event:
    from reluplan.report.terminal import STATUS_WORDS

    return Event(clock.elapsed, "end", STATUS_WORDS[result.status], result.reward, result.bound)


def _print(result: PlanResult, folder: Path) -> None:
    from reluplan.report.terminal import print_result

    print_result(result, folder)


def _load_potentials(path: Path, problem: Problem, horizon: int | None, method: str) -> PotentialSet:
    from reluplan.potentials.potential_set import PotentialSet

    if method != "potentials":
        raise InputError("--potentials goes with --method potentials")
    known = PotentialSet.load(path)
    known.require_fit(problem if horizon is None else problem.with_horizon(horizon), str(path))
    return known
