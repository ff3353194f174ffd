"""Rounding ties: bounds leave out the side that cannot be attained, and no plan hangs on the last bit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patience import AMPLE
from random_problems import random_network
from reluplan import Problem, plan, simulate
from reluplan.bounds.prediction import rounded_box
from reluplan.planning.result import PlanResult
from reluplan.problem.check import check
from shared_data import EXAMPLES

METHODS = ("auto", "base", "potentials")
KINDS = {"integer": "[-5, 5]", "boolean": "[0, 1]"}


def problem(
    tmp_path: Path, kind: str, transition: str, reward: str, extra: str = "", actions: str = "[-1, 1]"
) -> Problem:
    path = tmp_path / "problem.toml"
    path.write_text(
        f'horizon = 3\nreward = "{reward}"\n{extra}\n[transition]\ns = "{transition}"\n'
        f'[state.s]\nkind = "{kind}"\nbounds = {KINDS[kind]}\ninitial = 0\n[action.a]\nbounds = {actions}\n'
    )
    return Problem.load(path)


def solved(tie: Problem, method: str) -> PlanResult:
    return plan(tie, method=method, time_limit=AMPLE, threads=1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_unattainable_side_of_a_tie_is_no_part_of_the_bound(tmp_path: Path, kind: str, method: str) -> None:
    """p = 1/2 + |a| is never below the tie, so s' = 0 is out of reach; the bound was 0 where every plan earns -30."""
    result = solved(problem(tmp_path, kind, "0.5 + abs(a)", "-10*s'"), method)
    assert result.status == "optimal"
    assert result.reward == -30.0
    assert result.bound == pytest.approx(-30.0, abs=1e-3)
    assert result.tie_distance == 1e-6


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_goal_beside_a_tie_is_reached_with_a_distance_by_every_method(tmp_path: Path, kind: str, method: str) -> None:
    tie = problem(tmp_path, kind, "0.5 - a", "-a", 'goal = ["s <= 0"]', "[0, 1]")
    result = solved(tie, method)
    assert result.status == "optimal"
    assert result.trajectory is not None
    assert result.trajectory.states[-1] <= 0.0
    assert tie.dynamics.forward([*result.trajectory.states[-2], *result.trajectory.actions[-1]]) <= 0.5 - 0.5e-6
    assert result.reward == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_halves_that_cannot_be_avoided_go_up(tmp_path: Path, method: str) -> None:
    """s' = s/2 + 1/2 from s = 0 is exactly one half, in any arithmetic: it is rounded up, as documented."""
    result = solved(problem(tmp_path, "integer", "0.5*s + 0.5 + 0*a", "s'"), method)
    assert result.status == "optimal"
    assert result.trajectory is not None
    assert result.trajectory.states[:, 0].tolist() == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("method", METHODS)
def test_no_plan_off_the_ties_is_no_proof_that_there_is_none(tmp_path: Path, method: str) -> None:
    """The largest number below one half is rounded down, wherever the action is: the only plans sit beside a tie."""
    result = solved(problem(tmp_path, "integer", "0.49999999999999994 + 0*a", "s'"), method)
    assert result.status == "feasible"
    assert result.reward == 0.0
    assert result.tie_distance == 0.0
    assert any("rounding ties" in note for note in result.notes)


def test_a_plan_that_rounding_errors_decide_is_none(tmp_path: Path) -> None:
    """0.1 + 0.2 + 0.2 is one half in floating point and more than that in fact, 0.3 + 0.2 - 2^-55 is less."""
    tie = problem(tmp_path, "integer", "a + 0.3", "-s'")
    for action, ok in ((0.2, True), (np.nextafter(0.2, 0.0), False), (0.2 - 1e-7, False), (0.2 - 1e-5, True)):
        trajectory = simulate(tie, np.zeros(1), np.array([[action], [-0.3], [-0.3]]))
        exact = tie.dynamics.exact_outputs([Fraction(0), Fraction(action)])[0]
        report = check(tie, trajectory)
        agrees = (exact >= Fraction(1, 2)) == (trajectory.states[1, 0] == 1.0)
        assert report.ok == (ok and agrees)


@given(seed=st.integers(0, 10_000))
def test_exact_outputs_are_those_of_the_network(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, [4, 3], 2)
    inputs = rng.normal(size=3)
    exact = [float(value) for value in network.exact_outputs([Fraction(value) for value in inputs.tolist()])]
    np.testing.assert_allclose(exact, network.forward(inputs), rtol=1e-12, atol=1e-12)


@given(low=st.floats(-4.0, 4.0), width=st.floats(0.0, 3.0), share=st.floats(0.0, 1.0))
def test_boxes_of_rounded_predictions_contain_all_that_keep_off_the_ties(
    low: float, width: float, share: float
) -> None:
    """All p in [low, high] that keep the distance: their integers lie in the box; and it is no larger than it must."""
    tie = replace(INTEGER, tie_distance=1e-6)
    high = low + width
    p = low + share * width
    below, above = rounded_box(tie, np.array([low]), np.array([high]))
    rounded = tie.round_states(np.array([p]))[0]
    if not -1e-6 < p - (np.floor(p) + 0.5) < 0.0:
        assert below[0] <= rounded <= above[0]
    assert above[0] - below[0] <= width + 1.0 + 1e-5


INTEGER = Problem.load(EXAMPLES / "tanks" / "problem.toml")
INTEGER = replace(INTEGER, states=(replace(INTEGER.states[0], kind="integer"),))
