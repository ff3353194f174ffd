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
from typing import TYPE_CHECKING

from reluplan.cli.options import (
    CollectStepsOption,
    DataFileOption,
    DataSeedOption,
    DomainArgument,
    EpisodesOption,
    ExplorationOption,
    InstanceArgument,
    JsonOption,
    LimitingProblemOption,
    ProcessesOption,
    QuietOption,
)
from reluplan.cli.shared import app, check_writable, print_outcome, showing
from reluplan.interrupts import handling_signals

if TYPE_CHECKING:
    from reluplan.data.quality import DataReport
    from reluplan.problem.problem import Variable
    from reluplan.simulators.base import Simulator
    from reluplan.simulators.collect import OnEpisode
    from reluplan.simulators.collector import Collection, Collector


@app.command(
    epilog="Exit codes: 0 done (or interrupted: whole episodes are kept), 3 interrupted before the first, 4 bad input."
)
def collect(
    domain: DomainArgument,
    out: DataFileOption,
    instance: InstanceArgument = None,
    episodes: EpisodesOption = 100,
    steps: CollectStepsOption = None,
    seed: DataSeedOption = 0,
    exploration: ExplorationOption = "uniform",
    problem: LimitingProblemOption = None,
    processes: ProcessesOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Collect transitions from a simulator with exploring actions."""
    began = time.monotonic()
    from reluplan.data.write import check_data_ending
    from reluplan.simulators.collector import Collection

    check_data_ending(out)
    check_writable(out.parent)
    work = Collection(domain, instance, episodes, steps, seed, exploration, problem)
    _collect(work, out, processes, quiet, as_json, began)
    return 0


def _collect(work: Collection, out: Path, processes: int | None, quiet: bool, as_json: bool, began: float) -> None:
    from reluplan.data.quality import data_report
    from reluplan.data.write import write_transitions
    from reluplan.simulators.collect import run_collection
    from reluplan.simulators.collector import Collector

    collector = Collector(work)
    workers = processes if processes is not None else _worthwhile(collector)
    with handling_signals() as handler:
        with _bar(work.episodes, quiet) as on_episode:
            found = run_collection(collector, workers, on_episode)
        report = data_report(found.transitions, _variables(collector.simulator, work.problem))
        write_transitions(found.transitions, out)
        with showing(handler, out):
            seconds = round(time.monotonic() - began, 3)
            run = {"file": str(out), "seconds": seconds, "interrupted": found.interrupted}
            print_outcome(
                as_json, quiet, lambda: json.dumps({**run, **asdict(report)}, indent=2), lambda: _print(report, out)
            )
    if found.interrupted:
        kept = f"{out} holds the first {found.episodes} of {work.episodes} episodes"
        print(f"reluplan: interrupted: {kept}", file=sys.stderr)


def _print(report: DataReport, out: Path) -> None:
    from reluplan.report.data import print_data

    print_data(report)
    print(f"file      {out}")


def _worthwhile(collector: Collector) -> int:
    """As many processes as have enough to do."""
    from reluplan.planning.planner import available_cores

    steps = collector.work.episodes * collector.steps
    return max(1, min(available_cores(), math.ceil(steps / collector.work.settings.steps_per_process)))


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
