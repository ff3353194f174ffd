"""What every command shares: the application, signals, early checks, printing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from reluplan.errors import InputError, OutputError, ReluplanError
from reluplan.interrupts import SignalHandler

if TYPE_CHECKING:
    from reluplan.problem.problem import Problem

EPILOG = (
    "Exit codes: 0 a plan (proven or not: see the status), 2 proven infeasible, 3 no plan within the limits, "
    "4 bad input, 5 internal error or files that could not be written."
)

app = typer.Typer(
    help="Optimal planning with learned ReLU dynamics: a plan, and a proven bound on what any other could gain.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def names_in(text: str) -> list[str]:
    """a,b,c as a list; commas in brackets, as in x[t1,t2], separate nothing."""
    names, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            names.append("")
        else:
            names[-1] += character
    return [name.strip() for name in names if name.strip()]


def with_initial(problem: Problem, given: Sequence[str] | None) -> Problem:
    """The problem with first values such as `level=2.5` in place of its own."""
    values: dict[str, float] = {}
    for text in given or ():
        name, equals, number = text.rpartition("=")
        try:
            values[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"--initial {text}: expected a state and its first value, as in --initial level=2.5")
    return problem.with_initial(values) if values else problem


def check_writable(folder: Path) -> None:
    """Complain before hours of work, not after them, if the folder cannot be made or written to."""
    try:
        existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
            return
        reason = "no permission" if existing.is_dir() else f"{existing} is a file"
    except OSError as error:
        reason = str(error.strerror)
    raise InputError(f"{folder}: nothing can be written there ({reason}); choose another --out")


def require_onnx_name(network: Path) -> None:
    """Networks are written as ONNX files, and look like it."""
    if network.suffix != ".onnx":
        raise InputError(f"{network}: a network is written as an ONNX file; let its name end in .onnx")


def check_outputs(written: Sequence[Path], read: Sequence[Path]) -> None:
    """Complain before the work about files that cannot be written, or would overwrite each other or what is read."""
    inputs = {os.path.realpath(path) for path in read}
    for path in written:
        check_writable(path.parent)
        if os.path.realpath(path) in inputs or written.count(path) > 1:
            raise InputError(f"{path}: is named twice, to be read or written; choose another name")


def report_json(report: str, network: Path, report_file: Path) -> str:
    """A report's own JSON, with where it and its network were written."""
    names = {"network": str(network), "report": str(report_file)}
    return json.dumps({**names, **json.loads(report)}, indent=2)


def failure_of(write: Callable[[], None]) -> ReluplanError | None:
    """What went wrong with writing, to be told after the result is shown: then at least that is not lost."""
    try:
        write()
    except InputError as error:
        return OutputError(str(error))
    except ReluplanError as error:
        return error
    except OSError as error:
        return OutputError(f"the system refused to write: {error}")
    return None


def drop_output(stream: TextIO) -> None:
    """What it still holds cannot be written; without this, Python would try again at its end and complain or hang."""
    with suppress(OSError, AttributeError, ValueError):  # there may be no real stream
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def showing(handler: SignalHandler, place: Path | None) -> Iterator[None]:
    """The files are written; Ctrl-C, for as long as the reader of our output does not read it, ends the showing."""
    handler.files_written()
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        where = "" if place is None else f"; the files are in {place}"
        print(f"reluplan: interrupted while the result was shown{where}", file=sys.stderr)
        drop_output(sys.stdout)
    handler.finished()


def print_outcome(as_json: bool, quiet: bool, json_text: Callable[[], str], print_table: Callable[[], object]) -> None:
    """A result as JSON, as a table for people, or not at all."""
    if as_json:
        print(json_text())
    elif not quiet:
        print_table()
