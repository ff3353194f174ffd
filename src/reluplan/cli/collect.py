"""`reluplan collect`: transition data from a simulator."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reluplan.cli.shared import JsonOption, QuietOption, app, check_writable, showing
from reluplan.interrupts import handling_signals

if TYPE_CHECKING:
    from reluplan.problem.problem import Variable
    from reluplan.simulators.base import Simulator
    from reluplan.simulators.collect import OnEpisode

STEPS_PER_PROCESS = 2000
"""Fewer steps than this are done before another process has started."""


@app.command(
    epilog="Exit codes: 0 done (or interrupted: whole episodes are kept), 3 interrupted before the first, 4 bad input."
)
def collect(
    domain: Annotated[
        str,
        typer.Argument(
            help="domain.rddl, a name of rddlrepository, gym:EnvId, or file.py:function. "
            "A Python file and a gym environment are programs: they run with your rights.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="data.parquet, .csv or .npz; the ending decides.", show_default=False)],
    instance: Annotated[
        str | None, typer.Argument(help="Instance of the domain: file, number or name.", show_default=False)
    ] = None,
    episodes: Annotated[int, typer.Option(help="Number of episodes.")] = 100,
    steps: Annotated[
        int | None, typer.Option(help="Steps of an episode; the simulator's horizon by default, 10 for latin.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same data.")] = 0,
    exploration: Annotated[
        str, typer.Option(help="uniform or smooth actions, or latin: uniform from first states spread over the bounds.")
    ] = "uniform",
    problem: Annotated[
        Path | None, typer.Option(help="Problem file whose bounds and constraints the data keep to.")
    ] = None,
    processes: Annotated[int | None, typer.Option(help="Processes; as many as are worth it by default.")] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Collect transitions from a simulator with exploring actions."""
    from reluplan.data.formats import check_data_ending
    from reluplan.data.quality import data_report
    from reluplan.data.write import write_transitions
    from reluplan.report.data import print_data
    from reluplan.simulators.collect import Collection, Collector, run_collection

    began = time.monotonic()
    check_data_ending(out)
    check_writable(out.parent)
    collector = Collector(Collection(domain, instance, episodes, steps, seed, exploration, problem))
    workers = processes if processes is not None else _worthwhile(episodes * collector.steps)
    with handling_signals() as handler:
        with _bar(episodes, quiet) as on_episode:
            found = run_collection(collector, workers, on_episode)
        report = data_report(found.transitions, _variables(collector.simulator, problem))
        write_transitions(found.transitions, out)
        with showing(handler, out):
            if as_json:
                run = {
                    "file": str(out),
                    "seconds": round(time.monotonic() - began, 3),
                    "interrupted": found.interrupted,
                }
                print(json.dumps({**run, **asdict(report)}, indent=2))
            elif not quiet:
                print_data(report)
                print(f"file      {out}")
    if found.interrupted:
        kept = f"{out} holds the first {found.episodes} of {episodes} episodes"
        print(f"reluplan: interrupted: {kept}", file=sys.stderr)
    return 0


def _worthwhile(steps: int) -> int:
    from reluplan.planning.planner import available_cores

    return max(1, min(available_cores(), math.ceil(steps / STEPS_PER_PROCESS)))


def _variables(simulator: Simulator, problem: Path | None) -> list[Variable]:
    """The declared bounds: the problem's, or the simulator's own."""
    from reluplan.problem.file import read_variables
    from reluplan.problem.problem import Variable

    if problem is not None:
        table = read_variables(problem)
        return [*table.states, *table.actions]
    names = (*simulator.state_names, *simulator.action_names)
    lower = (*simulator.state_lower, *simulator.action_lower)
    upper = (*simulator.state_upper, *simulator.action_upper)
    boxes = zip(names, lower, upper, strict=True)
    return [Variable(name, "continuous", float(low), float(high)) for name, low, high in boxes]


@contextmanager
def _bar(episodes: int, quiet: bool) -> Iterator[OnEpisode | None]:
    """A progress bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("episodes"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("episodes", total=episodes)
        yield lambda done: progress.update(task, completed=done)
