"""Reward potentials against enumeration: every pattern, every interval, every way to stop."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from brute_force import optimum
from potential_cases import assert_valid, domain_of, feasible_patterns, jumping_problem, small_problem
from random_problems import random_problem
from reluplan.bounds.reachability import forward_bounds
from reluplan.encoding.unroll import unroll
from reluplan.errors import InfeasibleError, InputError, NumericalError
from reluplan.network.relu_network import ReluNetwork
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.planning.planner import plan
from reluplan.potentials.algorithm1 import generate_potentials
from reluplan.potentials.compute import compute_potentials, reward_potentials
from reluplan.potentials.domain import StepDomain
from reluplan.potentials.features import PatternFeatures
from reluplan.potentials.generation import Round
from reluplan.potentials.master import solve_master
from reluplan.potentials.potential_search import PotentialSearch
from reluplan.potentials.potential_set import PotentialSet
from reluplan.potentials.settings import Objective, PotentialSettings, choose_settings
from reluplan.potentials.strengthen import StrengtheningRows
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Variable
from reluplan.problem.rollout import simulate

Array = NDArray[np.float64]
Entries = NDArray[np.int8]


@pytest.mark.parametrize("interval_count", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, 3, 7, 9, 11])
def test_no_feasible_step_violates_the_potentials(seed: int, interval_count: int) -> None:
    """Also after an early stop, in the fast and in the paper's setting."""
    domain = domain_of(small_problem(seed))
    settings = PotentialSettings(interval_count, samples=300, tolerance=1e-6)
    features = domain.features(interval_count)
    patterns = list(feasible_patterns(domain, features))
    assert patterns
    for limit in (None, 1, 2, 5):
        generation = generate_potentials(domain, dataclasses.replace(settings, max_rounds=limit))
        assert_valid(domain, generation.potentials, patterns)
        assert generation.converged or limit is not None
    stopped = generate_potentials(domain, settings, deadline=0.0)
    assert stopped.potentials.proof == "interval arithmetic"
    assert_valid(domain, stopped.potentials, patterns)


@pytest.mark.parametrize("interval_count", [1, 2])
@pytest.mark.parametrize("seed", [1, 3, 7])
def test_the_paper_setting_is_valid_too(seed: int, interval_count: int) -> None:
    domain = domain_of(small_problem(seed, relus=3))
    settings = PotentialSettings.paper(interval_count)
    patterns = list(feasible_patterns(domain, domain.features(interval_count, every_unit=True)))
    for limit in (1, 5, None):
        generation = generate_potentials(domain, dataclasses.replace(settings, max_rounds=limit))
        assert_valid(domain, generation.potentials, patterns)
    assert generation.converged


@pytest.mark.slow
def test_ten_relus_are_enumerated() -> None:
    domain = domain_of(small_problem(2, relus=10, horizon=1))
    for interval_count in (1, 2):
        settings = PotentialSettings(interval_count, samples=300)
        generation = generate_potentials(domain, settings)
        assert generation.converged
        assert_valid(domain, generation.potentials, list(feasible_patterns(domain, generation.potentials.features)))


@pytest.mark.parametrize("interval_count", [1, 2])
@pytest.mark.parametrize("objective", ["mean", "centre"])
@pytest.mark.parametrize("seed", [1, 7, 9])
def test_the_optimum_is_that_of_the_qp_with_all_patterns(seed: int, objective: Objective, interval_count: int) -> None:
    domain = domain_of(small_problem(seed))
    settings = PotentialSettings(interval_count, samples=300, tolerance=1e-7, regulariser=0.05)
    settings = dataclasses.replace(settings, objective=objective)
    generation = generate_potentials(domain, settings)
    potentials, features = generation.potentials, generation.potentials.features
    if features.unit_count == 0:
        return
    patterns = list(feasible_patterns(domain, features))
    rows = features.one_hot(np.array([entries for entries, _ in patterns]))
    search_weights = _weights_of(domain, settings)
    complete = solve_master(rows, np.array([best for _, best in patterns]), search_weights.ravel(), 0.05)
    shift = max(0.0, potentials.proof_bound) + potentials.margin
    unshifted = potentials.values.ravel() - shift / features.unit_count
    assert _qp(unshifted, search_weights) == pytest.approx(_qp(complete, search_weights), abs=1e-4)


def _weights_of(domain: StepDomain, settings: PotentialSettings) -> Array:
    search = PotentialSearch(domain, settings)
    search.prepare()
    return search.weights_at(settings.objective)


def _qp(values: Array, weights: Array) -> float:
    return float(weights.ravel() @ values + 0.05 * values @ values)


@pytest.mark.parametrize("interval_count", [1, 2, 3])
@pytest.mark.parametrize("seed", [2, 3, 8, 9, 11, 12, 14])
def test_the_strengthened_plan_has_the_same_optimum(seed: int, interval_count: int) -> None:
    """Goals, discrete variables and non-concave rewards included."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, int(rng.integers(1, 4)), int(rng.integers(1, 3)), seed % 5 == 0)
    best = optimum(problem)
    result = plan(problem, method="potentials", interval_count=interval_count, gap=1e-5, threads=1)
    if best is None:
        assert result.status == "infeasible"
        return
    assert result.status == "optimal"
    assert result.reward == pytest.approx(best, abs=2e-5 * max(1.0, abs(best)))
    assert result.bound is not None
    assert result.bound >= best - 1e-9


@pytest.mark.parametrize("seed", [1, 3, 7, 11, 14, 21])
def test_the_relaxation_is_never_weaker_and_keeps_every_plan(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = dataclasses.replace(small_problem(seed, relus=6, horizon=3), goal=(), constraints=())
    bounds = forward_bounds(problem)
    base = unroll(problem, bounds)
    for per_step in (False, True):
        potentials = compute_potentials(problem, bounds, PotentialSettings(2, samples=500), per_step)
        strong = unroll(problem, bounds, extension=StrengtheningRows(potentials.items))
        relaxed = [m.model.relaxed() for m in (base, strong)]
        weak_bound, strong_bound = (HighsSolver().solve(m, SolveOptions()).objective for m in relaxed)
        assert weak_bound is not None
        assert strong_bound is not None
        assert strong_bound <= weak_bound + 1e-6
        lower, upper = problem.box(problem.actions)
        for _ in range(20):
            actions = rng.uniform(lower, upper, (3, len(lower)))
            actions = np.where([v.is_discrete for v in problem.actions], np.round(actions), actions)
            start = np.clip(np.zeros(len(problem.states)), problem.initial_lower, problem.initial_upper)
            trajectory = simulate(problem, np.round(start) if seed != 3 else start, actions)
            inside = (trajectory.states >= bounds.state_lower) & (trajectory.states <= bounds.state_upper)
            if inside.all():
                assert strong.model.violation(strong.assignment(trajectory)) <= 1e-6


@pytest.mark.parametrize("interval_count", [1, 2])
def test_the_last_step_may_leave_the_constraints(interval_count: int) -> None:
    """The optimum ends at s = 1.5: potentials that took C for granted after the step would cut it off."""
    problem = jumping_problem()
    assert optimum(problem) == pytest.approx(2.0)
    result = plan(problem, method="potentials", interval_count=interval_count)
    assert result.reward == pytest.approx(2.0, abs=1e-4)
    domain = domain_of(problem)
    assert domain.bounds.state_upper[1, 0] >= 1.5
    potentials = generate_potentials(domain, PotentialSettings(1)).potentials
    assert potentials.value(np.array([1.5])) >= 1.5


def test_rows_of_both_c_and_g_restrict_the_next_state() -> None:
    problem = jumping_problem()
    assert domain_of(problem).problem.goal == ()
    both = dataclasses.replace(problem, goal=problem.constraints)
    assert domain_of(both).problem.goal == problem.constraints


class TestFeatures:
    """Entries and edges."""

    features = PatternFeatures(np.array([0, 2]), np.array([4.0, 2.0]), 2)

    def test_entries_name_the_interval(self) -> None:
        units = np.array([[-1.0, 9.0, 0.5], [1.0, 9.0, 1.5], [3.0, 9.0, -2.0]])
        assert self.features.entries(units).tolist() == [[0, 1], [1, 2], [2, 0]]

    def test_edges_belong_to_both_sides(self) -> None:
        possible = self.features.possible_entries(np.array([[2.0, 0.0, 0.0]]))[0]
        assert possible.tolist() == [[False, True, True], [True, True, False]]

    def test_values_add_up(self) -> None:
        values = np.array([[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])
        entries = np.array([[0, 1], [2, 2]], dtype=np.int8)
        assert self.features.sum_values(values, entries).tolist() == [21.0, 300.0]
        assert (self.features.one_hot(entries) @ values.ravel()).tolist() == [21.0, 300.0]


class TestMaster:
    """The least-distance form of the regularised QP."""

    def test_without_cuts_it_is_the_unconstrained_optimum(self) -> None:
        assert solve_master(np.zeros((0, 3)), np.zeros(0), np.ones(3), 0.5).tolist() == [-1.0, -1.0, -1.0]

    def test_the_optimality_conditions_hold(self) -> None:
        rng = np.random.default_rng(0)
        features = PatternFeatures(np.arange(6), np.ones(6), 2)
        rows = features.one_hot(rng.integers(0, 3, (40, 6)).astype(np.int8))
        rewards, weights, regulariser = rng.normal(size=40) * 10, np.ones(18), 1e-3
        values = solve_master(rows, rewards, weights, regulariser)
        slack = rows @ values - rewards
        assert slack.min() >= -1e-8
        gradient = weights + 2 * regulariser * values
        tight = slack < 1e-7
        multipliers, *_ = np.linalg.lstsq(rows[tight].T, gradient, rcond=None)
        assert np.abs(rows[tight].T @ multipliers - gradient).max() < 1e-6


class TestTrouble:
    """Numerical trouble is explained, not looped over."""

    def test_an_unbounded_reward(self) -> None:
        problem = dataclasses.replace(
            jumping_problem(), auxiliaries=(Variable("x"),), reward=PiecewiseLinear(np.array([0, 0, 0, 0, 1.0])),
            dynamics=ReluNetwork.sequential([[[1.0, 1.0, 0.0]], [[1.0]]], [[0.0], [0.0]]), constraints=(),
        )  # fmt: skip
        with pytest.raises(NumericalError, match="unbounded"):
            reward_potentials(problem, 1)

    def test_a_step_that_cannot_be_made(self) -> None:
        row = Constraint(PiecewiseLinear(np.array([0.0, 0.0, -1.0]), 5.0), False, "s' >= 5")
        with pytest.raises(InfeasibleError, match="no step satisfies"):
            reward_potentials(dataclasses.replace(jumping_problem(), constraints=(row,)), 1)

    def test_a_regulariser_that_lets_potentials_blow_up(self) -> None:
        with pytest.raises(NumericalError, match="regulariser"):
            reward_potentials(small_problem(1), 1, settings=PotentialSettings(1, "centre", regulariser=1e-30))

    def test_wrong_settings(self) -> None:
        for arguments in (("fast", 0), ("slow", 1)):
            with pytest.raises(InputError):
                choose_settings(*arguments, threads=1)
        with pytest.raises(InputError):
            choose_settings("fast", 1, 1, regulariser=-1.0)

    def test_without_unstable_units_a_constant_remains(self) -> None:
        problem = dataclasses.replace(jumping_problem(), initial_lower=np.full(1, 3.0), initial_upper=np.full(1, 4.0))
        problem = dataclasses.replace(problem, horizon=1, constraints=())
        (item,) = reward_potentials(problem, 2).items
        assert item.features.unit_count == 0
        assert item.constant == pytest.approx(5.0, abs=0.02)
        assert item.constant >= 5.0


class TestFile:
    """Potentials files carry their proof, and are refused where they prove nothing."""

    @pytest.fixture
    def potentials(self) -> PotentialSet:
        return reward_potentials(jumping_problem(), 2)

    def test_a_round_trip_is_exact(self, potentials: PotentialSet, tmp_path: Path) -> None:
        potentials.save(tmp_path / "p.json")
        again = PotentialSet.load(tmp_path / "p.json")
        assert (again.items[0].values == potentials.items[0].values).all()
        assert again.items[0].features.key() == potentials.items[0].features.key()
        assert again.items[0].proof_bound == potentials.items[0].proof_bound
        again.require_fit(jumping_problem())
        again.require_fit(jumping_problem().with_horizon(1))
        assert plan(jumping_problem(), method="potentials", potentials=again).status == "optimal"

    def test_another_problem_is_refused(self, potentials: PotentialSet) -> None:
        for change, reason in (
            ({"reward": PiecewiseLinear(np.array([0.0, 0.0, 2.0]))}, "another problem"),
            ({"constraints": ()}, "another problem"),
            ({"initial_upper": np.ones(1)}, "initial state"),
            ({"horizon": 3}, "at most 2 steps"),
        ):
            changed = dataclasses.replace(jumping_problem(), **change)
            with pytest.raises(InputError, match=reason):
                plan(changed, method="potentials", potentials=potentials)

    def test_broken_files_are_explained(self, potentials: PotentialSet, tmp_path: Path) -> None:
        path = tmp_path / "p.json"
        with pytest.raises(InputError, match="no such"):
            PotentialSet.load(path)
        path.write_text("{")
        with pytest.raises(InputError, match="not a potentials file"):
            PotentialSet.load(path)
        potentials.save(path)
        content = json.loads(path.read_text())
        content["potentials"][0]["off"] = [math.nan]
        path.write_text(json.dumps(content))
        with pytest.raises(InputError, match="not a potentials file"):
            PotentialSet.load(path)


@pytest.mark.parametrize("settings", [PotentialSettings(2, samples=100, tolerance=1e-7), PotentialSettings.paper(2)])
def test_an_interrupt_leaves_valid_potentials(settings: PotentialSettings) -> None:
    domain = domain_of(small_problem(7))

    def interrupt(_: Round) -> None:
        raise KeyboardInterrupt

    generation = generate_potentials(domain, settings, on_round=interrupt)
    assert generation.interrupted
    assert not generation.converged
    assert len(generation.rounds) == 1
    assert_valid(domain, generation.potentials, list(feasible_patterns(domain, generation.potentials.features)))
