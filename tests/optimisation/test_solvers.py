"""Every adapter against brute force, against the others, and at the edges: limits, stops, starts, licences."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from patience import AMPLE
from random_models import (
    falsely_infeasible_model,
    feasible_model,
    hard_model,
    infeasible_model,
    optimum,
    random_model,
    wide_model,
)
from reluplan.errors import InputError, MissingExtraError, SolverError
from reluplan.optimisation.model import Model
from reluplan.optimisation.solvers import SOLVER_NAMES, get_solver
from reluplan.optimisation.solvers.adapter import Adapter, Ending, Verdict, conclude, status_of
from reluplan.optimisation.solvers.base import Progress, SolveOptions, Solver, SolveResult, SolveStatus, StopReason
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.optimisation.solvers.monitor import Monitor

TOLERANCE = 1e-6


@pytest.fixture(params=SOLVER_NAMES)
def solver(request: pytest.FixtureRequest) -> Solver:
    return get_solver(request.param)


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_brute_force(seed: int) -> None:
    model = random_model(seed)
    best = optimum(model)
    for name in SOLVER_NAMES:
        result = get_solver(name).solve(model, SolveOptions(gap=0.0, seed=seed))
        if best is None:
            assert result.status is SolveStatus.INFEASIBLE
            assert result.solution is None
            assert result.objective is None
            continue
        assert result.status is SolveStatus.OPTIMAL
        assert result.solution is not None
        assert result.objective == pytest.approx(best, abs=TOLERANCE)
        assert result.dual_bound == pytest.approx(best, abs=TOLERANCE)
        assert model.value(result.solution) == result.objective
        assert model.violation(result.solution) <= TOLERANCE


def test_early_stop_by_gap_keeps_a_sound_bound(solver: Solver) -> None:
    for seed in range(5):
        model = _knapsack(seed)
        best = get_solver("highs").solve(model, SolveOptions(gap=0.0)).dual_bound
        for gap in (0.01, 0.1, 0.5):
            result = solver.solve(model, SolveOptions(gap=gap, seed=seed))
            assert result.status is SolveStatus.OPTIMAL
            assert result.objective is not None
            assert result.dual_bound - result.objective <= gap * max(1.0, abs(result.objective))
            assert result.objective - TOLERANCE <= best <= result.dual_bound + TOLERANCE


def test_linear_program_with_offset(solver: Solver) -> None:
    """max x + 2y + 10, x + y <= 3, -1 <= x - y <= 1: the optimum is at (1, 2)."""
    model = _model([1, 2], [[1, 1], [1, -1]], [-math.inf, -1], [3, 1], [0, -math.inf], [math.inf] * 2, offset=10.0)
    result = solver.solve(model, SolveOptions())
    assert result.status is SolveStatus.OPTIMAL
    assert result.solution == pytest.approx([1.0, 2.0])
    assert result.objective == pytest.approx(15.0)
    assert result.dual_bound == pytest.approx(15.0)


@pytest.mark.parametrize("integer", [False, True])
def test_infeasible(solver: Solver, integer: bool) -> None:
    model = _model([1, 1], [[1, 1]], [5], [math.inf], [0, 0], [2, 2], integer=integer)
    result = solver.solve(model, SolveOptions())
    assert result.status is SolveStatus.INFEASIBLE
    assert result.dual_bound == math.inf


@pytest.mark.parametrize("integer", [False, True])
def test_unbounded(solver: Solver, integer: bool) -> None:
    model = _model([1, 1], [[1, -1]], [-math.inf], [3], [0, 0], [math.inf] * 2, integer=integer)
    result = solver.solve(model, SolveOptions())
    assert result.status is SolveStatus.UNBOUNDED
    assert result.dual_bound == math.inf
    assert result.message == "unbounded"


@pytest.mark.parametrize("integer", [False, True])
def test_improving_ray_of_an_infeasible_model_is_infeasible(solver: Solver, integer: bool) -> None:
    """z has a ray, but x and y contradict each other; with integers only the parity does."""
    rows, sides = ([[2.0, -2.0, 0.0]], [1.0]) if integer else ([[1.0, 1.0, 0.0]], [5.0])
    model = _model([0, 0, 1], rows, sides, sides, [0, 0, 0], [2, 2, math.inf], integer=integer)
    assert solver.solve(model, SolveOptions()).status is SolveStatus.INFEASIBLE


def test_unbounded_or_infeasible_without_time_to_tell(solver: Solver) -> None:
    result = _concluded(solver, infeasible_model(0), Verdict.UNBOUNDED, SolveOptions(time_limit=0.0))
    assert result.status is SolveStatus.UNBOUNDED
    assert result.message == "unbounded or infeasible, not told apart"
    assert _concluded(solver, infeasible_model(0), Verdict.UNBOUNDED).status is SolveStatus.INFEASIBLE


def test_claim_of_infeasibility_must_be_confirmed(solver: Solver) -> None:
    """The claims are ours, the second opinion is the solver's."""
    for model in (feasible_model(0), feasible_model(3), falsely_infeasible_model()):
        result = _concluded(solver, model, Verdict.INFEASIBLE)
        assert result.status is SolveStatus.NO_SOLUTION
        assert result.message == "claimed infeasible, not confirmed"
        assert result.dual_bound == math.inf
        assert result.solution is None
    assert _concluded(solver, infeasible_model(0), Verdict.INFEASIBLE).status is SolveStatus.INFEASIBLE


def test_claim_of_infeasibility_without_time_to_confirm_it(solver: Solver) -> None:
    result = _concluded(solver, infeasible_model(0), Verdict.INFEASIBLE, SolveOptions(time_limit=0.0))
    assert (result.status, result.message) == (SolveStatus.NO_SOLUTION, "claimed infeasible, not confirmed")


def test_stop_during_the_confirmation_is_a_stop(solver: Solver) -> None:
    model = replace(hard_model(), column_upper=np.ones(50), integer=np.ones(50, dtype=bool))  # years, once more
    options = SolveOptions(time_limit=AMPLE, should_stop=lambda: True)
    result = _concluded(solver, model, Verdict.INFEASIBLE, options)
    assert (result.status, result.message) == (SolveStatus.NO_SOLUTION, "stopped by the caller")


def test_false_claim_of_a_real_solver() -> None:
    model, options, highs = falsely_infeasible_model(), SolveOptions(), HighsSolver()
    monitor = Monitor(model, options)
    ending = highs.run(model, options, monitor, tight=True)  # unscaled; "Infeasible" in HiGHS 1.15.1
    result = conclude(highs, model, options, monitor, ending)
    assert result.status in (SolveStatus.NO_SOLUTION, SolveStatus.OPTIMAL)
    for name in SOLVER_NAMES:
        solved = get_solver(name).solve(model, options)
        assert solved.solution is not None
        assert model.violation(solved.solution) <= 2e-7


def test_infeasible_by_less_than_the_slack_is_not_proven(solver: Solver) -> None:
    model = _model([1, 1], [[1, 1]], [2 + 1e-6], [math.inf], [0, 0], [1, 1])
    assert solver.solve(model, SolveOptions()).status is not SolveStatus.INFEASIBLE
    model = _model([1, 1], [[1, 1]], [2 + 1e-5], [math.inf], [0, 0], [1, 1])
    assert solver.solve(model, SolveOptions()).status is SolveStatus.INFEASIBLE


def test_crossed_bounds_are_infeasible(solver: Solver) -> None:
    model = _model([1, 1], [[1, 1]], [-math.inf], [5], [0, 3], [2, 2], integer=True)
    assert solver.solve(model, SolveOptions()).status is SolveStatus.INFEASIBLE


def test_free_and_empty_rows_and_no_rows(solver: Solver) -> None:
    free = _model([1, 1], [[1, 1], [0, 0]], [-math.inf, -1], [math.inf, 1], [0, 0], [2, 2.5], integer=True)
    assert solver.solve(free, SolveOptions()).objective == pytest.approx(4.0)
    broken = _model([1, 1], [[1, 1], [0, 0]], [-math.inf, 1], [math.inf, 2], [0, 0], [2, 2.5], integer=True)
    assert solver.solve(broken, SolveOptions()).status is SolveStatus.INFEASIBLE
    bare = replace(free, matrix=sparse.csr_array((0, 2)), row_lower=np.zeros(0), row_upper=np.zeros(0))
    assert solver.solve(bare, SolveOptions()).dual_bound == pytest.approx(4.0)


def test_no_columns(solver: Solver) -> None:
    model = _model([], [[]], [0], [1], [], [], offset=3.0)
    result = solver.solve(model, SolveOptions())
    assert (result.status, result.objective, result.dual_bound) == (SolveStatus.OPTIMAL, 3.0, 3.0)
    assert solver.solve(replace(model, row_lower=np.ones(1)), SolveOptions()).status is SolveStatus.INFEASIBLE


def test_start_is_taken(solver: Solver) -> None:
    """A good solution, given to a solve that ends with the first incumbent it reports."""
    model = hard_model()
    seen: list[Progress] = []
    first = SolveOptions(on_progress=seen.append, should_stop=lambda: _has_incumbent(seen))
    good = get_solver("highs").solve(model, first)
    assert good.solution is not None
    assert good.objective is not None
    seen.clear()
    options = SolveOptions(
        time_limit=AMPLE, warm_start=good.solution, on_progress=seen.append, should_stop=lambda: _has_incumbent(seen)
    )
    result = solver.solve(model, options)
    assert result.objective is not None
    assert result.objective >= good.objective - TOLERANCE
    assert seen[-1].incumbent is not None
    assert seen[-1].incumbent >= good.objective - TOLERANCE


def test_infeasible_start_is_ignored(solver: Solver) -> None:
    model = feasible_model(0)
    best = optimum(model)
    result = solver.solve(model, SolveOptions(gap=0.0, warm_start=np.full(model.column_count, 77.0)))
    assert result.objective == pytest.approx(best, abs=TOLERANCE)


@pytest.mark.parametrize("limit", [0.0, 0.5])
def test_time_limit_gives_an_honest_status(solver: Solver, limit: float) -> None:
    model = hard_model()
    result = solver.solve(model, SolveOptions(time_limit=limit))
    assert result.status in (SolveStatus.FEASIBLE, SolveStatus.NO_SOLUTION)
    assert (result.solution is None) == (result.status is SolveStatus.NO_SOLUTION)
    assert result.dual_bound >= 0.0 - TOLERANCE
    assert (result.stop_reason, result.message) == (StopReason.TIME_LIMIT, "time limit")


def test_should_stop(solver: Solver) -> None:
    seen: list[Progress] = []
    options = SolveOptions(time_limit=AMPLE, on_progress=seen.append, should_stop=lambda: _has_incumbent(seen))
    result = solver.solve(hard_model(), options)
    assert result.status is SolveStatus.FEASIBLE
    assert (result.stop_reason, result.message) == (StopReason.STOPPED, "stopped by the caller")
    assert result.dual_bound >= 0.0 - TOLERANCE


def test_progress_is_monotone_and_valid(solver: Solver) -> None:
    model = hard_model()
    seen: list[Progress] = []
    options = SolveOptions(time_limit=AMPLE, on_progress=seen.append, should_stop=lambda: _has_nodes(seen))
    result = solver.solve(model, options)
    assert _has_nodes(seen)
    incumbents = [p.incumbent for p in seen if p.incumbent is not None]
    bounds = [p.bound for p in seen if p.bound is not None]
    assert incumbents == sorted(incumbents)
    assert bounds == sorted(bounds, reverse=True)
    assert min(bounds) >= 0.0 - TOLERANCE
    solutions = [p for p in seen if p.solution is not None]
    for progress in solutions:
        assert progress.solution is not None
        assert model.value(progress.solution) == progress.incumbent
        assert model.violation(progress.solution) <= TOLERANCE
    assert result.objective is not None
    assert result.objective >= incumbents[-1] - TOLERANCE


def test_errors_in_hooks_are_raised(solver: Solver) -> None:
    def fail_to_report(_progress: Progress) -> None:
        raise ZeroDivisionError("report")

    def fail_to_decide() -> bool:
        raise ZeroDivisionError("decide")

    with pytest.raises(ZeroDivisionError, match="report"):
        solver.solve(hard_model(), SolveOptions(time_limit=AMPLE, on_progress=fail_to_report))
    with pytest.raises(ZeroDivisionError, match="decide"):
        solver.solve(hard_model(), SolveOptions(time_limit=AMPLE, should_stop=fail_to_decide))


@pytest.mark.skipif(sys.platform == "win32", reason="no signals to oneself")
def test_ctrl_c_ends_the_solve(solver: Solver) -> None:
    pressed: list[threading.Timer] = []

    def press_soon(progress: Progress) -> None:
        if progress.incumbent is not None and not pressed:
            pressed.append(threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)))
            pressed[0].start()

    result = solver.solve(hard_model(), SolveOptions(time_limit=AMPLE, on_progress=press_soon))
    pressed[0].join()
    assert (result.stop_reason, result.message) == (StopReason.INTERRUPTED, "interrupted")
    assert result.status is SolveStatus.FEASIBLE
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("objective", "bound", "gap", "status"),
    [
        (None, 5.0, 0.1, SolveStatus.NO_SOLUTION),
        (5.0, math.inf, 0.1, SolveStatus.FEASIBLE),
        (100.0, 109.9, 0.1, SolveStatus.OPTIMAL),
        (100.0, 110.1, 0.1, SolveStatus.FEASIBLE),
        (0.01, 0.1, 0.1, SolveStatus.OPTIMAL),
        (100.0, 100.0 - 1e-6, 0.0, SolveStatus.OPTIMAL),
        (100.0, 99.0, 0.1, SolveStatus.FEASIBLE),
    ],
)
def test_status_is_what_the_numbers_justify(
    objective: float | None, bound: float, gap: float, status: SolveStatus
) -> None:
    assert status_of(objective, bound, gap) is status


def test_same_seed_same_solution(solver: Solver) -> None:
    first, second = (solver.solve(_knapsack(1), SolveOptions(seed=2**40 + 5)) for _ in range(2))
    assert first.solution is not None
    assert second.solution is not None
    np.testing.assert_array_equal(first.solution, second.solution)
    assert first.closed_nodes == second.closed_nodes


def test_threads_may_change_between_solves(solver: Solver) -> None:
    model = _knapsack(2)
    results = [solver.solve(model, SolveOptions(gap=0.0, threads=threads)) for threads in (1, 2, 1)]
    assert {result.status for result in results} == {SolveStatus.OPTIMAL}


def test_small_weights_are_kept() -> None:
    """HiGHS drops coefficients below 1e-9 by default, which would cut the optimum here."""
    model = _model([0, 1], [[1e-10, -1e-3]], [0], [0], [0, 0], [1e9, 1e9])
    assert get_solver("highs").solve(model, SolveOptions()).objective == pytest.approx(100.0)


@pytest.mark.parametrize(("name", "columns"), [("gurobi", 2001), ("cplex", 1001)])
def test_licence_limit_is_explained(name: str, columns: int) -> None:
    with pytest.raises(SolverError, match=rf"{columns} variables.*--solver highs"):
        get_solver(name).solve(wide_model(columns), SolveOptions())


@pytest.mark.parametrize("field", ["objective", "row_upper", "column_lower"])
def test_numbers_that_are_none_are_refused(solver: Solver, field: str) -> None:
    model = wide_model(3)
    getattr(model, field)[0] = math.nan
    with pytest.raises(SolverError, match="not a number"):
        solver.solve(model, SolveOptions())


@pytest.mark.parametrize("name", ["highs", "scip"])
def test_open_solvers_take_large_models(name: str) -> None:
    assert get_solver(name).solve(wide_model(3000), SolveOptions()).dual_bound == pytest.approx(3000.0)


def test_silence(solver: Solver, capfd: pytest.CaptureFixture[str]) -> None:
    solver.solve(_knapsack(0), SolveOptions())
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err == ""


def test_versions(solver: Solver) -> None:
    assert solver.version()[0].isdigit()
    assert solver.name in SOLVER_NAMES


def test_unknown_solver() -> None:
    with pytest.raises(InputError, match="highs, scip, gurobi, cplex"):
        get_solver("glpk")


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    with pytest.raises(MissingExtraError, match=r"reluplan\[scip\]"):
        get_solver("scip").solve(wide_model(3), SolveOptions())


def _concluded(solver: Solver, model: Model, verdict: Verdict, options: SolveOptions | None = None) -> SolveResult:
    """What is made of a solver's verdict on a model."""
    assert isinstance(solver, Adapter)
    options = options or SolveOptions()
    return conclude(solver, model, options, Monitor(model, options), Ending(verdict))


def _model(
    objective: list[float],
    rows: list[list[float]],
    row_lower: list[float],
    row_upper: list[float],
    lower: list[float],
    upper: list[float],
    *,
    offset: float = 0.0,
    integer: bool = False,
) -> Model:
    def array(values: list[float]) -> NDArray[np.float64]:
        return np.array(values, dtype=np.float64)

    return Model(
        objective=array(objective),
        offset=offset,
        matrix=sparse.csr_array(np.array(rows, dtype=np.float64)),
        row_lower=array(row_lower),
        row_upper=array(row_upper),
        column_lower=array(lower),
        column_upper=array(upper),
        integer=np.full(len(objective), integer),
    )


def _knapsack(seed: int) -> Model:
    """Binary knapsacks that may be widened at a price, with coefficients that are no integers."""
    rng = np.random.default_rng(seed)
    items, knapsacks = 20, 3
    weights = rng.uniform(1.0, 10.0, (knapsacks, items))
    return Model(
        objective=np.concatenate([rng.uniform(1.0, 10.0, items), -rng.uniform(1.0, 3.0, knapsacks)]),
        offset=float(rng.normal(scale=50.0)),
        matrix=sparse.csr_array(np.hstack([weights, -np.eye(knapsacks)])),
        row_lower=np.full(knapsacks, -math.inf),
        row_upper=0.3 * weights.sum(axis=1),
        column_lower=np.zeros(items + knapsacks),
        column_upper=np.concatenate([np.ones(items), np.full(knapsacks, 5.0)]),
        integer=np.arange(items + knapsacks) < items,
    )


def _has_incumbent(seen: list[Progress]) -> bool:
    return bool(seen) and seen[-1].incumbent is not None


def _has_nodes(seen: list[Progress]) -> bool:
    return bool(seen) and seen[-1].open_nodes > 0 and seen[-1].closed_nodes > 0
