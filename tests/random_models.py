"""Small random MILPs, and their optima by brute force over the integers."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from reluplan.optimisation.model import Model

Array = NDArray[np.float64]


def random_model(seed: int) -> Model:
    """Integers in small boxes, bounded and free continuous columns, rows of every kind; feasible or not, but bounded.

    Free columns are tied to the others by two-sided rows, so that the objective stays bounded.
    """
    rng = np.random.default_rng(seed)
    integers, continuous, free = (int(rng.integers(0, most)) for most in (5, 3, 2))
    boxed = max(1, integers + continuous)
    lower = rng.integers(-3, 2, boxed).astype(float)
    upper = lower + rng.integers(0, 4, boxed).astype(float)
    matrix, sides = _rows(rng, lower, upper, int(rng.integers(1, 5)))
    if free:
        tie = np.concatenate([rng.integers(-3, 4, boxed), [rng.choice([-2.0, 1.0, 3.0])]])
        matrix = np.vstack([np.hstack([matrix, np.zeros((len(matrix), 1))]), tie])
        sides = np.vstack([sides, [-4.0, rng.integers(-4, 6)]])
        lower, upper = np.append(lower, -math.inf), np.append(upper, math.inf)
    return Model(
        objective=rng.integers(-5, 6, len(lower)).astype(float),
        offset=float(rng.choice([0.0, -7.25, 100.0])),
        matrix=sparse.csr_array(matrix),
        row_lower=sides[:, 0],
        row_upper=sides[:, 1],
        column_lower=lower,
        column_upper=upper,
        integer=np.arange(len(lower)) < integers,
    )


def feasible_model(seed: int) -> Model:
    """The first of the random models from this seed on that has a solution."""
    return next(model for model in map(random_model, itertools.count(seed)) if optimum(model) is not None)


def infeasible_model(seed: int) -> Model:
    """The first of the random models from this seed on that has none."""
    return next(model for model in map(random_model, itertools.count(seed)) if optimum(model) is None)


def hard_model(rows: int = 5, columns: int = 40) -> Model:
    """Market split with slacks: a solution at once, a bound at once (0), and years to close the gap. At most 0."""
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 100, (rows, columns)).astype(float)
    middle = np.floor(weights.sum(axis=1) / 2)
    return Model(
        objective=np.concatenate([np.zeros(columns), -np.ones(2 * rows)]),
        offset=0.0,
        matrix=sparse.csr_array(np.hstack([weights, np.eye(rows), -np.eye(rows)])),
        row_lower=middle,
        row_upper=middle,
        column_lower=np.zeros(columns + 2 * rows),
        column_upper=np.concatenate([np.ones(columns), np.full(2 * rows, math.inf)]),
        integer=np.arange(columns + 2 * rows) < columns,
    )


def falsely_infeasible_model() -> Model:
    """It has solutions, which HiGHS 1.15 with a mip_feasibility_tolerance of 1e-7 denies: part of a planning model."""
    rows = [
        [0.177684033, -0.0253206995, -1.0, 0.0, 0.0, 0.0, -0.521740688, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.244947354, -0.771751936, 0.0, 0.0, 0.0, -0.55, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.050331648, -0.617401549, 0.0, 0.0, 0.0, 1.05, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0942376223, 0.312056218, -0.177200955, -0.0572270838, 0.0, -0.2215375, 0.0, 1.0, 0.221537677],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    ]
    lower = [
        1.04308128,
        -0.715255737,
        0.975253742,
        -1.28326458,
        1.24731778,
        -1.01052593,
        1,
        0,
        -1.17281175,
        0.593041426,
    ]
    upper = [
        1.04308128,
        -0.715255737,
        0.97525403,
        -1.28326428,
        1.24731803,
        -1.01052573,
        1,
        1,
        -0.391375481,
        0.814579103,
    ]
    return Model(
        objective=np.array([-0.507, 0.0, -1.01, 0.0, 0.0, 0.0, 0.19, 0.19, 0.0, 10.4, 0.0]),
        offset=0.0,
        matrix=sparse.csr_array(np.array(rows)),
        row_lower=np.array([-1.29354489, -1.24731791, -0.225, 0.45, -math.inf, 1.0]),
        row_upper=np.array([-1.29354489, -1.24731791, math.inf, math.inf, 0.342837677, 1.0]),
        column_lower=np.array([*lower, 0.0]),
        column_upper=np.array([*upper, 1.0]),
        integer=np.isin(np.arange(11), [6, 7, 10]),
    )


def in_other_units(model: Model, factors: Array) -> Model:
    """The same model with its columns measured in units 1/factor: x' = factor * x."""
    return replace(
        model,
        objective=model.objective / factors,
        matrix=sparse.csr_array(model.matrix @ sparse.diags_array(1.0 / factors)),
        column_lower=model.column_lower * factors,
        column_upper=model.column_upper * factors,
    )


def wide_model(columns: int) -> Model:
    """As many variables as wanted, as easy as can be; the optimum is their number."""
    return Model(
        objective=np.ones(columns),
        offset=0.0,
        matrix=sparse.csr_array(np.ones((1, columns))),
        row_lower=np.array([-math.inf]),
        row_upper=np.array([2.0 * columns]),
        column_lower=np.zeros(columns),
        column_upper=np.ones(columns),
        integer=np.ones(columns, dtype=bool),
    )


def optimum(model: Model) -> float | None:
    """The largest objective over all integer assignments, None if no assignment is feasible."""
    whole = np.flatnonzero(model.integer)
    choices = [np.arange(model.column_lower[j], model.column_upper[j] + 1.0) for j in whole]
    values = [_optimum_with(model, whole, np.array(choice)) for choice in itertools.product(*choices)]
    return max((value for value in values if value is not None), default=None)


def _optimum_with(model: Model, whole: NDArray[np.int64], choice: Array) -> float | None:
    lower, upper = model.column_lower.copy(), model.column_upper.copy()
    lower[whole] = upper[whole] = choice
    matrix = model.matrix.toarray()
    below, above = np.isfinite(model.row_upper), np.isfinite(model.row_lower)
    outcome = linprog(
        -model.objective,
        A_ub=np.vstack([matrix[below], -matrix[above]]),
        b_ub=np.concatenate([model.row_upper[below], -model.row_lower[above]]),
        bounds=np.column_stack([lower, upper]),
    )
    return model.offset - float(outcome.fun) if outcome.status == 0 else None


def _rows(rng: np.random.Generator, lower: Array, upper: Array, count: int) -> tuple[Array, Array]:
    """Rows around a random point of the box, mostly satisfied by it."""
    matrix = rng.integers(-4, 5, (count, len(lower))) * (rng.random((count, len(lower))) < 0.8)
    activity = matrix @ rng.integers(lower.astype(int), upper.astype(int) + 1)
    kinds = rng.integers(0, 5, count)
    slack_below, slack_above = rng.integers(-1, 4, (2, count))
    low = np.select([kinds == 0, kinds == 3], [-math.inf, -math.inf], activity - slack_below * (kinds != 4))
    high = np.select([kinds == 1, kinds == 3], [math.inf, math.inf], activity + abs(slack_above) * (kinds != 4))
    return matrix.astype(float), np.column_stack([np.minimum(low, high), high])
