"""`reluplan potentials`: reward potentials of a problem."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from reluplan.cli.shared import (
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
from reluplan.interrupts import handling_signals
from reluplan.planning.run import Clock, Event


@app.command(epilog="Exit codes: 0 done (converged or not: see the table), 2 proven infeasible, 4 bad input.")
def potentials(
    problem: ProblemArgument,
    out: Annotated[Path, typer.Option(help="File for the potentials (JSON).", show_default=False)],
    intervals: Annotated[int, typer.Option(help="Output intervals of each ReLU; 1 is on or off.")] = 1,
    horizon: HorizonOption = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for the whole command.")] = math.inf,
    setting: Annotated[str, typer.Option(help="fast, or paper: one MILP and one cut a round, all units.")] = "fast",
    per_step: Annotated[bool, typer.Option("--per-step", help="Potentials of its own for each step's box.")] = False,
    regulariser: Annotated[float | None, typer.Option(help="Lambda of the master problem; chosen by default.")] = None,
    threads: Annotated[int | None, typer.Option(help="Solver threads; all cores by default.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the sampling.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Also plot the convergence (.png, .svg, .pdf).")] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Compute reward potentials; any stop leaves valid ones."""
    clock = Clock(time_limit, command_started())
    from reluplan.planning.planner import available_cores
    from reluplan.potentials.compute import reward_potentials, tell_rounds
    from reluplan.potentials.generate import choose_settings
    from reluplan.problem.problem import Problem
    from reluplan.report.convergence import plot_convergence
    from reluplan.report.figures import check_plot
    from reluplan.report.progress import ProgressView
    from reluplan.report.terminal import print_potentials

    loaded = Problem.load(problem)
    loaded = loaded if horizon is None else loaded.with_horizon(horizon)
    settings = choose_settings(setting, intervals, threads or available_cores(), seed, regulariser)
    check_plot(plot)
    check_writable(out.parent)
    with handling_signals() as handler:
        with ProgressView(clock, quiet) as view:
            tell = tell_rounds(lambda message: view(Event(clock.elapsed, "potentials", message, None, None)))
            found = reward_potentials(
                loaded, settings=settings, per_step=per_step, deadline=clock.deadline(), on_round=tell
            )
        failure = failure_of(lambda: found.save(out))
        if plot is not None:
            failure = failure or failure_of(lambda: plot_convergence(found, plot))
        with showing(handler, out):
            if as_json:
                print(json.dumps({"file": str(out), **found.report}, indent=2))
            elif not quiet:
                print_potentials(found, out)
    if failure is not None:
        raise failure
    return 0
