"""`reluplan plan`: the best plan and a bound on it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reluplan.cli.shared import (
    EPILOG,
    HorizonOption,
    JsonOption,
    ProblemArgument,
    QuietOption,
    app,
    check_writable,
    failure_of,
    showing,
)
from reluplan.clock import command_started
from reluplan.errors import InputError
from reluplan.interrupts import handling_signals
from reluplan.planning.run import Clock, Event

if TYPE_CHECKING:
    from reluplan.potentials.potential_set import PotentialSet
    from reluplan.problem.problem import Problem


@app.command(epilog=EPILOG)
def plan(
    problem: ProblemArgument,
    out: Annotated[Path, typer.Option(help="Run directory for result.json, plan.csv and log.txt.", show_default=False)],
    horizon: HorizonOption = None,
    method: Annotated[str, typer.Option(help="auto, base (the paper's model) or potentials.")] = "auto",
    intervals: Annotated[int, typer.Option(help="Output intervals of each ReLU, for --method potentials.")] = 2,
    potentials: Annotated[
        Path | None, typer.Option(help="Potentials file to use with --method potentials.", show_default=False)
    ] = None,
    trust_potentials: Annotated[
        bool, typer.Option("--trust-potentials", help="Do not prove the potentials of the file again.")
    ] = False,
    solver: Annotated[str, typer.Option(help="highs, scip, gurobi or cplex.")] = "highs",
    time_limit: Annotated[float, typer.Option(help="Seconds for the whole command.")] = math.inf,
    gap: Annotated[float, typer.Option(help="Proven when bound - reward <= gap * max(1, |reward|).")] = 1e-4,
    threads: Annotated[int | None, typer.Option(help="Solver threads; all cores by default.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the solver.")] = 0,
    big_m: Annotated[
        float | None, typer.Option(help="One big-M for all ReLUs, to reproduce the published baseline; slow and leaky.")
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Find the best plan and prove a bound on it."""
    clock = Clock(time_limit, command_started())
    from reluplan.planning.planner import plan as find_plan
    from reluplan.problem.problem import Problem
    from reluplan.report.progress import ProgressView
    from reluplan.report.terminal import STATUS_WORDS, print_result

    if trust_potentials and potentials is None:
        raise InputError("--trust-potentials goes with --potentials")
    loaded = Problem.load(problem)
    known = None if potentials is None else _load_potentials(potentials, loaded, horizon, method)
    check_writable(out)
    with handling_signals() as handler:
        with ProgressView(clock, quiet) as view:
            result = find_plan(
                loaded, horizon=horizon, method=method, solver=solver, time_limit=time_limit, gap=gap, threads=threads,
                seed=seed, big_m=big_m, interval_count=intervals, potentials=known,
                trust_potentials=trust_potentials, clock=clock, on_event=view,
            )  # fmt: skip
            view(Event(clock.elapsed, "end", STATUS_WORDS[result.status], result.reward, result.bound))
        failure = failure_of(lambda: result.write(out, view.log))
        with showing(handler, out):
            if as_json:
                print(result.to_json())
            elif not quiet or failure:
                print_result(result, out)
    if failure is not None:
        raise failure
    return result.exit_code


def _load_potentials(path: Path, problem: Problem, horizon: int | None, method: str) -> PotentialSet:
    from reluplan.potentials.potential_set import PotentialSet

    if method != "potentials":
        raise InputError("--potentials goes with --method potentials")
    known = PotentialSet.load(path)
    known.require_fit(problem if horizon is None else problem.with_horizon(horizon), str(path))
    return known
