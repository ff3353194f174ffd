"""`reluplan potentials`: reward potentials of a problem."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from reluplan.cli.options import (
    ConvergencePlotOption,
    HorizonOption,
    IntervalsOption,
    JsonOption,
    PerStepOption,
    PotentialsOutOption,
    ProblemArgument,
    QuietOption,
    RegulariserOption,
    SamplingSeedOption,
    SettingOption,
    ThreadsOption,
    TimeLimitOption,
)
from reluplan.cli.shared import app, check_writable, failure_of, print_outcome, showing
from reluplan.clock import Clock, command_started
from reluplan.errors import ReluplanError
from reluplan.interrupts import handling_signals
from reluplan.planning.log import Event

if TYPE_CHECKING:
    from reluplan.potentials.potential_set import PotentialSet


@app.command(epilog="Exit codes: 0 done (converged or not: see the table), 2 proven infeasible, 4 bad input.")
def potentials(
    problem: ProblemArgument,
    out: PotentialsOutOption,
    intervals: IntervalsOption = 1,
    horizon: HorizonOption = None,
    time_limit: TimeLimitOption = math.inf,
    setting: SettingOption = "fast",
    per_step: PerStepOption = False,
    regulariser: RegulariserOption = None,
    threads: ThreadsOption = None,
    seed: SamplingSeedOption = 0,
    plot: ConvergencePlotOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Compute reward potentials; any stop leaves valid ones."""
    clock = Clock(time_limit, command_started())
    from reluplan.planning.planner import available_cores
    from reluplan.potentials.compute import reward_potentials
    from reluplan.potentials.generation import tell_rounds
    from reluplan.potentials.settings import choose_settings
    from reluplan.problem.problem import Problem
    from reluplan.report.figures import check_plot
    from reluplan.report.progress import ProgressView

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
        failure = _write(found, out, plot)
        with showing(handler, out):
            record = {"file": str(out), **found.report.to_dict()}
            print_outcome(as_json, quiet, lambda: json.dumps(record, indent=2), lambda: _print(found, out))
    if failure is not None:
        raise failure
    return 0


def _write(found: PotentialSet, out: Path, plot: Path | None) -> ReluplanError | None:
    """The first thing that went wrong with the files, None if nothing did."""
    from reluplan.report.convergence import plot_convergence

    failure = failure_of(lambda: found.save(out))
    if plot is not None:
        failure = failure or failure_of(lambda: plot_convergence(found, plot))
    return failure


def _print(found: PotentialSet, out: Path) -> None:
    from reluplan.report.terminal import print_potentials

    print_potentials(found, out)
