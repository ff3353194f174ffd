"""Errors that a user can act on, each with the exit code that the command line returns for it."""

from __future__ import annotations


class ReluplanError(Exception):
    """Base of every error that reluplan raises on purpose; the message is one paragraph for the user."""

    exit_code = 5


class InputError(ReluplanError):
    """A file, a value or an option is wrong: says what, where, and what to do."""

    exit_code = 4


class OutputError(ReluplanError):
    """Files that could not be written: says which, why, and what was written all the same."""


class MissingExtraError(InputError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed. "
            f"Install it with: pip install 'reluplan[{extra}]'"
        )


class InfeasibleError(ReluplanError):
    """It is proven that no plan exists."""

    exit_code = 2


class OutOfTimeError(ReluplanError):
    """The time limit ended before there was anything to show."""

    exit_code = 3


class NumericalError(ReluplanError):
    """Floating-point trouble that was detected and cannot be worked around."""


class SolverError(ReluplanError):
    """A solver failed, refused the model (a licence limit, say), or returned something it must not."""
