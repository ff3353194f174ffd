"""Constraints are kept to a tolerance that is relative to the size of their data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patience import AMPLE
from reluplan import Problem, plan, simulate
from reluplan.problem.check import check
from reluplan.problem.tolerance import TOLERANCE, tolerance_for


@given(size=st.floats(1e-30, 1e30))
def test_the_tolerance_is_relative_for_small_and_for_huge_data(size: float) -> None:
    tolerance = float(tolerance_for(size))
    assert tolerance <= TOLERANCE * max(1.0, size)
    assert tolerance >= 1e-12 * size
    if 1.0 <= size <= 1e6:
        assert tolerance == TOLERANCE
    if size < 1.0:
        assert tolerance == pytest.approx(TOLERANCE * size)


@pytest.mark.parametrize("size", [np.inf, np.nan, 0.0])
def test_data_of_unknown_size_count_as_one(size: float) -> None:
    assert tolerance_for(size) == TOLERANCE


def tiny_problem(folder: Path, scale: float) -> Problem:
    """Walk up to a ceiling: all data in multiples of the scale."""
    (folder / "problem.toml").write_text(
        f'horizon = 3\nreward = "x\' * {1.0 / scale!r}"\nconstraints = ["x + a <= {0.5 * scale!r}"]\n'
        f'[transition]\nx = "x + a"\n[state.x]\nbounds = [0, {scale!r}]\ninitial = 0\n'
        f"[action.a]\nbounds = [0, {scale!r}]\n"
    )
    return Problem.load(folder / "problem.toml")


@pytest.mark.parametrize("method", ["auto", "base"])
@pytest.mark.parametrize("scale", [1e-9, 1e-6, 1.0, 1e6, 1e9])
def test_the_same_problem_has_the_same_plan_in_all_units(tmp_path: Path, scale: float, method: str) -> None:
    problem = tiny_problem(tmp_path, scale)
    result = plan(problem, method=method, time_limit=AMPLE, threads=1)
    assert result.status == "optimal"
    assert result.reward == pytest.approx(1.5, rel=1e-4)  # the gap
    assert result.bound == pytest.approx(1.5, rel=1e-4)


@pytest.mark.parametrize("scale", [1e-9, 1e-6, 1.0])
def test_no_start_is_a_plan_because_its_units_are_small(tmp_path: Path, scale: float) -> None:
    """It goes to twice the ceiling; where that is a millionth it was called optimal, with a reward of 3."""
    problem = tiny_problem(tmp_path, scale)
    start = simulate(problem, np.zeros(1), np.array([[scale], [0.0], [0.0]]))
    result = plan(problem, start=start, time_limit=AMPLE, threads=1)
    assert result.status == "optimal"
    assert result.reward == pytest.approx(1.5, rel=1e-5)
    assert not any("dropped" in note for note in result.notes)


def test_a_violation_of_a_millionth_is_one_where_the_data_are_millionths(tmp_path: Path) -> None:
    for scale, ok in ((1.0, True), (1e-6, False)):
        problem = tiny_problem(tmp_path, scale)
        actions = np.array([[0.5 * scale + 0.5e-6], [0.0], [0.0]])
        report = check(problem, simulate(problem, np.zeros(1), actions))
        assert report.max_violation == pytest.approx(0.5e-6)
        assert report.ok == ok
        assert [violation.constraint for violation in report.broken] == (
            [] if ok else [report.violations[0].constraint]
        )
