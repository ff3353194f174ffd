"""`reluplan control`: plan at every step, in a simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reluplan.cli.shared import (
    JsonOption,
    ProblemArgument,
    QuietOption,
    app,
    check_writable,
    failure_of,
    showing,
)
from reluplan.interrupts import handling_signals
from reluplan.planning.run import Clock


@app.command(epilog="Exit codes: 0 done, 3 interrupted before the first episode ended, 4 bad input.")
def control(
    problem: ProblemArgument,
    simulator: Annotated[
        str,
        typer.Option(
            help="The true system: domain.rddl, gym:EnvId or file.py:function. "
            "A Python file and a gym environment are programs: they run with your rights.",
            show_default=False,
        ),
    ],
    instance: Annotated[str | None, typer.Option(help="RDDL instance file.", show_default=False)] = None,
    lookahead: Annotated[int | None, typer.Option(help="Steps to plan ahead; all remaining by default.")] = None,
    time_limit_per_step: Annotated[float, typer.Option(help="Seconds for the plan of each step.")] = 2.0,
    time_limit_first_step: Annotated[
        float | None, typer.Option(help="Seconds for the first plan of an episode; as for every step by default.")
    ] = None,
    episodes: Annotated[int, typer.Option(help="Number of episodes.")] = 1,
    steps: Annotated[int | None, typer.Option(help="Steps of an episode; the simulator's horizon by default.")] = None,
    random_starts: Annotated[
        bool, typer.Option("--random-starts", help="Begin each episode anywhere within the problem's state bounds.")
    ] = False,
    method: Annotated[str, typer.Option(help="auto, base or potentials, as in plan.")] = "auto",
    solver: Annotated[str, typer.Option(help="highs, scip, gurobi or cplex.")] = "highs",
    gap: Annotated[float, typer.Option(help="Proven when bound - reward <= gap * max(1, |reward|).")] = 1e-4,
    threads: Annotated[int | None, typer.Option(help="Solver threads; all cores by default.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the simulator, the starts and the solver.")] = 0,
    out: Annotated[Path | None, typer.Option(help="File with every step (.json or .csv).", show_default=False)] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Control a simulated system, planning anew at every step."""
    clock = Clock()
    from reluplan.control.controller import Controller
    from reluplan.control.report import print_report, require_ending
    from reluplan.control.run import control_episodes, tell_steps
    from reluplan.problem.problem import Problem
    from reluplan.report.progress import ProgressView
    from reluplan.simulators import open_simulator
    from reluplan.simulators.ordered import OrderedSimulator

    loaded = Problem.load(problem)
    if out is not None:
        require_ending(out)
        check_writable(out.parent)
    system = OrderedSimulator(open_simulator(simulator, instance), loaded)
    controller = Controller(
        loaded, lookahead=lookahead, steps=system.horizon if steps is None else steps, method=method, solver=solver,
        time_limit_per_step=time_limit_per_step, time_limit_first_step=time_limit_first_step, gap=gap, threads=threads,
        seed=seed,
    )  # fmt: skip
    with handling_signals() as handler:
        with ProgressView(clock, quiet) as view:
            report = control_episodes(controller, system, episodes, seed, random_starts, tell_steps(view, clock))
        failure = None if out is None else failure_of(lambda: report.write(out))
        with showing(handler, out):
            if as_json:
                print(report.to_json())
            elif not quiet or failure:
                print_report(report)
    if failure is not None:
        raise failure
    return 0
