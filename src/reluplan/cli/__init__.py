"""The command line: each command a thin shell around the library, in a file of its own."""

from __future__ import annotations

import io
import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer
from typer.exceptions import Abort, Exit, TyperException

from reluplan.cli import check, collect, control, convert, distil, export, init, inspect, plan, potentials, train  # noqa: F401  (each registers its command)
from reluplan.cli.shared import app, drop_output
from reluplan.errors import ReluplanError
from reluplan.startup import EXIT_INTERRUPTED, INTERRUPTED_MESSAGE, ignore_signals, leave_at_once, raise_on_signals

EXIT_BAD_INPUT = 4
EXIT_INTERNAL = 5


def main() -> None:
    """Run the command line and exit with a documented code; no traceback for a user's mistake."""
    try:
        _main()
    except SystemExit as leaving:
        leave_at_once(leaving.code)
        raise


def _main() -> NoReturn:
    raise_on_signals()
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
        ignore_signals()
        _complain(INTERRUPTED_MESSAGE, EXIT_INTERRUPTED)
    except BrokenPipeError:
        drop_output(sys.stdout)
        sys.exit(0)
    except OSError as error:
        drop_output(sys.stdout)
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
    try:
        print(f"reluplan: {message}", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # nobody listens, but the exit code still tells
        drop_output(sys.stderr)
    sys.exit(code)


def _print_any_text() -> None:
    """Names may hold characters that the terminal's encoding lacks: better an escape than a failure."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
