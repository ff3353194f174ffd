"""Inspections: counts against really built models, bounds against samples, every kind of problem."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_network, random_problem, with_final_reward
from reluplan.bounds.reachability import reachable_bounds
from reluplan.errors import InfeasibleError
from reluplan.inspection import inspect_network, inspect_problem
from reluplan.inspection.guess import Trial, is_likely
from reluplan.inspection.lipschitz import jacobian, jacobian_bounds, row_sum_bounds
from reluplan.inspection.measured import OutlookSettings
from reluplan.inspection.model_size import ModelSize, model_size
from reluplan.inspection.network_size import network_size
from reluplan.inspection.settings import InspectionSettings
from reluplan.inspection.undecided import bound_network_box, bound_problem_box, count_undecided, seen_to_switch
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.planning.planner import build_model
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from shared_data import EXAMPLES

QUICK = replace(InspectionSettings(), with_trial=False)


def sizes(problem: Problem) -> tuple[int, int, int, int]:
    model = build_model(problem).model
    return model.column_count, int(model.integer.sum()), model.row_count, int(model.matrix.nnz)


def counted(size: ModelSize) -> tuple[int, int, int, int]:
    return size.columns, size.integers, size.rows, size.nonzeros


# The model


@given(seed=st.integers(0, 10_000), horizon=st.integers(1, 5), auxiliary=st.booleans())
@settings(max_examples=40)
def test_the_model_is_counted_exactly_without_being_built(seed: int, horizon: int, auxiliary: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=5, horizon=horizon, auxiliary=auxiliary)
    if seed % 2:
        problem = with_final_reward(rng, problem)
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return
    exact = model_size(problem, bounds, QUICK)
    assert counted(exact) == sizes(problem)
    assert exact.is_whole
    assert exact.nonzeros_are_counted
    by_formula = model_size(problem, bounds, replace(QUICK, step_entries=0))
    assert counted(by_formula)[:3] == counted(exact)[:3]
    assert by_formula.nonzeros >= exact.nonzeros
    assert not by_formula.nonzeros_are_counted


def test_steps_that_repeat_are_counted_once_and_later_ones_taken_from_the_last() -> None:
    problem = Problem.load(EXAMPLES / "reservoir/reservoir_3/problem.toml").with_horizon(16)
    whole = inspect_problem(problem, settings=replace(QUICK, seconds=1000.0)).model
    assert whole is not None
    assert counted(whole) == sizes(problem)
    part = inspect_problem(problem, settings=replace(QUICK, seconds=1000.0, most_steps=8)).model
    assert part is not None
    assert part.steps == 8
    assert not part.is_whole
    assert part.columns == pytest.approx(whole.columns, rel=0.05)


def test_a_horizon_of_a_million_steps_is_no_trouble() -> None:
    problem = Problem.load(EXAMPLES / "tanks/problem.toml").with_horizon(1_000_000)
    found = inspect_problem(problem, settings=replace(QUICK, most_steps=50))
    assert found.model is not None
    assert found.model.horizon == 1_000_000
    assert found.model.steps <= 50
    assert found.memory is not None
    assert found.memory > 1e9


# Units


@given(seed=st.integers(0, 10_000), dense=st.booleans())
@settings(max_examples=30)
def test_a_unit_that_takes_both_signs_counts_as_undecided(seed: int, dense: bool) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, [6, 5], 2, dense)
    centre = rng.normal(size=3)
    radius = rng.uniform(0.0, 1.5, 3)
    box = bound_network_box(network, centre - radius, centre + radius, QUICK)
    switching = seen_to_switch(network, rng.uniform(centre - radius, centre + radius, (500, 3)))
    assert not (switching & (box.on | box.off)).any()
    found = count_undecided(network, box)
    assert found.on + found.off + found.undecided == found.units == 11
    assert found.seen is not None
    assert found.seen <= found.undecided


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30)
def test_units_seen_to_switch_where_the_constraints_hold_are_undecided(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), relus=6)
    try:
        box = bound_problem_box(problem, np.inf, QUICK)
    except InfeasibleError:
        return
    found = count_undecided(problem.dynamics, box)
    assert found.seen is None or found.seen <= found.undecided


def test_every_step_of_simulated_plans_keeps_to_what_is_proven_of_the_first_steps() -> None:
    problem = Problem.load(EXAMPLES / "tanks/problem.toml")
    found = inspect_problem(problem, settings=QUICK)
    bounds = reachable_bounds(problem)
    assert found.steps is not None
    assert found.steps.each == tuple(bounds.unstable.sum(axis=1)[:5])
    assert found.steps.total == bounds.unstable.sum()
    assert found.box is not None
    assert found.steps.each[0] <= found.box.undecided


# Derivatives


@given(seed=st.integers(0, 10_000), dense=st.booleans())
@settings(max_examples=30)
def test_slopes_between_samples_keep_to_the_proven_lipschitz_bound(seed: int, dense: bool) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, [6, 5], 2, dense)
    found = inspect_network(network, (np.full(3, -1.0), np.full(3, 2.0)), settings=QUICK).lipschitz
    anywhere = inspect_network(network, settings=QUICK).lipschitz
    first, second = rng.uniform(-1.0, 2.0, (2, 200, 3))
    slopes = np.abs(network.forward(first) - network.forward(second)).max(axis=1) / np.abs(first - second).max(axis=1)
    assert found.sampled is not None
    assert slopes.max() <= found.proven
    assert found.sampled <= found.proven <= anywhere.proven * (1.0 + 1e-9)
    assert anywhere.sampled is None


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30)
def test_every_jacobian_lies_within_its_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, [6, 5], 2)
    box = bound_network_box(network, np.full(3, -0.5), np.full(3, 0.5), QUICK)
    low, high = jacobian_bounds(network, box.on, box.off)
    sums = row_sum_bounds(network, box.off, np.ones(3))
    for point in rng.uniform(-0.5, 0.5, (50, 3)):
        found = jacobian(network, point)
        assert (low <= found).all()
        assert (found <= high).all()
        assert (np.abs(found).sum(axis=1) <= sums).all()


def test_a_jacobian_is_the_slope_of_its_piece() -> None:
    rng = np.random.default_rng(3)
    network = random_network(rng, 4, [8, 8], 3)
    x = rng.normal(size=4)
    slopes = [(network.forward(x + 1e-6 * e) - network.forward(x - 1e-6 * e)) / 2e-6 for e in np.eye(4)]
    np.testing.assert_allclose(jacobian(network, x), np.array(slopes).T, atol=1e-6)


def test_large_networks_have_looser_proofs_but_still_proofs() -> None:
    network = random_network(np.random.default_rng(0), 3, [8, 8], 2)
    box = (np.full(3, -1.0), np.full(3, 1.0))
    exact = inspect_network(network, box, settings=QUICK).lipschitz
    coarse = inspect_network(
        network, box, settings=replace(QUICK, jacobian_numbers=0, spectral_numbers=0)
    ).lipschitz  # fmt: skip
    assert exact.proven <= coarse.proven
    assert exact.sampled == coarse.sampled


# Sizes and kinds of problems


def test_layers_are_counted_with_their_skips_and_magnitudes() -> None:
    first = Layer(np.array([[1.0, 0.0, 0.0], [0.0, -4.0, 0.0]]), np.array([0.0, 3.0]))
    second = Layer(np.array([[0.0, 0.0, 0.0, 1.0, 0.5]]), np.zeros(1))
    output = Layer(np.array([[2.0, 0.0, 0.0, 1.0, 0.0, 1.0]]), np.zeros(1))
    size = network_size(ReluNetwork(3, (first, second), output))
    assert size.hidden == (2, 1)
    assert size.unread_inputs == (2,)
    assert (size.weights, size.nonzeros, size.skips) == (6 + 5 + 6, 2 + 2 + 3, 2)
    assert size.sparsity == pytest.approx(1.0 - 7 / 17)
    assert (size.layers[0].smallest_weight, size.layers[0].largest_weight, size.layers[0].largest_bias) == (1, 4, 3)


def a_problem(network: ReluNetwork, *, bounds: float = np.inf, kind: str = "continuous") -> Problem:
    """One state, one action; the network reads both."""
    state = Variable("level", kind, -bounds, bounds)  # type: ignore[arg-type]
    reward = PiecewiseLinear.variable(2, 3) * -1.0
    start = np.array([1.0])
    return Problem(
        "small", 3, (state,), (Variable("pump", "continuous", -1.0, 1.0),), (), start, start, network, reward
    )


def test_states_without_bounds_are_bounded_step_by_step() -> None:
    found = inspect_problem(a_problem(random_network(np.random.default_rng(1), 2, [4], 1)), settings=QUICK)
    assert found.variables is not None
    assert found.variables.unbounded == ("level",)
    assert found.box is not None
    assert found.box.without_bounds > 0
    assert found.box.seen is None
    assert found.steps is not None
    assert found.lipschitz.sampled is None
    assert found.relative is None
    assert any("give bounds = [lower, upper] to 'level'" in advice for advice in found.advice)


def test_whole_numbers_are_counted() -> None:
    problem = a_problem(random_network(np.random.default_rng(1), 2, [4], 1), bounds=5.0, kind="integer")
    found = inspect_problem(problem, settings=QUICK)
    assert found.variables is not None
    assert found.variables.discrete == 1
    assert found.model is not None
    assert counted(found.model) == sizes(problem)


def test_a_linear_system_has_nothing_undecided() -> None:
    network = ReluNetwork(2, (), Layer(np.array([[0.5, 1.0]]), np.zeros(1)))
    found = inspect_problem(a_problem(network, bounds=10.0), network)
    assert found.model is not None
    assert found.model.integers == 0
    assert found.lipschitz.proven == pytest.approx(1.5)
    assert found.lipschitz.sampled == pytest.approx(1.5)
    assert found.guess is not None
    assert found.guess.outlook == "proven"
    assert found.advice == ("nothing: reluplan plan problem --out run",)


def test_units_without_finite_bounds_are_told_and_not_an_error() -> None:
    problem = a_problem(random_network(np.random.default_rng(1), 2, [4], 1))
    problem = replace(problem, initial_lower=np.array([-np.inf]), initial_upper=np.array([np.inf]))
    found = inspect_problem(problem, settings=QUICK)
    assert found.steps is None
    assert found.model is None
    assert any("without finite bounds" in note for note in found.notes)
    assert json.loads(found.to_json())["memory"] is None


def test_little_time_gives_looser_but_valid_counts() -> None:
    problem = Problem.load(EXAMPLES / "hvac/hvac_3/problem.toml").with_horizon(30)
    late = inspect_problem(problem, settings=replace(QUICK, seconds=1e-6))
    exact = inspect_problem(problem, settings=replace(QUICK, seconds=1000.0))
    assert late.steps is not None
    assert exact.steps is not None
    assert not late.steps.are_final
    assert late.steps.total >= exact.steps.total
    assert late.box is not None
    assert exact.box is not None
    assert late.box.undecided >= exact.box.undecided


# The guess


def test_the_rule_of_the_outlook() -> None:
    rule = OutlookSettings()
    near = Trial(2.0, "feasible", 1.0, 1.05, 0.05)
    far = Trial(2.0, "feasible", 1.0, 2.0, 1.0)
    nothing = Trial(2.0, "no_plan", None, None, None)
    assert is_likely(near, 5000, 4, rule)
    assert not is_likely(far, 5000, 4, rule)
    assert not is_likely(nothing, 5000, 4, rule)
    assert is_likely(far, 20, 4, rule)
    assert is_likely(far, 5000, 1, rule)


def test_a_model_too_large_to_try_is_left_open_with_advice() -> None:
    problem = Problem.load(EXAMPLES / "hvac/hvac_3/problem.toml").with_horizon(10)
    rule = replace(OutlookSettings(), largest_model=10)
    network = problem.dynamics
    found = inspect_problem(problem, network, replace(InspectionSettings(), outlook=rule))
    assert found.guess is not None
    assert (found.guess.outlook, found.guess.trial, found.guess.measured) == ("open", None, None)
    assert not found.guess.is_beyond
    assert any("--hidden 16" in advice for advice in found.advice)
    assert any("--stability" in advice for advice in found.advice)
    assert any("--lookahead" in advice for advice in found.advice)


def test_known_transitions_that_are_left_open_get_advice_too() -> None:
    problem = Problem.load(EXAMPLES / "hvac/hvac_3/problem.toml").with_horizon(10)
    rule = replace(OutlookSettings(), largest_model=10)
    found = inspect_problem(problem, None, replace(InspectionSettings(), outlook=rule))
    assert [advice.split(":")[0] for advice in found.advice] == ["a shorter horizon"]


def test_commands_can_be_copied_where_a_folder_has_a_space() -> None:
    problem = replace(Problem.load(EXAMPLES / "tanks/problem.toml").with_horizon(1), source="my tanks/problem.toml")
    found = inspect_problem(problem)
    assert "nothing: reluplan plan 'my tanks/problem.toml' --out run" in found.advice


def test_a_variable_that_no_unit_reads_needs_no_bounds() -> None:
    """Such as a position that integrates a speed: its bounds change no unit."""
    network = ReluNetwork(
        2,
        (Layer(np.array([[0.0, 1.0], [0.0, -1.0]]), np.zeros(2)),),
        Layer(np.array([[1.0, 0.0, 0.5, 0.5]]), np.zeros(1)),
    )
    found = inspect_problem(a_problem(network), settings=QUICK)
    assert found.variables is not None
    assert found.variables.unbounded == ("level",)
    assert found.box is not None
    assert (found.box.undecided, found.box.without_bounds, found.box.seen) == (2, 0, 2)
    assert found.lipschitz.sampled == pytest.approx(1.5)
    assert not any("give bounds" in advice for advice in found.advice)
