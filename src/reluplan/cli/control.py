"""`reluplan control`: plan at every step, in a simulator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reluplan.cli.options import (
    ControlInstanceOption,
    ControlMethodOption,
    ControlSeedOption,
    ControlSimulatorOption,
    ControlStepsOption,
    EpisodesOption,
    FirstStepSecondsOption,
    GapOption,
    JsonOption,
    LookaheadOption,
    ProblemArgument,
    QuietOption,
    RandomStartsOption,
    SolverOption,
    StepSecondsOption,
    StepsFileOption,
    ThreadsOption,
)
from reluplan.cli.shared import app, check_writable, failure_of, print_outcome, showing
from reluplan.clock import Clock
from reluplan.interrupts import handling_signals

if TYPE_CHECKING:
    from reluplan.control.report import ControlReport


@app.command(epilog="Exit codes: 0 done, 3 interrupted before the first episode ended, 4 bad input.")
def control(
    problem: ProblemArgument,
    simulator: ControlSimulatorOption,
    instance: ControlInstanceOption = None,
    lookahead: LookaheadOption = None,
    time_limit_per_step: StepSecondsOption = 2.0,
    time_limit_first_step: FirstStepSecondsOption = None,
    episodes: EpisodesOption = 1,
    steps: ControlStepsOption = None,
    random_starts: RandomStartsOption = False,
    method: ControlMethodOption = "auto",
    solver: SolverOption = "highs",
    gap: GapOption = 1e-4,
    threads: ThreadsOption = None,
    seed: ControlSeedOption = 0,
    out: StepsFileOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Control a simulated system, planning anew at every step."""
    clock = Clock()
    from reluplan.control.controller import Controller
    from reluplan.control.run import control_episodes, tell_steps
    from reluplan.problem.problem import Problem
    from reluplan.report.progress import ProgressView
    from reluplan.simulators import open_simulator
    from reluplan.simulators.ordered import OrderedSimulator

    loaded = Problem.load(problem)
    _check_file(out)
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
            print_outcome(as_json, quiet and not failure, report.to_json, lambda: _print(report))
    if failure is not None:
        raise failure
    return 0


def _check_file(out: Path | None) -> None:
    from reluplan.control.report import require_ending

    if out is not None:
        require_ending(out)
        check_writable(out.parent)


def _print(report: ControlReport) -> None:
    from reluplan.control.report import print_report

    print_report(report)
