"""Families of potentials: one set, one for each objective, or sets that separate the plan's LP relaxation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.span import Span
from reluplan.encoding.relu import StepColumns
from reluplan.encoding.unroll import unroll
from reluplan.optimisation.model import ModelBuilder
from reluplan.optimisation.piecewise_rows import LinearForm
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.potentials.algorithm1 import optimise
from reluplan.potentials.entry_columns import EntryColumns, encode_entries
from reluplan.potentials.features import PatternFeatures
from reluplan.potentials.generation import Generation, OnRound
from reluplan.potentials.potential_search import PotentialSearch
from reluplan.potentials.potentials import RewardPotentials
from reluplan.potentials.settings import DEFAULT_FAMILIES, Objective
from reluplan.potentials.strengthen import add_potential_row
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]


def generate_family(
    search: PotentialSearch,
    problem: Problem,
    bounds: HorizonBounds,
    deadline: float = math.inf,
    on_round: OnRound | None = None,
) -> list[Generation]:
    """The family that the search's settings ask for, as far as time allows; at least one member."""
    family: list[Generation] = []
    for goal in _goals(search, problem, bounds, family):
        family.append(optimise(search, goal, deadline, on_round))
        if family[-1].interrupted or not family[-1].converged:
            break
    return family


def _goals(
    search: PotentialSearch, problem: Problem, bounds: HorizonBounds, family: Sequence[Generation]
) -> Iterator[Array | Objective | None]:
    """Where each member is to be small, one after the other."""
    settings = search.settings
    if settings.family == "several":
        yield from settings.families.objectives
    elif settings.family == "lp" and search.features.unit_count:
        for _ in range(settings.families.separated_sets):
            members = [member.potentials for member in family]
            yield fractional_pattern(problem, bounds, search.features, members, settings.families.lp_horizon)
    else:
        yield None


def fractional_pattern(
    problem: Problem,
    bounds: HorizonBounds,
    features: PatternFeatures,
    potentials: Sequence[RewardPotentials],
    lp_horizon: int = DEFAULT_FAMILIES.lp_horizon,
) -> Array:
    """The mean pattern (K, N + 1) over the first steps of the plan's LP relaxation, strengthened by potentials."""
    short, short_bounds = first_steps(problem, bounds, min(lp_horizon, bounds.horizon))
    extension = _EntriesAndRows(features, potentials, [])
    model = unroll(short, short_bounds, extension=extension).model
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


def first_steps(problem: Problem, bounds: HorizonBounds, horizon: int) -> tuple[Problem, HorizonBounds]:
    """The first steps as a problem of their own, without a goal, and their proven boxes."""
    lower, upper = problem.initial_lower, problem.initial_upper
    short = problem.part(0, horizon, lower, upper, keeps_initial_rows=True, goal=(), final_reward=None)
    return short, bounds.hull(Span(0, horizon))
