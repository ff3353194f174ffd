"""What boxes claim is their type: it never becomes stronger, and who needs a claim gets it or an error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_problem
from reluplan.bounds.boxes import (
    AllPlanBounds,
    BetterPlanBounds,
    ForwardBounds,
    HorizonBounds,
    intersected,
    require_claim,
    tightened,
    tightened_for_better_plans,
)
from reluplan.bounds.reachability import forward_bounds, meet_goal, reachable_bounds, reachable_within
from reluplan.bounds.span import Span
from reluplan.encoding.window import cut_window
from reluplan.errors import InfeasibleError, NoBetterPlanError, NoPlanExistsError
from reluplan.potentials.compute import compute_potentials
from reluplan.potentials.settings import PotentialSettings
from reluplan.problem.problem import Problem
from reluplan.tightening.obbt_lp import tighten_by_lp, tighten_by_reward_cutoff
from reluplan.tightening.propagation import propagate

CLAIMS = (ForwardBounds, AllPlanBounds, BetterPlanBounds)


def problem_with_plans(horizon: int = 3) -> Problem:
    for seed in range(100):
        problem = random_problem(np.random.default_rng(seed), relus=2, horizon=horizon)
        try:
            reachable_bounds(problem)
        except InfeasibleError:
            continue
        return problem
    raise AssertionError("no such problem")


PROBLEM = problem_with_plans()


def bounds_of(claim: type[BetterPlanBounds]) -> BetterPlanBounds:
    return claim(**forward_bounds(PROBLEM).copied().arrays(), because="a test")


@pytest.mark.parametrize("claim", CLAIMS)
def test_no_claim_is_made_by_replacing_arrays(claim: type[BetterPlanBounds]) -> None:
    bounds = bounds_of(claim)
    with pytest.raises(ValueError, match="because"):
        dataclasses.replace(bounds, state_lower=bounds.state_lower + 1.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="because"):
        claim(**bounds.arrays())  # type: ignore[arg-type]


def test_stronger_claims_include_weaker_ones() -> None:
    assert issubclass(ForwardBounds, AllPlanBounds)
    assert issubclass(AllPlanBounds, BetterPlanBounds)
    assert not issubclass(HorizonBounds, BetterPlanBounds)


def test_every_source_says_what_it_is_valid_for() -> None:
    forward = forward_bounds(PROBLEM)
    assert type(forward) is ForwardBounds
    assert type(meet_goal(PROBLEM, forward)) is AllPlanBounds  # even without a goal: the caller may have one
    assert type(reachable_bounds(PROBLEM)) is AllPlanBounds
    assert type(reachable_within(PROBLEM, forward)) is BetterPlanBounds


@pytest.mark.parametrize("claim", CLAIMS)
def test_every_tightening_step_passes_the_claim_on(claim: type[BetterPlanBounds]) -> None:
    """The goal and later steps may be used: nothing that comes out holds whatever they are."""
    bounds = bounds_of(claim)
    expected = BetterPlanBounds if claim is BetterPlanBounds else AllPlanBounds
    assert type(tightened(bounds, {})) is expected
    assert type(propagate(PROBLEM, bounds, moved=[0])) is expected
    assert type(bounds.copied()) is claim
    assert type(bounds.hull(Span(0, 1))) is claim
    window = cut_window(PROBLEM, bounds, Span(0, 2))
    assert type(window.bounds) is claim
    assert type(tighten_by_lp(window.plan_model, require_claim(window.bounds, BetterPlanBounds))) is expected
    cutoff = tighten_by_reward_cutoff(window.plan_model, window.plan_model.model, -1e6, bounds.hull(Span(0, 2)))
    assert type(cutoff) is BetterPlanBounds
    assert type(tightened_for_better_plans(bounds, {})) is BetterPlanBounds


@pytest.mark.parametrize("first", CLAIMS)
@pytest.mark.parametrize("second", CLAIMS)
def test_what_lies_in_two_boxes_has_the_weaker_claim(
    first: type[BetterPlanBounds], second: type[BetterPlanBounds]
) -> None:
    whole = Span(0, PROBLEM.horizon)
    found = type(intersected(bounds_of(first), [whole], [bounds_of(second)]))
    assert found is (BetterPlanBounds if BetterPlanBounds in (first, second) else AllPlanBounds)


@pytest.mark.parametrize("claim", [AllPlanBounds, BetterPlanBounds])
def test_potentials_refuse_bounds_that_know_the_goal(claim: type[BetterPlanBounds]) -> None:
    with pytest.raises(TypeError, match="ForwardBounds are needed"):
        compute_potentials(PROBLEM, bounds_of(claim), PotentialSettings(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("claim", CLAIMS)
def test_empty_boxes_mean_what_they_claim(claim: type[BetterPlanBounds]) -> None:
    bounds = bounds_of(claim)
    bounds.state_lower[1:] += 1e3
    bounds.state_upper[1:] += 1e3
    expected = NoBetterPlanError if claim is BetterPlanBounds else NoPlanExistsError
    with pytest.raises(expected):
        propagate(PROBLEM, bounds, moved=[0])


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_forward_bounds_hold_for_every_shorter_horizon_and_any_goal(seed: int) -> None:
    """The boxes of the first steps do not depend on the horizon or the goal of the problem that they come from."""
    problem = random_problem(np.random.default_rng(seed), relus=2, horizon=3)
    try:
        long = forward_bounds(problem)
        short = forward_bounds(problem.with_horizon(2))
    except InfeasibleError:
        return
    for name, array in short.arrays().items():
        np.testing.assert_array_equal(array, long.arrays()[name][: len(array)])
