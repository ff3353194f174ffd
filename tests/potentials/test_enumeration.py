"""Enumeration of patterns against brute force over all of them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from potential_cases import assert_valid, domain_of, feasible_patterns, jumping_problem, small_problem
from reluplan.bounds.reachability import forward_bounds
from reluplan.potentials.algorithm1 import optimise
from reluplan.potentials.annealing import Annealing
from reluplan.potentials.compute import compute_potentials
from reluplan.potentials.enumeration import enumerate_patterns
from reluplan.potentials.features import neighbours
from reluplan.potentials.pattern_store import PatternStore
from reluplan.potentials.potential_search import PotentialSearch
from reluplan.potentials.reward_cutoff import tighten_by_reward_cutoff
from reluplan.potentials.rollouts import greedy_rollouts
from reluplan.potentials.settings import Family, Objective, PotentialSettings
from reluplan.potentials.step_samples import StepSamples
from reluplan.potentials.subproblem import Subproblem


def store_of(seed: int, relus: int, interval_count: int) -> tuple[PatternStore, StepSamples]:
    domain = domain_of(dataclasses.replace(small_problem(seed, relus=relus, horizon=1), goal=()))
    features = domain.features(interval_count)
    samples = StepSamples(domain, features, np.random.default_rng(0))
    samples.sample(2000)
    return PatternStore(features, Subproblem(domain, features)), samples


@pytest.mark.parametrize("interval_count", [1, 2])
@pytest.mark.parametrize(("seed", "relus"), [(1, 4), (7, 4), (9, 5), (12, 6), (2, 8)])
def test_enumeration_finds_exactly_the_feasible_patterns(seed: int, relus: int, interval_count: int) -> None:
    store, samples = store_of(seed, relus, interval_count)
    best: dict[bytes, float] = {}
    for entries, reward in feasible_patterns(samples.domain, samples.features):
        best[entries.tobytes()] = max(reward, best.get(entries.tobytes(), -math.inf))
    _, seeds = samples.violations(np.zeros(samples.features.shape))
    assert enumerate_patterns(store, seeds, 10_000)
    found = {entries.tobytes(): reward for entries, reward in zip(store.entries, store.rewards, strict=True)}
    assert found.keys() == best.keys()
    assert [found[key] for key in best] == pytest.approx(list(best.values()), abs=1e-5)


def test_enumeration_gives_up_beyond_its_cap() -> None:
    store, samples = store_of(2, 8, 2)
    _, seeds = samples.violations(np.zeros(samples.features.shape))
    assert not enumerate_patterns(store, seeds, 1)
    assert not enumerate_patterns(store, seeds, 10_000, deadline=0.0)


def test_neighbours_stay_inside() -> None:
    assert neighbours(np.array([0, 2], dtype=np.int8), 2).tolist() == [[1, 2], [0, 1]]


@pytest.mark.parametrize("seed", [1, 7, 11])
def test_with_all_patterns_the_first_milp_certifies(seed: int) -> None:
    domain = domain_of(small_problem(seed))
    settings = PotentialSettings(2, samples=500, tolerance=1e-6)
    plain = optimise(PotentialSearch(domain, settings))
    complete = optimise(PotentialSearch(domain, dataclasses.replace(settings, enumerate_up_to=1000)))
    assert complete.converged
    assert complete.milp_count == 1
    assert complete.objective == pytest.approx(plain.objective, abs=1e-3 * max(1.0, abs(plain.objective)))


def test_annealing_reports_true_violations() -> None:
    """Every step that it returns is a step of the domain, with the reward and the potential that it claims."""
    domain = domain_of(small_problem(7, relus=6))
    features = domain.features(2)
    samples = StepSamples(domain, features, np.random.default_rng(0))
    samples.sample(500)
    values = np.random.default_rng(1).normal(size=features.shape)
    annealing = Annealing(domain, features, np.random.default_rng(2))
    before = annealing.violations(samples.inputs, values)
    inputs, violation = annealing.search(samples.inputs, values, 0.01)
    assert (violation >= before).all()
    problem = domain.problem
    units, after = problem.dynamics.evaluate(inputs)
    reward = problem.reward.evaluate(np.hstack([inputs, problem.round_states(after)]))
    claimed = reward - features.sum_values(values, features.entries(units))
    made = np.isfinite(violation)
    assert claimed[made] == pytest.approx(violation[made])
    lower, upper = domain.input_box()
    assert ((inputs >= lower) & (inputs <= upper)).all()


def test_greedy_rollouts_take_the_best_action() -> None:
    """s' = relu(s + a), reward s': a = 1 is best, but s <= 0.5 forbids a step from anywhere above."""
    problem = dataclasses.replace(jumping_problem(), constraints=())
    rollouts = greedy_rollouts(problem, np.full(1, -1.0), np.full(1, 1.0), 3, np.random.default_rng(0))
    assert rollouts.rewards == pytest.approx(np.repeat([[1.0], [2.0], [3.0]], 10, axis=1))
    stopped = greedy_rollouts(jumping_problem(), np.full(1, -1.0), np.full(1, 1.0), 3, np.random.default_rng(0))
    inputs, rewards = stopped.from_step(1, 2)
    assert not len(rewards)
    assert inputs.shape == (0, 2)


def test_weights_are_mean_patterns() -> None:
    search = PotentialSearch(domain_of(small_problem(7)), PotentialSettings(2, samples=500))
    search.prepare()
    objectives: tuple[Objective, ...] = ("mean", "plans")
    for objective in objectives:
        weights = search.weights_at(objective)
        assert weights.sum(axis=1) == pytest.approx(np.ones(search.features.unit_count))


@pytest.mark.parametrize(("family", "most"), [("one", 1), ("several", 3), ("lp", 6)])
def test_every_member_of_a_family_holds(family: Family, most: int) -> None:
    problem = small_problem(7)
    settings = PotentialSettings(2, family=family, samples=300)
    found = compute_potentials(problem, forward_bounds(problem), settings)
    assert 1 <= len(found.items) <= most
    domain = domain_of(problem)
    patterns = list(feasible_patterns(domain, found.items[0].features))
    for item in found.items:
        assert item.features.key() == found.items[0].features.key()
        assert_valid(domain, item, patterns)


@pytest.mark.parametrize("interval_count", [1, 2])
@pytest.mark.parametrize("seed", [7, 9, 11])
def test_patterns_of_a_restricted_domain_are_those_of_its_steps(seed: int, interval_count: int) -> None:
    """Among steps with high rewards some units cannot switch any more; no pattern may pretend that they do."""
    domain = domain_of(small_problem(seed, relus=4, horizon=1))
    features = domain.features(interval_count)
    samples = StepSamples(domain, features, np.random.default_rng(0))
    samples.sample(2000)
    restricted = tighten_by_reward_cutoff(domain, float(np.quantile(samples.rewards, 0.99)))
    assert restricted is not None
    assert restricted.bounds.unstable.sum() < domain.bounds.unstable.sum()
    store = PatternStore(features, Subproblem(restricted, features))
    for entries in np.ndindex(*(features.shape[1],) * features.unit_count):
        store.solve(np.array(entries, dtype=np.int8))
    possible = features.possible_entries(domain.problem.dynamics.preactivations(np.array(store.points)))
    found = np.array(store.entries, dtype=np.int64)
    assert np.take_along_axis(possible, found[..., None], axis=-1).all()
