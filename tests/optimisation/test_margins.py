"""The room that bounds leave for a solver's tolerances, and integers of wide range, which no solver is trusted with."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from patience import AMPLE
from random_models import feasible_model, optimum, random_model
from random_problems import random_network
from reluplan import Problem, plan
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.optimisation.margin import bound_margin
from reluplan.optimisation.model import Model
from reluplan.optimisation.scaling import SMALLEST_COST, scale_model
from reluplan.optimisation.solvers import SOLVER_NAMES, get_solver
from reluplan.optimisation.solvers.base import SolveOptions, SolveStatus
from reluplan.problem.check import check
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import WIDE, Variable
from reluplan.problem.rollout import Trajectory, rollout
from shared_data import bugs_folder

Array = NDArray[np.float64]
seeds = st.integers(0, 100_000)


def claimed_bound(model: Model, duals: Array, tolerance: float, rng: np.random.Generator) -> float:
    """y · (sides of rows) + r · (sides of columns), as a solver sums it up: where a multiplier or a reduced cost is
    within the tolerance its sign is not looked at, and the side it is charged with may be any."""
    reduced = model.objective - model.matrix.T @ duals

    def charged(price: Array, lower: Array, upper: Array) -> Array:
        right = np.where(price > 0.0, upper, lower)
        return price * np.where(np.abs(price) <= tolerance, rng.uniform(lower, upper), right)

    rows = charged(duals, model.row_lower, model.row_upper)
    return float(rows.sum() + charged(reduced, model.column_lower, model.column_upper).sum())


@given(seed=seeds, tolerance=st.sampled_from([1e-3, 1e-1, 1.0]))
def test_wrong_signs_cost_no_more_than_the_tolerance_times_the_ranges(seed: int, tolerance: float) -> None:
    """The argument behind the margin, for any multipliers, with a tolerance large enough to be seen."""
    rng = np.random.default_rng(seed)
    count, height = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    lower = rng.uniform(-3.0, 0.0, count)
    upper = lower + rng.uniform(0.0, 4.0, count)
    matrix = rng.normal(size=(height, count)) * (rng.random((height, count)) < 0.8)
    inside = matrix @ rng.uniform(lower, upper)
    activity = abs(matrix) @ (upper - lower)
    model = Model(
        rng.normal(size=count), 0.0, sparse.csr_array(matrix), inside - rng.uniform(0.0, 0.4, height) * activity,
        inside + rng.uniform(0.0, 0.4, height) * activity, lower, upper, np.zeros(count, dtype=bool),
    )  # fmt: skip
    best = optimum(model)
    assert best is not None
    duals = rng.normal(size=height) * rng.choice([0.0, tolerance, 1.0], height)
    ranges = replace(scale_model(model), model=model).total_range  # of the model in its own units
    assert claimed_bound(model, duals, tolerance, rng) + tolerance * ranges >= best - 1e-9


@given(seed=seeds, exponent=st.integers(-30, 30))
def test_the_margin_scales_with_the_objective(seed: int, exponent: int) -> None:
    """Rewards of 1e-9 or 1e9 get the same margin relative to their size: nothing absolute is hidden in it."""
    model = random_model(seed)
    if not model.objective.any():
        return
    factor = 2.0**exponent
    larger = replace(model, objective=factor * model.objective, offset=factor * model.offset)
    margins = [bound_margin(scale_model(m), bound, 1e-7) for m, bound in ((model, 3.0), (larger, 3.0 * factor))]
    cost = np.abs(model.objective).max() * 4.0
    if 2.0**-SMALLEST_COST < cost * factor < 2.0**SMALLEST_COST / 8.0:
        assert margins[1] == pytest.approx(factor * margins[0])
    assert all(margin > 0.0 for margin in margins)


@settings(deadline=None, max_examples=15)
@given(seed=seeds, factor=st.sampled_from([1e-7, 1.0, 1e7]))
@pytest.mark.parametrize("name", SOLVER_NAMES)
def test_objectives_of_any_size_are_solved_and_bounded(name: str, seed: int, factor: float) -> None:
    model = feasible_model(seed)
    best = optimum(model)  # of the model as it is: brute force has absolute tolerances too
    assert best is not None
    model, best = replace(model, objective=factor * model.objective, offset=factor * model.offset), factor * best
    result = get_solver(name).solve(model, SolveOptions(gap=0.0, time_limit=AMPLE))
    assert result.proven_bound >= best - 1e-9 * abs(best)
    assert result.status is SolveStatus.OPTIMAL
    assert result.dual_bound == pytest.approx(best, abs=2e-6 * max(factor, abs(best)))


def wide_problem(seed: int) -> Problem:
    """Two integer actions of up to 1e5 to 1e9 with coefficients of 1e-6 to 1e-12, and a network that reads them."""
    rng = np.random.default_rng(seed)
    size = 10.0 ** float(rng.choice([5, 6, 7, 9]))
    network = random_network(rng, 3, [4], 1)
    units = np.array([1.0, 1.0 / size, 1.0 / size])
    hidden, output = network.hidden[0], network.output
    network = ReluNetwork(
        3,
        (Layer(hidden.weights * units, hidden.bias),),
        Layer(output.weights * np.append(units, np.ones(4)), output.bias),
    )
    s, a, b, after = (PiecewiseLinear.variable(i, 4) for i in range(4))
    first, second, third = rng.uniform(0.05, 0.6, 3) / size * float(rng.choice([1.0, 0.1, 1e-3]))
    zero = PiecewiseLinear.constant_of(0.0, 4)
    too_much = PiecewiseLinear.maximum([zero, a + b - PiecewiseLinear.constant_of(0.8 * size, 4)])
    distance = PiecewiseLinear.maximum([after, -after])
    rows = (
        Constraint(a + b * 2.0 + s * (0.25 * size) - PiecewiseLinear.constant_of(1.3 * size, 4), False, "sum"),
        Constraint(b - PiecewiseLinear.constant_of(0.5 * size, 4) - s * (0.2 * size), False, "share"),
    )
    return Problem(
        "wide", int(rng.integers(1, 4)), (Variable("s", "continuous", -10.0, 10.0),),
        tuple(Variable(name, "integer", 0.0, size) for name in "ab"), (), np.array([0.2]), np.array([0.2]), network,
        a * first + b * second - too_much * third - distance * (first * size * 0.1), rows,
    )  # fmt: skip


def climb(problem: Problem, plan: Trajectory, rng: np.random.Generator) -> Trajectory:
    """A better plan by random changes of integers, as another witness against the bound."""
    best = plan
    for _ in range(300):
        step = rng.normal(size=best.actions.shape) * 10.0 ** rng.uniform(0.0, np.log10(problem.actions[0].upper))
        actions = np.clip(np.round(best.actions + step), 0.0, problem.actions[0].upper)
        trial = rollout(problem, best.states[0], actions)
        if trial.total_reward > best.total_reward and check(problem, trial).max_violation == 0.0:
            best = trial
    return best


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_integers_of_wide_range_have_no_bound_below_a_plan(seed: int) -> None:
    """Bounds of all four solvers hold for the plans of all of them, and for what local search makes of these."""
    problem = wide_problem(seed)
    results = [
        plan(problem, method="base", solver=name, gap=1e-6, time_limit=AMPLE, threads=1) for name in SOLVER_NAMES
    ]
    results.append(plan(problem, gap=1e-6, time_limit=3.0, threads=1))
    plans = [result.trajectory for result in results if result.trajectory is not None]
    assert plans
    rng = np.random.default_rng(seed)
    best = max(climb(problem, found, rng).total_reward for found in plans if check(problem, found).max_violation == 0.0)
    for result in results:
        assert result.bound is not None
        assert result.bound >= best
    assert [result.status for result in results[:-1]] == ["optimal"] * len(SOLVER_NAMES)


@pytest.mark.parametrize("name", ["bad0", "bad1", "bad3", "badh310", "badm106"])
def test_problems_with_wrong_bounds_are_bounded_by_every_solver(name: str) -> None:
    best = {"bad0": 0.06729120781, "bad1": 0.74967296, "bad3": 0.36074754, "badh310": 1.00749717, "badm106": 0.03078582}
    problem = Problem.load(bugs_folder("wide-integers") / name / "problem.toml")
    for solver in SOLVER_NAMES:
        result = plan(problem, method="base", solver=solver, gap=1e-6, time_limit=AMPLE, threads=1)
        assert result.bound is not None
        assert best[name] <= result.bound <= best[name] * (1.0 + 1e-4)


def test_wide_integers_are_continuous_for_the_solver_and_narrow_ones_are_not() -> None:
    model = Model(
        np.ones(2), 0.0, sparse.csr_array(np.ones((1, 2))), np.full(1, -np.inf), np.full(1, 1e5 + 0.5),
        np.zeros(2), np.array([WIDE, WIDE - 1.0]), np.ones(2, dtype=bool),
    )  # fmt: skip
    assert scale_model(model).model.integer.tolist() == [False, True]


@pytest.mark.parametrize("name", SOLVER_NAMES)
@pytest.mark.parametrize(("far", "width"), [(2.0**43, 0.25), (1.7e9, 1e-4), (375179945.0, 1.0)])
def test_boxes_far_from_zero_keep_both_their_ends(name: str, far: float, width: float) -> None:
    """max x1 + x2 − 2 far − (z1 + z2) width/10 with x_i <= far + width z_i, z_i binary: 1.8 widths, at both upper ends.

    To a solver both ends of such a box are the same, unless it is moved to zero and has its own width as its unit.
    """
    matrix = np.array([[1.0, 0.0, -width, 0.0], [0.0, 1.0, 0.0, -width]])
    model = Model(
        np.array([1.0, 1.0, -0.1 * width, -0.1 * width]), -2.0 * far, sparse.csr_array(matrix), np.full(2, -np.inf),
        np.full(2, far), np.array([far, far, 0.0, 0.0]), np.array([far + width, far + width, 1.0, 1.0]),
        np.array([False, False, True, True]),
    )  # fmt: skip
    best = np.array([far + width, far + width, 1.0, 1.0])
    result = get_solver(name).solve(model, SolveOptions(gap=0.0, time_limit=AMPLE))
    assert result.proven_bound >= model.value(best)
    assert result.solution is not None


def test_the_rounding_of_long_sums_is_part_of_the_margin() -> None:
    """Four hundred columns of 1e12 cancel to a few units: what adding them up may lose is more than 1e-6 of that."""
    rng = np.random.default_rng(0)
    lower = np.round(1e12 * rng.uniform(1.0, 2.0, 400)) + rng.random(400)
    signs = np.where(np.arange(400) % 2 == 0, 1.0, -1.0)
    exact = sum(Fraction(float(x)) * int(sign) for x, sign in zip(lower, signs, strict=True))
    highest = exact + int((signs > 0.0).sum())
    model = Model(
        signs, -float(exact), sparse.csr_array((0, 400)), np.zeros(0), np.zeros(0), lower, lower + 1.0,
        np.zeros(400, dtype=bool),
    )  # fmt: skip
    result = get_solver("highs").solve(model, SolveOptions())
    assert Fraction(result.proven_bound) >= highest - Fraction(float(exact))
