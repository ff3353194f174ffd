"""Walking from activation pattern to activation pattern, each at its best plan: ends in a true local optimum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reluplan.optimisation.linear_program import LinearProgram
from reluplan.search.iterate import Iterate, switching, where
from reluplan.search.local_model import LocalModel
from reluplan.search.time_slice import Paused

Index = NDArray[np.int64]
Pattern = NDArray[np.bool_]

NEAR = 1e-6
"""A unit with |In| below this sits on its boundary: what LPs with tolerances leave of In = 0."""


class Blocking(NamedTuple):
    """Units on their boundary that keep a pattern's plan from being better, largest multiplier first."""

    steps: Index
    units: Index


def walk_patterns(iterate: Iterate) -> Paused[None]:
    """Take the best plan of the activation pattern; then of a pattern with units on their boundary switched; repeat.

    Where a plan sits on a unit's boundary In = 0, both sides have the same states but other slopes. The multiplier of
    the row that keeps the unit on its side says whether that row is in the way; the pattern beyond may be better.
    """
    for _ in range(iterate.context.settings.pattern_walk.moves):
        if not (yield from _leave(iterate)):
            return


def _leave(iterate: Iterate) -> Paused[bool]:
    """Improve within the pattern or, if that is exhausted, in a neighbouring one; False if no neighbour helps."""
    settings = iterate.context.settings.pattern_walk
    active = iterate.local(settings.radius).linearisation.active
    blocking = yield from _best_of(iterate, active)
    if blocking is None:
        return True
    for flip in _flips(blocking, settings.flips):
        if (yield from _best_of(iterate, _flipped(active, flip))) is None:
            return True
    return False


def _flips(blocking: Blocking, most: int) -> list[Blocking]:
    """Each unit alone, largest multiplier first; then all together."""
    single = [Blocking(blocking.steps[i : i + 1], blocking.units[i : i + 1]) for i in range(len(blocking.steps))]
    return single[:most] + ([blocking] if len(single) > 1 else [])


def _flipped(active: Pattern, flip: Blocking) -> Pattern:
    other = active.copy()
    other[flip.steps, flip.units] ^= True
    return other


def _best_of(iterate: Iterate, active: Pattern) -> Paused[Blocking | None]:
    """Move to the best plan of a pattern, None if that gained; otherwise the units that are in the way.

    Only units that are near their boundary, or switched at an optimum before, have a row in the linear program.
    """
    settings = iterate.context.settings.pattern_walk
    local = iterate.local(settings.radius, active)
    program = LinearProgram(local.model)
    first_row = program.row_count
    kept = [where(np.abs(local.linearisation.units) <= NEAR)]
    _keep(program, local, *kept[0])
    for _ in range(settings.row_rounds):
        x = yield from iterate.solve(program)
        if x is None or not iterate.is_gain(program.objective - iterate.value):
            break
        if iterate.move(local, x) is not None:
            return None
        kept.append(switching(local, x))
        if not len(kept[-1][0]):
            break
        _keep(program, local, *kept[-1])
    return _blocking(program, local, kept, first_row)


def _keep(program: LinearProgram, local: LocalModel, steps: Index, units: Index) -> None:
    if len(steps):
        program.add_rows(*local.unit_rows(steps, units))


def _blocking(program: LinearProgram, local: LocalModel, kept: list[tuple[Index, Index]], first_row: int) -> Blocking:
    """The units on their boundary whose rows have a multiplier."""
    steps = np.concatenate([steps for steps, _ in kept])
    units = np.concatenate([units for _, units in kept])
    multipliers = np.abs(program.row_duals[first_row:])[: len(steps)]
    if len(multipliers) < len(steps):
        return Blocking(steps[:0], units[:0])
    near = np.abs(local.linearisation.units[steps, units]) <= NEAR
    order = np.argsort(-multipliers, kind="stable")
    order = order[(multipliers > 1e-9)[order] & near[order]]
    return Blocking(steps[order], units[order])
