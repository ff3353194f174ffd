"""The command line: each command a thin shell around the library."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import Abort, Exit, TyperException

from reluplan.errors import ReluplanError
from reluplan.run import Clock

EXIT_BAD_INPUT = 4
EXIT_INTERNAL = 5
EPILOG = (
    "Exit codes: 0 a plan (proven or not: see the status), 2 proven infeasible, 3 no plan within the limits, "
    "4 bad input, 5 internal error."
)

app = typer.Typer(
    help="Optimal planning with learned ReLU dynamics: a plan, and a proven bound on what any other could gain.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ProblemArgument = Annotated[Path, typer.Argument(help="Problem file (TOML).", show_default=False)]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
HorizonOption = Annotated[int | None, typer.Option(help="Number of steps; the problem file's by default.")]


def main() -> None:
    """Run the command line and exit with a documented code; no traceback for a user's mistake."""
    try:
        code = app(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except ReluplanError as error:
        _complain(str(error), error.exit_code)
    except Exit as stop:
        sys.exit(stop.exit_code)
    except TyperException as error:
        _complain(f"{error.format_message()} (see --help)", EXIT_BAD_INPUT)
    except (KeyboardInterrupt, Abort):
        _complain("interrupted before there was anything to keep", 3)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if os.environ.get("RELUPLAN_DEBUG"):
            traceback.print_exc()
        hint = "set RELUPLAN_DEBUG=1 for the traceback, and please report it"
        _complain(f"internal error: {type(error).__name__}: {error} ({hint})", EXIT_INTERNAL)


def _complain(message: str, code: int) -> None:
    print(f"reluplan: {message}", file=sys.stderr)
    sys.exit(code)


@app.command(epilog=EPILOG)
def plan(
    problem: ProblemArgument,
    out: Annotated[Path, typer.Option(help="Run directory for result.json, plan.csv and log.txt.", show_default=False)],
    horizon: HorizonOption = None,
    method: Annotated[str, typer.Option(help="auto or base.")] = "auto",
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
    clock = Clock(time_limit)
    from reluplan.planner import plan as find_plan
    from reluplan.problem import Problem
    from reluplan.progress import ProgressView
    from reluplan.report import print_result

    loaded = Problem.load(problem)
    with ProgressView(clock, quiet) as view:
        result = find_plan(
            loaded, horizon=horizon, method=method, solver=solver, time_limit=time_limit, gap=gap, threads=threads,
            seed=seed, big_m=big_m, clock=clock, on_event=view,
        )  # fmt: skip
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the files of a finished run are always written whole
    result.write(out, view.log)
    if as_json:
        print(result.to_json())
    elif not quiet:
        print_result(result, out)
    return result.exit_code


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
    record = check_record(report, trajectory, stored)
    if as_json:
        print(json.dumps(record, indent=2))
    elif not quiet:
        print_check(record)
    return 0 if report.ok else 3


@app.command(epilog="Exit codes: 0 done, 4 bad input.")
def convert(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with dnn/ and translation/.", show_default=False)
    ],
    name: Annotated[str, typer.Argument(help="Instance, such as hvac_3.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for problem.toml and network.onnx.", show_default=False)],
    action_bounds: Annotated[
        tuple[float, float] | None, typer.Option(metavar="LO HI", help="Narrow the bounds of all actions.")
    ] = None,
    example: Annotated[
        list[str] | None,
        typer.Option(
            help="Read this kind of file (goal, pvariables, transitions) from its example_ variant; repeatable."
        ),
    ] = None,
    horizon: HorizonOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Convert HD-MILP-Plan text files into a problem file and a network."""
    from reluplan.importers.hd_milp_plan import convert as convert_files

    path = convert_files(folder, name, out, action_bounds, example or (), horizon)
    if as_json:
        print(json.dumps({"problem": str(path)}))
    elif not quiet:
        print(f"wrote {path}")
    return 0


@app.command(epilog="Exit codes: 0 done, 2 proven infeasible, 4 bad input.")
def export(
    problem: ProblemArgument,
    out: Annotated[Path, typer.Option(help="model.mps or model.lp; the ending decides.", show_default=False)],
    horizon: HorizonOption = None,
    big_m: Annotated[float | None, typer.Option(help="One big-M for all ReLUs.")] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Write the planning model as an MPS or LP file with readable names."""
    from reluplan.milp.export import export_model
    from reluplan.planner import build_model
    from reluplan.problem import Problem

    loaded = Problem.load(problem)
    model = build_model(loaded if horizon is None else loaded.with_horizon(horizon), big_m, named=True).model
    export_model(model, out)
    record: dict[str, Any] = {"file": str(out), "rows": model.row_count, "columns": model.column_count}
    if as_json:
        print(json.dumps(record))
    elif not quiet:
        print(f"wrote {out}: {model.row_count} rows, {model.column_count} columns")
    return 0


def _version(show: bool) -> None:
    if show:
        from importlib.metadata import version

        print(f"reluplan {version('reluplan')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the command itself."""
