"""The published HD-MILP-Plan instances as problems, for all benchmarks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from reluplan.problem.hd_milp_plan.convert import convert
from reluplan.problem.problem import Problem

HORIZONS = {
    "hvac_3": 100,
    "hvac_6": 100,
    "reservoir_3": 500,
    "reservoir_4": 500,
    "navigation_8x8": 100,
    "navigation_10x10": 100,
}
"""As in the paper."""

NAVIGATION_ACTIONS = 0.1
"""Navigation's actions are within ± this, as in the paper; the published files say ± 1."""


def load_instance(folder: Path, name: str, horizon: int, action_bound: float = NAVIGATION_ACTIONS) -> Problem:
    """One instance over a horizon; folder: with dnn/ and translation/."""
    actions = (-action_bound, action_bound) if name.startswith("navigation") else None
    with tempfile.TemporaryDirectory() as scratch:
        return Problem.load(convert(folder, name, Path(scratch), actions)).with_horizon(horizon)


def load_instances(
    folder: Path, horizons: Mapping[str, int] = HORIZONS, only: str | None = None
) -> Iterator[tuple[str, Problem]]:
    """The instances one after the other, with their names; only: of one name."""
    for name, horizon in horizons.items():
        if only in (None, name):
            yield name, load_instance(folder, name, horizon)
