"""`reluplan check`: what a plan is really worth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reluplan.cli.shared import HorizonOption, JsonOption, ProblemArgument, QuietOption, app, check_writable
from reluplan.errors import InputError

if TYPE_CHECKING:
    from reluplan.problem.problem import Problem
    from reluplan.problem.rollout import Trajectory
    from reluplan.simulators.validate import ValidationReport


@app.command(epilog="Exit codes: 0 the plan is valid and its files are right, 3 one of them is not, 4 bad input.")
def check(
    problem: ProblemArgument,
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="plan.csv or a run directory.", show_default=False)],
    simulator: Annotated[
        str | None,
        typer.Option(
            help="Also run it in the true system: domain.rddl, gym:EnvId, file.py:function. "
            "A Python file and a gym environment are programs: they run with your rights.",
            show_default=False,
        ),
    ] = None,
    instance: Annotated[
        str | None, typer.Option(help="Instance of the simulator's domain.", show_default=False)
    ] = None,
    horizon: HorizonOption = None,
    seed: Annotated[int, typer.Option(help="Random seed of the simulator.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Plot network against true system (.png, .svg, .pdf).")] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Re-simulate a plan and compare it with what its files say.

    Its reward and every constraint are recomputed. The states, rewards and length of plan.csv, and reward, status,
    violation, horizon and gap of the result.json beside it, must be what is recomputed. The bound must not lie below
    the reward, but it is not proven again.

    With --simulator, run it in the true system as well: what it earns there, how far the states drift, what it breaks.
    """
    from reluplan.planning.referee import disagreements, read_result
    from reluplan.problem.check import check as check_plan
    from reluplan.problem.plan_file import read_plan
    from reluplan.problem.problem import Problem
    from reluplan.problem.rollout import simulate
    from reluplan.report import check_record, print_check
    from reluplan.report.terminal import print_disagreements

    _check_options(simulator, instance, plot)
    loaded = replace(Problem.load(problem), tie_distance=0.0)  # a plan may be as close to a tie as exactness allows
    loaded = loaded if horizon is None else loaded.with_horizon(horizon)
    stored = read_plan(loaded, plan_file)
    trajectory = simulate(loaded, stored.initial_state, stored.actions, stored.auxiliaries)
    report = check_plan(loaded, trajectory)
    result = read_result(plan_file)
    found = disagreements(loaded, stored, trajectory, report, result)
    record = {
        **check_record(loaded, report, trajectory, stored),
        "ok": report.ok and not found,
        "valid": report.ok,
        "disagreements": [each.record() for each in found],
        "result_checked": result is not None,
        "bound_proven": False,
    }
    true = None if simulator is None else _validate(loaded, trajectory, simulator, instance, seed, plot)
    if as_json:
        print(json.dumps(record if true is None else {**record, "simulation": true.record()}, indent=2))
    elif not quiet:
        print_check(record)
        print_disagreements(record)
        if true is not None:
            _print(true)
    return 0 if record["ok"] else 3


def _check_options(simulator: str | None, instance: str | None, plot: Path | None) -> None:
    from reluplan.report.figures import check_plot

    if simulator is None and (instance is not None or plot is not None):
        raise InputError("--instance and --plot go with --simulator")
    check_plot(plot)
    if plot is not None:
        check_writable(plot.parent)


def _validate(
    problem: Problem, trajectory: Trajectory, simulator: str, instance: str | None, seed: int, plot: Path | None
) -> ValidationReport:
    from reluplan.report.simulation import plot_drift
    from reluplan.simulators.open import open_simulator
    from reluplan.simulators.validate import validate

    system = open_simulator(simulator, instance)
    report = validate(problem, trajectory, system, seed)
    system.close()
    if plot is not None:
        plot_drift(problem, report, plot)
    return report


def _print(report: ValidationReport) -> None:
    from reluplan.report.simulation import print_validation

    print_validation(report)
