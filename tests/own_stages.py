"""Stages from outside the package, registered under names of their own, that do what a test wants."""

from __future__ import annotations

from collections.abc import Callable

from reluplan.planning.stages import STAGES
from reluplan.planning.work import Work


def own_stage(name: str, work_on: Callable[[Work], None]) -> str:
    """Register a stage that calls this function; its name, for `plan(stages=[...])`."""

    class Own:
        summary = "a test's own stage"
        uses_workers = False

        def __init__(self) -> None:
            self.name = name

        def applies(self, work: Work) -> bool:
            return True

        def run(self, work: Work, deadline: float) -> None:
            work_on(work)

    STAGES.register(name, Own, replace=True)
    return name
