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
    """Nothing is left in the set that a stage looked at: the boxes of better plans, a window, a part of a domain.

    That says nothing about the whole problem; only `NoPlanExistsError` and `NoBetterPlanError` do.
    """

    exit_code = 3


class NoPlanExistsError(InfeasibleError):
    """It is proven that a problem has no plan: raised only where boxes and models contain ALL its plans.

    problem: the one that is meant, so that a claim about a part of a problem is never taken for one about the whole.
    """

    exit_code = 2
    problem: object = None

    def __init__(self, message: str, problem: object = None) -> None:
        super().__init__(message)
        self.problem = problem


class NoBetterPlanError(InfeasibleError):
    """It is proven that no plan is better than the incumbent: nothing is left in the boxes of better plans."""


class OutOfTimeError(ReluplanError):
    """The time limit ended before there was anything to show."""

    exit_code = 3


class NumericalError(ReluplanError):
    """Floating-point trouble that was detected and cannot be worked around."""


class SolverError(ReluplanError):
    """A solver failed, refused the model (a licence limit, say), or returned something it must not."""
