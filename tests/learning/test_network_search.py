"""The search for the smallest network that is as good: linear systems need no ReLU, others lose no accuracy."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from random_problems import random_network
from reluplan import train
from reluplan.data.transitions import Transitions
from reluplan.learning import TrainingSettings
from reluplan.learning.dense_net import DenseNet
from reluplan.learning.eliminate import eliminate
from reluplan.learning.judge import Judge, Scores, consecutive_runs, standard_error
from reluplan.learning.learning_data import learning_data
from reluplan.learning.report import CurvePoint
from reluplan.learning.settings import SearchSettings
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Variable

Array = NDArray[np.float64]
SEEDS = st.integers(0, 2**31 - 1)
QUICK = TrainingSettings(predicts="delta", epochs=15, polish=60, searching=SearchSettings(largest=(12,)))
NAMES = (["p", "q", "a"], ["p", "q"])
BOUNDS = tuple(Variable(name, lower=-3.0, upper=3.0) for name in NAMES[0])


def episodes(change: Any, noise: float = 0.0, count: int = 80, steps: int = 10, seed: int = 0) -> Transitions:
    """Random actions from random states; change: of the states (count, 2) and the action (count, 1)."""
    rng = np.random.default_rng(seed)
    state = rng.uniform(-2.0, 2.0, (count, 2))
    rows = []
    for _ in range(steps):
        action = rng.uniform(-1.0, 1.0, (count, 1))
        after = state + change(state, action) + noise * rng.standard_normal(state.shape)
        rows.append((state, action, after))
        state = after
    states, actions, after = (np.stack(part, axis=1).reshape(count * steps, -1) for part in zip(*rows, strict=True))
    episode, step = np.repeat(np.arange(count), steps), np.tile(np.arange(steps), count)
    return Transitions(("p", "q"), ("a",), episode, step, states, actions, after)


def car(state: Array, action: Array) -> Array:
    """A double integrator with drag: five numbers that are not zero."""
    return np.column_stack([0.1 * state[:, 1] + 0.005 * action[:, 0], 0.1 * action[:, 0] - 0.02 * state[:, 1]])


def kinked(state: Array, action: Array) -> Array:
    """Two ReLUs, one of them in both states."""
    wall = np.maximum(0.0, state[:, 0] + 0.5 * state[:, 1] - 0.3)
    gate = np.maximum(0.0, action[:, 0] - 0.4 * state[:, 1])
    return 0.2 * np.column_stack([action[:, 0] - wall, gate - 0.5 * wall])


# Whole searches


def test_a_linear_system_needs_neither_relus_nor_training() -> None:
    result = train(episodes(car), *NAMES, QUICK, variables=BOUNDS)
    report = result.report
    assert (result.network.relu_count, report.unstable_relus, report.nonzero_weights) == (0, 0, 4)
    assert all(state.r2_change is not None and state.r2_change > 1.0 - 1e-12 for state in report.states)
    assert report.search is not None
    assert {trial.kind for trial in report.search.trials} == {"linear", "fewer weights"}
    assert report.troubles == ()


@pytest.mark.parametrize("seed", [0, 1])
def test_noise_does_not_pass_for_a_nonlinear_system(seed: int) -> None:
    result = train(episodes(car, noise=0.008, seed=seed), *NAMES, QUICK, variables=BOUNDS)
    assert result.network.relu_count == 0
    assert result.report.search is not None
    assert result.report.search.full is not None
    assert result.report.search.full.relus == 12


def test_a_piecewise_linear_system_keeps_its_kinks_and_no_more() -> None:
    result = train(episodes(kinked), *NAMES, QUICK, variables=BOUNDS)
    assert result.network.relu_count == 2
    assert min(state.r2_change or 0.0 for state in result.report.states) > 0.999999
    noisy = train(episodes(kinked, noise=0.01), *NAMES, QUICK, variables=BOUNDS)
    assert 2 <= noisy.network.relu_count <= 6


def test_what_is_chosen_is_as_good_as_what_is_trained_without_a_search() -> None:
    def smooth(state: Array, action: Array) -> Array:
        return 0.2 * np.column_stack([np.sin(2.0 * state[:, 1]), action[:, 0] * np.cos(state[:, 0])])

    data = episodes(smooth)
    found = train(data, *NAMES, QUICK, variables=BOUNDS).report
    plain = train(data, *NAMES, replace(QUICK, search=False), variables=BOUNDS).report
    assert found.search is not None
    assert found.search.full is not None
    assert plain.search is None
    kept = plain.learning.points[plain.learning.kept]
    assert found.search.full.error == pytest.approx(kept.validation)
    for one, other in zip(found.states, plain.states, strict=True):
        assert 1.0 - (one.r2_change or 0.0) <= 1.5 * (1.0 - (other.r2_change or 0.0)) + 1e-6


def test_the_report_says_what_was_tried_and_what_was_chosen() -> None:
    report = train(episodes(kinked), *NAMES, QUICK, variables=BOUNDS).report
    stored = json.loads(report.to_json())["search"]
    chosen = stored["trials"][stored["chosen"]]
    assert chosen["as_good"]
    assert (chosen["relus"], chosen["nonzero_weights"]) == (report.relus, report.nonzero_weights)
    assert [trial["kind"] for trial in stored["trials"][:2]] == ["linear", "full"]
    good = [trial for trial in stored["trials"] if trial["as_good"]]
    assert chosen["unstable_relus"] == min(trial["unstable_relus"] for trial in good)
    assert report.learning.points[report.learning.kept].validation == pytest.approx(chosen["error"], abs=1e-12)


def test_given_layers_are_taken_as_they_are_unless_a_search_is_asked_for() -> None:
    assert not TrainingSettings(hidden=(8,)).searches
    assert TrainingSettings(hidden=(8,), search=True).searches
    assert TrainingSettings().searches
    assert not TrainingSettings(search=False).searches
    assert not TrainingSettings(stability=0.1).searches
    data = episodes(car, count=20)
    assert train(data, *NAMES, replace(QUICK, hidden=(3,), epochs=2, polish=0)).network.relu_count == 3


def test_a_search_repeats_and_works_below_several_layers() -> None:
    chosen = replace(QUICK, hidden=(4, 3), search=True, epochs=8, polish=40)
    first, second = (train(episodes(kinked, count=40), *NAMES, chosen, variables=BOUNDS) for _ in range(2))
    assert first.network.fingerprint() == second.network.fingerprint()
    searches = [result.report.search for result in (first, second)]
    errors = [[trial.error for trial in search.trials] for search in searches if search is not None]
    assert errors[0] == errors[1]
    assert first.network.relu_count < 7


def test_an_interrupt_of_the_search_keeps_the_best_choice_so_far() -> None:
    def stop(point: CurvePoint) -> None:
        if point.stage == "search":
            raise KeyboardInterrupt

    result = train(episodes(kinked), *NAMES, QUICK, on_progress=stop)
    assert result.report.learning.ending == "interrupted"
    assert result.report.search is not None
    assert [trial.kind for trial in result.report.search.trials] == ["linear", "full"]
    assert result.network.relu_count == 12


def test_no_time_at_all_ends_with_what_there_is() -> None:
    result = train(episodes(kinked), *NAMES, QUICK, deadline=time.monotonic() - 1.0)
    assert result.report.learning.ending == "time limit"
    assert result.report.search is not None
    assert len(result.report.search.trials) == 2


# What as good means


@given(SEEDS)
@settings(max_examples=30)
def test_the_standard_error_is_that_of_the_means_of_groups(seed: int) -> None:
    """With groups of equal size it is the textbook's, of the groups' means."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(60, 2)) + np.repeat(rng.normal(size=(12, 2)), 5, axis=0)
    means = values.reshape(12, 5, 2).mean(axis=1)
    expected = means.std(axis=0, ddof=1) / np.sqrt(12)
    np.testing.assert_allclose(standard_error(values, np.repeat(np.arange(12), 5)), expected)
    np.testing.assert_array_equal(standard_error(values, np.zeros(60, dtype=np.int64)), 0.0)


def test_runs_end_with_episodes_gaps_and_at_their_length() -> None:
    data = episodes(car, count=3, steps=10)
    np.testing.assert_array_equal(consecutive_runs(data, 4), np.repeat(np.arange(9), [4, 4, 2] * 3))
    with_gap = data.select(np.delete(np.arange(30), 2))
    np.testing.assert_array_equal(consecutive_runs(with_gap, 100)[:12], [0, 0, *[1] * 7, 2, 2, 2])


def judge_of(**searching: float) -> Judge:
    settings = replace(QUICK, searching=SearchSettings(**searching))  # type: ignore[arg-type]
    return Judge.of(learning_data(episodes(car), *NAMES, settings), BOUNDS, settings)


def test_an_excess_must_be_insignificant_and_small_or_negligible() -> None:
    judge = judge_of(negligible=1e-6, excess=0.1)
    count = len(judge.validation)
    rng = np.random.default_rng(0)
    none = np.zeros((0, 2))
    best = Scores(rng.uniform(0.5, 1.5, (count, 2)) * 1e-2, none)
    slightly = Scores(best.steps * 1.02, none)  # every row is worse: that is no accident
    assert not judge.as_good(slightly, best)
    vague = Scores(best.steps + 1e-4 * np.array([1.0, 0.0]) + rng.normal(size=(count, 2)) * 1e-2, none)
    assert judge.as_good(vague, best)
    assert judge.as_good(Scores(best.steps + 9e-7, none), best)
    assert not judge.as_good(Scores(best.steps + np.array([0.0, 2e-6]), none), best)
    wild = Scores(best.steps + np.eye(count, 1) * np.array([0.3 * count * 1e-2, 0.0]), none)  # one row decides
    assert not judge.as_good(wild, best)
    assert judge.as_good(best, best)


def test_rollouts_count_beside_single_steps() -> None:
    judge = judge_of()
    steps = np.full((len(judge.validation), 2), 1e-3)
    best = Scores(steps, np.full((5, 2), 1e-2))
    assert judge.as_good(best, best)
    assert not judge.as_good(Scores(steps, np.full((5, 2), 2e-2)), best)
    assert not judge.as_good(Scores(steps, np.full((5, 2), np.nan)), best)
    away = Scores(steps, np.full((5, 2), np.inf))
    assert judge.as_good(away, away)


def test_scores_are_squared_errors_in_deviations_of_the_change() -> None:
    judge = judge_of()
    network = random_network(np.random.default_rng(3), 3, [4], 2)
    scores = judge.scores(network)
    rows = judge.validation
    missed = network.forward(np.hstack([rows.states, rows.actions])) + rows.states - rows.next_states
    training = judge.data.transitions.select(judge.data.split.training)
    deviation = (training.next_states - training.states).std(axis=0)
    np.testing.assert_allclose(scores.steps, (missed / deviation) ** 2)
    assert scores.rollouts.shape == (len(rows) // 10, 2)


# Taking units out


@given(SEEDS, st.booleans())
@settings(max_examples=20)
def test_a_network_without_a_unit_is_the_network_with_that_unit_unread(seed: int, dense: bool) -> None:
    rng = np.random.default_rng(seed)
    net = DenseNet.random(3, (4, 3), 2, dense, rng)
    layer, unit = int(rng.integers(2)), int(rng.integers(3))
    smaller = net.without(layer, unit)
    column = net.weights[layer].shape[1] + unit
    with torch.no_grad():
        for later in net.weights[layer + 1 :]:
            later[:, column] = 0.0
    inputs = torch.from_numpy(rng.normal(size=(30, 3)))
    torch.testing.assert_close(smaller.forward(inputs), net.forward(inputs))
    assert [len(bias) for bias in smaller.biases] == [4 - (layer == 0), 3 - (layer == 1), 2]


@pytest.mark.parametrize("layers", [(5,), (3, 3)])
def test_units_that_do_nothing_go_first(layers: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(rng.uniform(-1.0, 1.0, (400, 2)))
    net = DenseNet.random(2, layers, 1, True, rng)
    with torch.no_grad():
        for bias in net.biases[:-1]:
            bias[1:] = -100.0  # all but the first unit of a layer are off
    targets = net.forward(inputs).detach() + 0.1 * torch.relu(inputs[:, :1] - 0.5)
    smaller = eliminate(net.copy(), inputs, targets, sum(layers) - len(layers), 1e-6, rng)
    assert [len(bias) for bias in smaller.biases[:-1]] == [1] * len(layers)
    for layer in range(len(layers)):
        assert float(smaller.biases[layer][0].detach()) > -100.0


def test_the_search_never_takes_a_network_that_reads_a_constant_input() -> None:
    data = episodes(car)
    data = replace(data, actions=np.full_like(data.actions, 0.5))
    network: ReluNetwork = train(data, *NAMES, replace(QUICK, epochs=3, polish=20)).network
    low = np.array([[0.0, 1.0, -1.0]])
    np.testing.assert_array_equal(network.forward(low), network.forward(low + np.array([0.0, 0.0, 5.0])))
