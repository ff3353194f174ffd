"""An independent optimum of tiny problems: every activation pattern, every piece, every discrete value, an LP each.

Nothing here uses the planner's own encodings or programs. Decisions z = (s_1, a_1..a_H, x_1..x_{H+1}); once all choices
are made, everything is affine in z.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import highspy
import numpy as np
from numpy.typing import NDArray

from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]
Affine = Array
"""Rows over (z, 1): shape (..., len(z) + 1)."""


@dataclass(frozen=True)
class Region:
    """Rows r with r · (z, 1) >= 0, and the box of z. point: one z of it; None if none is known."""

    rows: tuple[Array, ...]
    lower: Array
    upper: Array
    point: Array | None = None

    def cut(self, *rows: Array) -> Region:
        """With more rows. Where its point keeps them, no LP is needed to know that there is one."""
        is_kept = self.point is not None and all(row[:-1] @ self.point + row[-1] >= 0.0 for row in rows)
        return replace(self, rows=self.rows + rows, point=self.point if is_kept else None)

    def maximum(self, objective: Array) -> float | None:
        """max objective · (z, 1) over the region, None if it is empty."""
        found = _maximiser(self, objective[:-1])
        return None if found is None else float(objective[:-1] @ found + objective[-1])

    @property
    def empty(self) -> bool:
        if self.point is None:
            object.__setattr__(self, "point", _maximiser(self, np.zeros(len(self.lower))))
        return self.point is None


@cache
def _solver() -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.silent()
    solver.setOptionValue("threads", 1)
    return solver


def _maximiser(region: Region, objective: Array) -> Array | None:
    """The z of a box where an objective is largest, among those that keep the rows; None if there is none."""
    solver, columns, count = _solver(), len(objective), len(region.rows)
    rows = np.array(region.rows).reshape(count, columns + 1)
    starts, entries = np.arange(count + 1, dtype=np.int32) * columns, np.tile(np.arange(columns, dtype=np.int32), count)
    sides, infinite = -np.ascontiguousarray(rows[:, -1]), np.full(count, np.inf)
    solver.passModel(
        columns, count, len(entries), int(highspy.MatrixFormat.kRowwise), int(highspy.ObjSense.kMaximize), 0.0,
        objective, region.lower, region.upper, sides, infinite,
        starts, entries, rows[:, :-1].ravel(), np.zeros(columns, dtype=np.int32),
    )  # fmt: skip
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    assert status == highspy.HighsModelStatus.kOptimal, solver.modelStatusToString(status)
    return np.array(solver.getSolution().col_value)


def optimum(problem: Problem) -> float | None:
    """The optimal total reward, None if no plan exists."""
    best: float | None = None
    for region in _discrete_actions(problem, _box(problem)):
        states = np.eye(len(region.lower) + 1)[: len(problem.states)]
        for start in _require(problem.initial_constraints, _state_vector(problem, states, 0), region):
            for leaf, total in _explore(problem, start, states, 0, np.zeros(len(region.lower) + 1)):
                value = leaf.maximum(total)
                if value is not None and (best is None or value > best):
                    best = value
    return best


def _box(problem: Problem) -> Region:
    lower, upper = problem.box(problem.actions)
    aux_lower, aux_upper = problem.box(problem.auxiliaries)
    repeat = problem.horizon
    low, high = (np.tile(side, (repeat + 1, 1)) for side in (aux_lower, aux_upper))
    for t, i in itertools.product(range(repeat + 1), range(len(problem.series))):
        at, series = len(problem.auxiliaries) - len(problem.series) + i, problem.series[i]
        row = problem.first_step + t
        row = row % len(series.values) if series.repeats else min(row, len(series.values) - 1)
        low[t, at] = high[t, at] = series.values[row]
    return Region(
        (),
        np.concatenate([problem.initial_lower, np.tile(lower, repeat), low.ravel()]),
        np.concatenate([problem.initial_upper, np.tile(upper, repeat), high.ravel()]),
    )


def _discrete_actions(problem: Problem, region: Region) -> Iterator[Region]:
    """Fix every discrete entry of z to each of its values."""
    flags = [v.is_discrete for v in problem.states]
    flags += [v.is_discrete for v in problem.actions] * problem.horizon
    flags += [v.is_discrete for v in problem.auxiliaries] * (problem.horizon + 1)
    where = np.flatnonzero(flags)
    ranges = [np.arange(np.ceil(region.lower[i]), np.floor(region.upper[i]) + 1) for i in where]
    for values in itertools.product(*ranges):
        lower, upper = region.lower.copy(), region.upper.copy()
        lower[where] = upper[where] = values
        yield replace(region, lower=lower, upper=upper)


def _explore(problem: Problem, region: Region, states: Affine, t: int, total: Array) -> Iterator[tuple[Region, Array]]:
    """All ways to go on from step t: (final region, total reward as an affine row)."""
    lower, upper = problem.box(problem.states)
    region = region.cut(*(_ge(row, low) for row, low in zip(states, lower, strict=True) if np.isfinite(low)))
    region = region.cut(*(-_ge(row, high) for row, high in zip(states, upper, strict=True) if np.isfinite(high)))
    if region.empty:
        return
    if t == problem.horizon:
        vector = _state_vector(problem, states, t)
        for leaf in _require(problem.goal, vector, region):
            if problem.final_reward is None:
                yield leaf, total
                continue
            for part, final in _pieces(problem.final_reward, vector, leaf):
                yield part, total + problem.discount**t * final
        return
    inputs = np.vstack([states, _actions(problem, t), _auxiliaries(problem, t)])
    for after, predictions in _network(problem, inputs, region):
        for linked, following in _round(problem, predictions, after):
            w = np.vstack([inputs, following, _auxiliaries(problem, t + 1)])
            for kept in _require(problem.constraints, w, linked):
                for part, reward in _pieces(problem.reward, w, kept):
                    yield from _explore(problem, part, following, t + 1, total + problem.discount**t * reward)


def _network(problem: Problem, inputs: Affine, region: Region) -> Iterator[tuple[Region, Affine]]:
    """Every feasible activation pattern, unit by unit."""

    def layers(index: int, before: Affine, part: Region) -> Iterator[tuple[Region, Affine]]:
        if index == len(problem.dynamics.hidden):
            output = problem.dynamics.output
            yield part, _shift(output.weights @ before, output.bias)
            return
        layer = problem.dynamics.hidden[index]
        pre = _shift(layer.weights @ before, layer.bias)
        for pattern in itertools.product((False, True), repeat=layer.unit_count):
            inner = part.cut(*(row if on else -row for row, on in zip(pre, pattern, strict=True)))
            if not inner.empty:
                yield from layers(index + 1, np.vstack([before, np.where(np.array(pattern)[:, None], pre, 0.0)]), inner)

    yield from layers(0, inputs, region)


def _round(problem: Problem, predictions: Affine, region: Region) -> Iterator[tuple[Region, Affine]]:
    """Every value of the discrete next states (ties belong to both neighbours)."""
    options: list[list[tuple[tuple[Array, ...], Array]]] = []
    for variable, row in zip(problem.states, predictions, strict=True):
        if not variable.is_discrete:
            options.append([((), row)])
            continue
        constant = np.zeros_like(row)
        choices: list[tuple[tuple[Array, ...], Array]] = []
        for value in np.arange(variable.lower, variable.upper + 1):
            fixed = constant.copy()
            fixed[-1] = value
            low, high = _ge(row, value - 0.5), -_ge(row, value + 0.5)
            if variable.kind == "boolean":
                choices.append(((low,) if value == 1.0 else (high,), fixed))
            else:
                choices.append(((low, high), fixed))
        options.append(choices)
    for combination in itertools.product(*options):
        inner = region.cut(*(row for rows, _ in combination for row in rows))
        if not inner.empty:
            yield inner, np.array([row for _, row in combination])


def _require(constraints: tuple[Constraint, ...], w: Affine, region: Region) -> Iterator[Region]:
    if not constraints:
        yield region
        return
    first, *rest = constraints
    for part, value in _pieces(first.function, w, region):
        inner = part.cut(-value, value) if first.equality else part.cut(-value)
        if not inner.empty:
            yield from _require(tuple(rest), w, inner)


def _pieces(function: PiecewiseLinear, w: Affine, region: Region) -> Iterator[tuple[Region, Array]]:
    """Every way to choose an attaining argument in every maximum: (region, value)."""
    affine = function.coefficients @ w
    affine[-1] += function.constant
    yield from _add_terms(function, 0, w, region, affine)


def _add_terms(
    function: PiecewiseLinear, index: int, w: Affine, region: Region, value: Array
) -> Iterator[tuple[Region, Array]]:
    if index == len(function.terms):
        yield from _add_products(function, 0, w, region, value)
        return
    term = function.terms[index]

    def arguments(position: int, part: Region, values: tuple[Array, ...]) -> Iterator[tuple[Region, tuple[Array, ...]]]:
        if position == len(term.arguments):
            yield part, values
            return
        for inner, row in _pieces(term.arguments[position], w, part):
            yield from arguments(position + 1, inner, (*values, row))

    for part, values in arguments(0, region, ()):
        for chosen in values:
            inner = part.cut(*(chosen - other for other in values if other is not chosen))
            yield from _add_terms(function, index + 1, w, inner, value + term.weight * chosen)


def _add_products(
    function: PiecewiseLinear, index: int, w: Affine, region: Region, value: Array
) -> Iterator[tuple[Region, Array]]:
    """Factors read series, which the box fixes."""
    if index == len(function.products):
        if not region.empty:
            yield region, value
        return
    product = function.products[index]
    known = float(product.factor.function.evaluate(w @ np.append(region.lower, 1.0)))
    weight = product.weight * (1.0 / known if product.factor.divides else known)
    for part, row in _pieces(product.function, w, region):
        yield from _add_products(function, index + 1, w, part, value + weight * row)


def _actions(problem: Problem, t: int) -> Affine:
    start = len(problem.states) + t * len(problem.actions)
    return _unit_rows(problem, start, len(problem.actions))


def _auxiliaries(problem: Problem, t: int) -> Affine:
    count = len(problem.auxiliaries)
    return _unit_rows(problem, len(problem.states) + problem.horizon * len(problem.actions) + t * count, count)


def _unit_rows(problem: Problem, start: int, count: int) -> Affine:
    size = len(_box(problem).lower) + 1
    return np.eye(size)[start : start + count]


def _state_vector(problem: Problem, states: Affine, t: int) -> Affine:
    w = np.zeros((problem.layout.width, states.shape[1]))
    w[problem.layout.states] = states
    w[problem.layout.auxiliaries] = _auxiliaries(problem, t)
    return w


def _shift(rows: Affine, bias: Array) -> Affine:
    shifted = rows.copy()
    shifted[:, -1] += bias
    return shifted


def _ge(row: Array, value: float) -> Array:
    """row − value."""
    shifted = row.copy()
    shifted[-1] -= value
    return shifted
