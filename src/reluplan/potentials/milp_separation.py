"""Separation by MILP: the subproblem says which pattern violates potentials most, and proves that none does by more."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.errors import NoPlanExistsError
from reluplan.potentials.heuristic_separation import HeuristicSeparation
from reluplan.potentials.pattern_store import PatternStore
from reluplan.potentials.subproblem import SHORTEST_SOLVE, Violations
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]


def solve_subproblem(
    store: PatternStore,
    whole: Problem,
    values: Array,
    tolerance: float,
    early_stop_ratio: float,
    threads: int,
    deadline: float,
) -> Violations:
    """max R − φ, begun from the worst step that is known; NoPlanExistsError if there is no step at all."""
    remaining = max(SHORTEST_SOLVE, deadline - clock.now())
    worst = _worst_point(store, values)
    found = store.subproblem.violated(values, remaining, tolerance, early_stop_ratio, threads, worst)
    if found.dual_bound == -math.inf:  # of the whole domain, which contains such a step of every plan
        raise NoPlanExistsError(f"{whole.source}: no plan exists: no step satisfies the constraints", whole)
    return found


def solve_patterns(found: Violations, values: Array, store: PatternStore, deadline: float) -> float:
    """R* of the patterns that the MILP found; returns the largest violation of all that are known."""
    for entries in found.entries:
        store.solve(entries, deadline)
    return largest_violation(store, values)


def solve_patterns_around(found: Violations, values: Array, heuristics: HeuristicSeparation) -> float:
    """R* of the patterns that the MILP found, and of those beside them; returns the largest violation known."""
    for entries in found.entries:
        heuristics.walk(values, entries)
        heuristics.surround(entries)
    return largest_violation(heuristics.store, values)


def largest_violation(store: PatternStore, values: Array) -> float:
    """max R* − φ over the known patterns, at least zero."""
    return float(store.violations(values).max(initial=0.0))


def _worst_point(store: PatternStore, values: Array) -> Array | None:
    violations = store.violations(values)
    return store.points[int(violations.argmax())] if len(violations) else None
