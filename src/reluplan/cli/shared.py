"""What every command shares: the application, common options, signals, early checks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from reluplan.errors import InputError

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


@contextmanager
def handling(number: int, handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> Iterator[None]:
    """Another handler for a signal, for a while."""
    previous = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, previous)


@contextmanager
def ending_like_ctrl_c() -> Iterator[None]:
    """Batch systems end jobs with SIGTERM; the best result so far is worth as much then as at Ctrl-C."""
    with handling(signal.SIGTERM, signal.default_int_handler):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """A finished result is written whole and shown, however often Ctrl-C is pressed."""
    with handling(signal.SIGINT, signal.SIG_IGN), handling(signal.SIGTERM, signal.SIG_IGN):
        yield
