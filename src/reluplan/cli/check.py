"""`reluplan check`: what a plan is really worth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from reluplan.cli.shared import JsonOption, ProblemArgument, QuietOption, app


@app.command(epilog="Exit codes: 0 the plan is valid, 3 it is not, 4 bad input.")
def check(
    problem: ProblemArgument,
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="plan.csv or a run directory.", show_default=False)],
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Re-simulate a plan, recompute its reward and every constraint."""
    from reluplan.check import check as check_plan
    from reluplan.plan_file import read_plan
    from reluplan.problem import Problem
    from reluplan.report import check_record, print_check
    from reluplan.simulate import simulate

    loaded = Problem.load(problem)
    stored = read_plan(loaded, plan_file)
    trajectory = simulate(loaded, stored.initial_state, stored.actions, stored.auxiliaries)
    report = check_plan(loaded, trajectory)
    record = check_record(loaded, report, trajectory, stored)
    if as_json:
        print(json.dumps(record, indent=2))
    elif not quiet:
        print_check(record)
    return 0 if report.ok else 3
