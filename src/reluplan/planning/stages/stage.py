"""What a stage is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from reluplan.planning.work import Work


class Stage(Protocol):
    """One part of a schedule: it looks at the work, offers plans and bounds to the incumbent, leaves smaller boxes.

    A stage that finds that nothing is left in boxes of better plans raises NoBetterPlanError, in boxes of all plans
    NoPlanExistsError; one that cannot be done in time OutOfTimeError.
    """

    @property
    def name(self) -> str:
        """Its name in schedules, in the log and in the result."""
        ...

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        ...

    @property
    def uses_workers(self) -> bool:
        """Whether it needs the worker processes of the run."""
        ...

    def applies(self, work: Work) -> bool:
        """Whether it has what it needs, and can do anything here."""
        ...

    def run(self, work: Work, deadline: float) -> None:
        """Do it, by the deadline (of clock.now)."""
        ...


def starts_slowly(stage: Stage) -> bool:
    """Whether its first bounds are of no use, and later ones the best where it applies: it says so by a field
    `starts_slowly`."""
    return bool(getattr(stage, "starts_slowly", False))


@runtime_checkable
class Closable(Protocol):
    """A stage, or a proof, that may have begun something that outlasts its turn."""

    def close(self) -> None:
        """End it."""
        ...


@runtime_checkable
class Proving(Protocol):
    """A stage whose own bound is known, also while others have proven more."""

    @property
    def own_bound(self) -> float:
        """The best one so far; inf if there is none."""
        ...
