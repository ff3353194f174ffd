"""First parameters: CROWN's slopes, no multipliers, and boxes every so many steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.unrolled.blocks import smallest_area
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem
from reluplan.proofs.crown.descent import Descent
from reluplan.proofs.crown.parameters import Parameters
from reluplan.proofs.crown.relaxation import PlanRelaxation, Valuation
from reluplan.proofs.crown.settings import CrownSettings

Array = NDArray[np.float64]


def best_start(relaxation: PlanRelaxation, settings: CrownSettings, deadline: float) -> tuple[int, Valuation]:
    """The best of windows of 0, 1, 2, 4, ... steps, and of the whole plan, that can be tried by the deadline, with its
    length; the functions' slopes are those that are best over the boxes of single steps."""
    first = _warmed_up(relaxation, settings, deadline)
    best = 0, first
    for length in _lengths(relaxation.problem.horizon):
        if clock.now() > deadline:
            break
        shares = box_shares(relaxation.problem, length)
        found = relaxation.value(replace(first.parameters, box_shares=shares))
        if found.value < best[1].value:
            best = length, found
    return best


def _lengths(horizon: int) -> Iterator[int]:
    length = 1
    while length < horizon:
        yield length
        length *= 2
    yield horizon


def _warmed_up(relaxation: PlanRelaxation, settings: CrownSettings, deadline: float) -> Valuation:
    """Slopes of the functions for coefficients that end at the boxes, from two starts: CROWN's, which suit penalties
    max(0, x), and 1/2, which suits |x| = x + max(0, −2x), at least 0 then."""
    found = []
    for slope in (None, 0.5):
        descent = Descent(
            relaxation.problem,
            relaxation.value(first_parameters(relaxation, box_shares(relaxation.problem, 0), slope)),
            unit_scales(),
            replace(settings, cycle=settings.warm_up, rate=3.0 * settings.rate),
            "step",
        )
        for _ in range(settings.warm_up):
            if clock.now() > deadline:
                break
            descent.advance(relaxation, 0.0, steps=False)
        found.append(descent.best)
    return min(found, key=lambda valuation: valuation.value)


def box_shares(problem: Problem, length: int) -> Array:
    """β = 1 every `length` steps, counted from the end, and 0 elsewhere; with length 0 everywhere."""
    horizon = problem.horizon
    shares = np.zeros((horizon, len(problem.states)))
    after = np.arange(1, horizon + 1)
    shares[(after < horizon) & ((horizon - after) % length == 0) if length else after > 0] = 1.0
    return shares


def first_parameters(relaxation: PlanRelaxation, shares: Array, slope: float | None = None) -> Parameters:
    """CROWN's slopes, no multipliers, and some β. slope: another one for the functions' units."""
    problem, boxes = relaxation.problem, relaxation.boxes
    slopes = {
        f"{name}_slopes": smallest_area(part.unit_lower, part.unit_upper)
        for name, part in (("unit", boxes.bounds), ("step", boxes.step), ("final", boxes.final), ("first", boxes.first))
    }
    if slope is not None:
        slopes |= {name: np.full_like(slopes[name], slope) for name in slopes if name != "unit_slopes"}
    return Parameters(
        **slopes,
        box_shares=shares,
        state_pushes=np.zeros_like(shares),
        row_multipliers=np.zeros((problem.horizon, len(problem.constraints))),
        goal_multipliers=np.zeros((1, len(problem.goal))),
        first_multipliers=np.zeros((1, len(problem.initial_constraints))),
    )


def unit_scales() -> Parameters:
    """One for everything."""
    return Parameters(**{field.name: np.ones(1) for field in fields(Parameters)})


def scales(problem: Problem, found: Valuation) -> Parameters:
    """The range of every parameter: 1 for slopes and shares; of a push the size of its state's coefficients; of a
    row's multiplier how steep the rewards are in relation to the row."""
    steepness = _steepness(problem.reward)
    if problem.final_reward is not None:
        steepness = max(steepness, _steepness(problem.final_reward))
    one = dict(unit_scales().arrays())
    size = np.abs(found.states[1:]).mean(axis=0)
    one["state_pushes"] = np.where(size > 0.0, size, steepness)
    rows = (
        ("row_multipliers", problem.constraints),
        ("goal_multipliers", problem.goal),
        ("first_multipliers", problem.initial_constraints),
    )
    for name, part in rows:
        one[name] = np.array([steepness / max(_steepness(row.function), 1e-12) for row in part], dtype=np.float64)
    return Parameters(**one)


def _steepness(function: PiecewiseLinear) -> float:
    """The largest coefficient of a variable, through all maxima, about."""
    inner = [abs(term.weight) * _steepness(argument) for term in function.terms for argument in term.arguments]
    return max([float(np.abs(function.coefficients).max(initial=0.0)), *inner])
