"""The command line: each command a thin shell around the library."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.exceptions import Abort, Exit, TyperException

from reluplan.errors import InputError, ReluplanError
from reluplan.run import Clock, Event

if TYPE_CHECKING:
    from reluplan.potentials.potential_set import PotentialSet
    from reluplan.problem import Problem

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
    _print_any_text()
    try:
        sys.exit(_run(sys.argv[1:]))
    except ReluplanError as error:
        _complain(str(error), error.exit_code)
    except Exit as stop:
        sys.exit(stop.exit_code)
    except TyperException as error:
        if len(sys.argv) < 2:  # no command at all: the message is the help
            print(error.format_message(), file=sys.stderr)
            sys.exit(EXIT_BAD_INPUT)
        _complain(f"{error.format_message()} (see --help)", EXIT_BAD_INPUT)
    except (KeyboardInterrupt, Abort):
        _complain("interrupted before there was anything to keep", 3)
    except BrokenPipeError:
        _drop_output()
        sys.exit(0)
    except OSError as error:
        _drop_output()
        _complain(f"the system refused to go on: {error}", EXIT_INTERNAL)
    except Exception as error:
        if os.environ.get("RELUPLAN_DEBUG"):
            traceback.print_exc()
        hint = "set RELUPLAN_DEBUG=1 for the traceback, and please report it"
        _complain(f"internal error: {type(error).__name__}: {error} ({hint})", EXIT_INTERNAL)


def _run(arguments: list[str]) -> int:
    """Not `app()`, which turns Ctrl-C and closed pipes into exit codes of its own."""
    command = typer.main.get_command(app)
    with command.make_context("reluplan", arguments) as context:
        code = command.invoke(context)
    if sys.stdout is not None:
        sys.stdout.flush()  # here, where a closed pipe is still handled
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> NoReturn:
    print(f"reluplan: {message}", file=sys.stderr)
    sys.exit(code)


def _drop_output() -> None:
    """What stdout still holds cannot be written; without this, Python would try again at its end and complain."""
    with suppress(OSError, AttributeError):  # there may be no real stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_any_text() -> None:
    """Names may hold characters that the terminal's encoding lacks: better an escape than a failure."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _check_writable(folder: Path) -> None:
    """Complain before hours of work, not after them, if the folder cannot be made or written to."""
    try:
        existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
            return
        reason = "no permission" if existing.is_dir() else f"{existing} is a file"
    except OSError as error:
        reason = str(error.strerror)
    raise InputError(f"{folder}: nothing can be written there ({reason}); choose another --out")


@contextmanager
def _handling(number: int, handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> Iterator[None]:
    """Another handler for a signal, for a while."""
    previous = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, previous)


@app.command(epilog=EPILOG)
def plan(
    problem: ProblemArgument,
    out: Annotated[Path, typer.Option(help="Run directory for result.json, plan.csv and log.txt.", show_default=False)],
    horizon: HorizonOption = None,
    method: Annotated[str, typer.Option(help="base, potentials, or auto (base for now).")] = "auto",
    intervals: Annotated[int, typer.Option(help="Output intervals of each ReLU, for --method potentials.")] = 2,
    potentials: Annotated[
        Path | None, typer.Option(help="Potentials file to use with --method potentials.", show_default=False)
    ] = None,
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
    from reluplan.report.terminal import STATUS_WORDS, print_result

    loaded = Problem.load(problem)
    known = None if potentials is None else _load_potentials(potentials, loaded, horizon, method)
    _check_writable(out)
    # Batch systems end jobs with SIGTERM; the best plan so far is worth as much then as at Ctrl-C.
    with _handling(signal.SIGTERM, signal.default_int_handler):
        with ProgressView(clock, quiet) as view:
            result = find_plan(
                loaded, horizon=horizon, method=method, solver=solver, time_limit=time_limit, gap=gap, threads=threads,
                seed=seed, big_m=big_m, interval_count=intervals, potentials=known, clock=clock, on_event=view,
            )  # fmt: skip
            view(Event(clock.elapsed, "end", STATUS_WORDS[result.status], result.reward, result.bound))
        # A finished run is written whole and shown, however often Ctrl-C is pressed.
        with _handling(signal.SIGINT, signal.SIG_IGN), _handling(signal.SIGTERM, signal.SIG_IGN):
            result.write(out, view.log)
            if as_json:
                print(result.to_json())
            elif not quiet:
                print_result(result, out)
    return result.exit_code


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
    clock = Clock(time_limit)
    from reluplan.planner import available_cores
    from reluplan.potentials.compute import reward_potentials, tell_rounds
    from reluplan.potentials.generate import choose_settings
    from reluplan.problem import Problem
    from reluplan.progress import ProgressView
    from reluplan.report.convergence import check_plot, plot_convergence
    from reluplan.report.terminal import print_potentials

    loaded = Problem.load(problem)
    loaded = loaded if horizon is None else loaded.with_horizon(horizon)
    settings = choose_settings(setting, intervals, threads or available_cores(), seed, regulariser)
    check_plot(plot)
    _check_writable(out.parent)
    with _handling(signal.SIGTERM, signal.default_int_handler):
        with ProgressView(clock, quiet) as view:
            tell = tell_rounds(lambda message: view(Event(clock.elapsed, "potentials", message, None, None)))
            found = reward_potentials(
                loaded, settings=settings, per_step=per_step, deadline=clock.deadline(), on_round=tell
            )
        with _handling(signal.SIGINT, signal.SIG_IGN), _handling(signal.SIGTERM, signal.SIG_IGN):
            found.save(out)
            if plot is not None:
                plot_convergence(found, plot)
            if as_json:
                print(json.dumps({"file": str(out), **found.report}, indent=2))
            elif not quiet:
                print_potentials(found, out)
    return 0


def _load_potentials(path: Path, problem: Problem, horizon: int | None, method: str) -> PotentialSet:
    from reluplan.potentials.potential_set import PotentialSet

    if method != "potentials":
        raise InputError("--potentials goes with --method potentials")
    known = PotentialSet.load(path)
    known.require_fit(problem if horizon is None else problem.with_horizon(horizon), str(path))
    return known


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
    """Turn HD-MILP-Plan text files into a problem file."""
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
    """Write the planning model as an MPS or LP file."""
    from reluplan.milp.export import export_model
    from reluplan.planner import build_model
    from reluplan.problem import Problem

    loaded = Problem.load(problem)
    _check_writable(out.parent)
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
