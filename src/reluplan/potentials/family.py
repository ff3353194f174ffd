"""Families of potentials: one set, one for each objective, or sets that separate the plan's LP relaxation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.reachability import HorizonBounds
from reluplan.encoding.relu import StepColumns
from reluplan.encoding.unroll import unroll
from reluplan.optimisation.model import ModelBuilder
from reluplan.optimisation.piecewise_rows import LinearForm
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.potentials.encode import EntryColumns, encode_entries
from reluplan.potentials.features import PatternFeatures
from reluplan.potentials.generate import Generation, Objective, PotentialSearch, Round
from reluplan.potentials.potentials import RewardPotentials
from reluplan.potentials.strengthen import add_potential_row
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]

OBJECTIVES: tuple[Objective, ...] = ("centre", "mean", "plans")
SEPARATED_SETS = 6
LP_HORIZON = 8


def generate_family(
    search: PotentialSearch,
    problem: Problem,
    bounds: HorizonBounds,
    deadline: float = math.inf,
    on_round: Callable[[Round], None] | None = None,
) -> list[Generation]:
    """The family that the search's settings ask for, as far as time allows; at least one member."""
    family: list[Generation] = []
    for goal in _goals(search, problem, bounds, family):
        family.append(search.optimise(goal, deadline, on_round))
        if family[-1].interrupted or not family[-1].converged:
            break
    return family


def _goals(
    search: PotentialSearch, problem: Problem, bounds: HorizonBounds, family: Sequence[Generation]
) -> Iterator[Array | Objective | None]:
    """Where each member is to be small, one after the other."""
    if search.settings.family == "several":
        yield from OBJECTIVES
    elif search.settings.family == "lp" and search.features.unit_count:
        for _ in range(SEPARATED_SETS):
            yield fractional_pattern(problem, bounds, search.features, [member.potentials for member in family])
    else:
        yield None


def fractional_pattern(
    problem: Problem, bounds: HorizonBounds, features: PatternFeatures, potentials: Sequence[RewardPotentials]
) -> Array:
    """The mean pattern (K, N + 1) over the first steps of the plan's LP relaxation, strengthened by potentials."""
    horizon = min(LP_HORIZON, bounds.horizon)
    short = problem.part(horizon, problem.initial_lower, problem.initial_upper, keeps_initial_rows=True, goal=())
    extension = _EntriesAndRows(features, potentials, [])
    model = unroll(short, _first_steps(bounds, horizon), extension=extension).model
    relaxed = model.relaxed()
    solution = HighsSolver().solve(relaxed, SolveOptions()).solution
    if solution is None:
        return np.ones(features.shape)
    shares: Array = np.mean([columns.shares(solution) for columns in extension.entries], axis=0)
    return shares


@dataclass(eq=False)
class _EntriesAndRows:
    """An extension with the entries of given features at every step, and the rows of potentials with these."""

    features: PatternFeatures
    potentials: Sequence[RewardPotentials]
    entries: list[EntryColumns]

    def extend(
        self, builder: ModelBuilder, steps: Sequence[StepColumns], bounds: HorizonBounds, reward: LinearForm
    ) -> None:
        for t, step in enumerate(steps):
            self.entries.append(encode_entries(builder, self.features, step, bounds, t))
            for potentials in self.potentials:
                if potentials.first <= t <= potentials.last:
                    add_potential_row(builder, self.entries[-1], potentials, reward, t)

    def fill(self, x: Array, units: Array) -> None:
        for columns, pre in zip(self.entries, units, strict=True):
            columns.fill(x, pre)


def _first_steps(bounds: HorizonBounds, horizon: int) -> HorizonBounds:
    """The proven boxes of the first steps; those of states and auxiliaries have one more entry."""
    parts = {field.name: getattr(bounds, field.name) for field in dataclasses.fields(bounds)}
    cut = {name: part[: horizon + name.startswith(("state", "auxiliary"))] for name, part in parts.items()}
    return dataclasses.replace(bounds, **cut)
