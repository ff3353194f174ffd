"""Training: what goes in comes out in the same units, the same seed gives the same network, reports do not flatter."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from patience import AMPLE
from random_problems import random_network
from reluplan import train
from reluplan.data.transitions import Transitions
from reluplan.errors import InputError
from reluplan.learning import TrainingSettings
from reluplan.learning.compact import compact
from reluplan.learning.dense_net import DenseNet
from reluplan.learning.errors import state_errors
from reluplan.learning.exchange import exchange_units
from reluplan.learning.learning_data import learning_data
from reluplan.learning.objective import instability
from reluplan.learning.planning_cost import unstable_in_box, unstable_in_problem
from reluplan.learning.predictor import Predictor
from reluplan.learning.prune import prune_share
from reluplan.learning.report import CurvePoint
from reluplan.learning.rollout import roll_out, rollout_errors
from reluplan.learning.scaling import Scaling, fold
from reluplan.learning.settings import PolishSettings, RolloutSettings, SplitSettings
from reluplan.learning.split import split_transitions
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.file import load_problem, read_variables
from reluplan.problem.problem import Variable
from systems import CASCADE, cascade_data

Array = NDArray[np.float64]
QUICK = TrainingSettings(hidden=(6,), epochs=30, polish=60)
SEEDS = st.integers(0, 2**31 - 1)


TANKS = cascade_data()
NAMES = (["pump", "upper", "lower"], ["lower", "upper"])
BOUNDS = (
    Variable("upper", lower=0, upper=10),
    Variable("lower", lower=0, upper=2000),
    Variable("pump", lower=0, upper=3),
)


def network_inputs(data: Transitions) -> Array:
    return np.hstack([data.actions, data.states])


# Variables of a problem file


def test_variables_are_read_before_there_is_a_network(tmp_path: Path) -> None:
    path = tmp_path / "problem.toml"
    path.write_text(CASCADE)
    table = read_variables(path)
    assert [(v.name, v.lower, v.upper) for v in table.states] == [("upper", 0, 10), ("lower", 0, 2000)]
    assert [v.name for v in table.actions] == ["pump"]
    assert table.auxiliaries == ()
    assert table.network is not None
    assert table.network.file == tmp_path / "learned" / "network.onnx"
    assert (table.network.inputs, table.network.outputs) == (("pump", "upper", "lower"), ("lower", "upper"))
    assert table.network.predicts == "delta"
    with pytest.raises(InputError, match=r"network\.file: no such file"):
        load_problem(path)


def test_a_trained_network_stands_in_for_the_file(tmp_path: Path) -> None:
    path = tmp_path / "problem.toml"
    path.write_text(CASCADE)
    network = random_network(np.random.default_rng(0), 3, [4], 2)
    problem = load_problem(path, network)
    predicted = problem.dynamics.forward([5.0, 700.0, 2.0])
    np.testing.assert_allclose(predicted - [5.0, 700.0], network.forward([2.0, 5.0, 700.0])[::-1])
    with pytest.raises(InputError, match="has 4 inputs"):
        load_problem(path, random_network(np.random.default_rng(0), 4, [4], 2))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"pump", "upper"', '"pomp", "upper"', "did you mean 'pump'"),
        ('"delta"', '"change"', 'must be "next" or "delta"'),
        ('inputs = ["pump", "upper", "lower"]', "", "'inputs' is missing"),
    ],
)
def test_a_wrong_network_section_is_explained(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "problem.toml"
    path.write_text(CASCADE.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_variables(path)


# Settings and splits


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden": ()}, {"hidden": (4, 0)}, {"epochs": 0}, {"prune": 1.0}, {"stability": -1.0}, {"sparsity": np.nan},
        {"predicts": "state"}, {"learning_rate": 0.0}, {"test_share": 0.0}, {"validation_share": 0.7},
        {"batch_size": 0}, {"threads": 0}, {"seed": -1},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        TrainingSettings(**wrong)


def test_settings_of_the_parts_are_heeded_and_recorded() -> None:
    settings = replace(
        QUICK,
        epochs=6,
        polish=4,
        polishing=PolishSettings(chunk=2),
        splitting=SplitSettings(fewest_episodes=31),
        rollouts=RolloutSettings(horizons=(2, 3)),
    )
    report = train(TANKS, *NAMES, settings).report
    assert report.split_by == "blocks"
    assert [entry.steps for entry in report.rollouts] == [2, 3]
    assert [point.epoch for point in report.learning.points if point.stage == "polish"] == [2, 4]
    assert json.loads(report.to_json())["settings"]["rollouts"] == {"horizons": [2, 3]}
    with pytest.raises(InputError, match=r"360 transitions are too few .* at least 361"):
        split_transitions(TANKS, 0.1, 0.1, 0, SplitSettings(fewest_rows=361))


@given(st.lists(st.integers(1, 40), min_size=5, max_size=30).filter(lambda sizes: sum(sizes) >= 30), SEEDS)
def test_no_episode_is_torn_apart(sizes: list[int], seed: int) -> None:
    data = cascade_data(1, sum(sizes))
    data = replace(data, episode=np.repeat(np.arange(len(sizes)), sizes))
    split = split_transitions(data, 0.1, 0.2, seed)
    parts = [split.training, split.validation, split.test]
    assert split.by == "episodes"
    assert all(len(part) for part in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(data)))
    episodes = [set(data.episode[part].tolist()) for part in parts]
    assert sum(map(len, episodes)) == len(set.union(*episodes))


def test_a_single_episode_is_cut_into_runs_and_loose_rows_into_rows() -> None:
    whole = cascade_data(1, 400)
    split = split_transitions(whole, 0.1, 0.1, 0)
    assert split.by == "blocks"
    assert (np.diff(split.test) > 1).sum() <= 2
    rng = np.random.default_rng(0)
    loose = replace(cascade_data(400, 1), episode=np.zeros(400, dtype=np.int64), step=rng.permutation(400))
    split = split_transitions(loose, 0.1, 0.1, 0)
    assert split.by == "rows"
    assert len(split.training) == 320


def test_too_few_transitions_are_refused() -> None:
    with pytest.raises(InputError, match="20 transitions are too few"):
        train(cascade_data(5, 4), *NAMES, QUICK)


def test_names_that_the_data_lack_are_refused() -> None:
    with pytest.raises(InputError, match=r"no column 'pomp' .*did you mean 'pump'"):
        train(TANKS, ["pomp", "upper"], ["upper"], QUICK)
    with pytest.raises(InputError, match="outputs: the data have no column 'pump'"):
        train(TANKS, ["pump", "upper"], ["pump"], QUICK)
    with pytest.raises(InputError, match="one or more different names"):
        train(TANKS, ["upper", "upper"], ["upper"], QUICK)


# Units and formats


@given(SEEDS)
@settings(max_examples=30)
def test_folding_the_scales_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, [4, 5], 2)
    values, targets = (
        rng.normal(size=(50, 3)) * [1e-3, 1.0, 1e4] + [5.0, 0.0, -1e4],
        rng.normal(size=(50, 2)) * [10, 0.1],
    )
    inputs, outputs = Scaling.of(values), Scaling.of(targets, np.array([2.0, 3.0]))
    expected = network.forward(inputs.apply(values)) * outputs.scale + outputs.mean
    np.testing.assert_allclose(fold(network, inputs, outputs).forward(values), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dense", [True, False])
def test_torch_the_network_and_onnx_agree_on_raw_inputs(tmp_path: Path, dense: bool) -> None:
    net = DenseNet.random(3, (5, 4), 2, dense, np.random.default_rng(1))
    raw = network_inputs(TANKS)
    inputs, outputs = Scaling.of(raw), Scaling.of(TANKS.next_states)
    with torch.no_grad():
        expected = net.forward(torch.from_numpy(inputs.apply(raw))).numpy() * outputs.scale + outputs.mean
    network = fold(net.to_network(), inputs, outputs)
    np.testing.assert_allclose(network.forward(raw), expected, rtol=1e-6)
    network.save(tmp_path / "network.onnx")
    running = onnxruntime.InferenceSession(str(tmp_path / "network.onnx"))
    np.testing.assert_allclose(running.run(None, {"inputs": raw})[0], expected, rtol=1e-6)
    np.testing.assert_allclose(ReluNetwork.load(tmp_path / "network.onnx").forward(raw), expected, rtol=1e-6)
    if not dense:
        assert not network.hidden[1].weights[:, :3].any()
        assert not network.output.weights[:, :8].any()


def test_constant_columns_have_a_scale() -> None:
    scaling = Scaling.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_array_equal(scaling.constant, [False, True])
    np.testing.assert_array_equal(scaling.apply(np.array([[2.0, 7.0]])), [[0.0, 2.0]])


# Training


@pytest.mark.parametrize("predicts", ["next", "delta"])
def test_piecewise_linear_dynamics_are_learned_in_physical_units(predicts: Any) -> None:
    result = train(TANKS, *NAMES, replace(QUICK, epochs=60, predicts=predicts), variables=BOUNDS)
    for state in result.report.states:
        assert state.r2_change is not None
        assert state.r2_change > 0.999
    fresh = cascade_data(20, 5, seed=9)
    predicted = result.network.forward(network_inputs(fresh)) + (fresh.states[:, ::-1] if predicts == "delta" else 0.0)
    assert np.sqrt(np.mean((predicted - fresh.next_states[:, ::-1]) ** 2, axis=0)) == pytest.approx(0.0, abs=2.0)
    assert [state.name for state in result.report.states] == ["lower", "upper"]


def test_layers_that_read_the_previous_one_only_learn_too() -> None:
    result = train(TANKS, *NAMES, replace(QUICK, hidden=(12,), dense=False))
    assert not result.network.output.weights[:, :3].any()
    assert all(state.r2_next is not None and state.r2_next > 0.99 for state in result.report.states)


@pytest.mark.parametrize("extra", [{}, {"prune": 0.4, "sparsity": 1e-4, "stability": 1e-3}])
def test_the_same_seed_gives_the_same_network_and_report(extra: dict[str, Any]) -> None:
    chosen = replace(QUICK, epochs=8, polish=40, hidden=(5, 4), **extra)
    first, second = (train(TANKS, *NAMES, chosen, variables=BOUNDS) for _ in range(2))
    other = train(TANKS, *NAMES, replace(chosen, seed=1), variables=BOUNDS)
    assert first.network.fingerprint() == second.network.fingerprint() == first.report.fingerprint
    assert first.network.fingerprint() != other.network.fingerprint()
    assert first.report.states == second.report.states
    assert first.report.rollouts == second.report.rollouts
    assert [p.validation for p in first.report.learning.points] == [p.validation for p in second.report.learning.points]


def test_training_leaves_the_settings_of_torch_alone() -> None:
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), torch.get_rng_state()
    train(TANKS, *NAMES, replace(QUICK, epochs=2, polish=0))
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before[:2]
    assert torch.equal(torch.get_rng_state(), before[2])


def test_an_input_that_never_varies_is_ignored_and_reported() -> None:
    data = replace(TANKS, actions=np.full_like(TANKS.actions, 2.0))
    result = train(data, *NAMES, replace(QUICK, epochs=4, polish=0))
    assert any("'pump' never varies" in note for note in result.report.notes)
    low, high = network_inputs(data).copy(), network_inputs(data).copy()
    high[:, 0] = 3.0
    np.testing.assert_array_equal(result.network.forward(low), result.network.forward(high))


def test_rows_in_any_order_give_the_same_network() -> None:
    shuffled = TANKS.select(np.random.default_rng(0).permutation(len(TANKS)))
    chosen = replace(QUICK, epochs=3, polish=0)
    first, second = train(TANKS, *NAMES, chosen), train(shuffled, *NAMES, chosen)
    assert first.network.fingerprint() == second.network.fingerprint()
    row = second.report.states[0].worst_row - 1
    original = first.report.states[0].worst_row - 1
    np.testing.assert_array_equal(shuffled.states[row], TANKS.states[original])


def test_an_interrupt_keeps_the_best_weights_so_far() -> None:
    def stop_at_the_fourth(point: CurvePoint) -> None:
        if point.epoch == 4:
            raise KeyboardInterrupt

    result = train(TANKS, *NAMES, QUICK, on_progress=stop_at_the_fourth)
    points = result.report.learning.points
    assert result.report.learning.ending == "interrupted"
    assert len(points) == 5
    assert points[result.report.learning.kept].validation == min(point.validation for point in points)


def test_a_deadline_in_the_past_still_gives_a_network_as_good_as_linear_dynamics() -> None:
    result = train(TANKS, *NAMES, QUICK, deadline=time.monotonic() - 1.0)
    assert result.report.learning.ending == "time limit"
    split = learning_data(TANKS, *NAMES, QUICK).split
    design = np.hstack([network_inputs(TANKS), np.ones((len(TANKS), 1))])
    for column, state in enumerate(result.report.states):
        target = TANKS.next_states[:, 1 - column]
        solution = np.linalg.lstsq(design[split.training], target[split.training], rcond=None)[0]
        linear = np.sqrt(np.mean((design[split.test] @ solution - target[split.test]) ** 2))
        assert state.rmse < 1.2 * linear


# Networks that are easy to plan with


@given(SEEDS)
@settings(max_examples=40)
def test_taking_out_idle_units_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, [4, 3, 2], 2)
    layers = [
        Layer(layer.weights * (rng.random(layer.weights.shape) < 0.3), layer.bias)
        for layer in (*network.hidden, network.output)
    ]
    sparse = ReluNetwork(3, tuple(layers[:-1]), layers[-1])
    smaller = compact(sparse)
    inputs = rng.normal(size=(40, 3)) * 3.0
    np.testing.assert_allclose(smaller.forward(inputs), sparse.forward(inputs), atol=1e-12)
    assert smaller.relu_count <= sparse.relu_count
    for index, layer in enumerate(smaller.hidden):
        columns = slice(3 + smaller.unit_slices[index].start, 3 + smaller.unit_slices[index].stop)
        later = (*smaller.hidden[index + 1 :], smaller.output)
        assert layer.weights.any(axis=1).all()
        assert np.any([part.weights[:, columns].any(axis=0) for part in later], axis=0).all()


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_pruning_zeroes_the_share_asked_for(share: float) -> None:
    net = DenseNet.random(3, (6, 5), 2, True, np.random.default_rng(0))
    inputs = torch.from_numpy(np.random.default_rng(1).normal(size=(200, 3)))
    prune_share(net, inputs, share)
    weights = torch.cat([part.detach().flatten() for part in net.weights])
    assert int((weights == 0.0).sum()) == round(share * len(weights))


def test_pruned_weights_stay_zero_through_retraining() -> None:
    result = train(TANKS, *NAMES, replace(QUICK, hidden=(8,), prune=0.5), variables=BOUNDS)
    assert result.report.nonzero_weights <= 0.5 * (3 * 8 + 11 * 2) + 1
    assert {point.stage for point in result.report.learning.points} >= {"fit", "prune", "retrain", "polish"}
    assert result.report.nonzero_weights == sum(
        int(np.count_nonzero(layer.weights)) for layer in (*result.network.hidden, result.network.output)
    )


def test_sparsity_and_stability_do_what_they_say() -> None:
    chosen = replace(QUICK, hidden=(12,), epochs=100)
    plain, sparse, stable = (
        train(TANKS, *NAMES, choice, variables=BOUNDS).report
        for choice in (chosen, replace(chosen, sparsity=3e-2), replace(chosen, stability=3e-2))
    )
    assert sparse.nonzero_weights < 0.8 * plain.nonzero_weights
    assert stable.unstable_relus < plain.unstable_relus


@given(SEEDS, st.floats(0.1, 10.0))
@settings(max_examples=30)
def test_instability_is_about_sign_changes_and_blind_to_scale(seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    net = DenseNet.random(3, (5,), 1, True, rng)
    lower, upper = -torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    value = float(instability(net, lower, upper).detach())
    corners = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T.astype(float)
    reach = net.to_network().preactivations(corners)
    low, high = reach.min(axis=0), reach.max(axis=0)
    assert value == pytest.approx(np.mean(2.0 * np.maximum(0.0, np.minimum(-low, high)) / (high - low)), abs=1e-9)
    with torch.no_grad():
        net.weights[0][2] *= factor
        net.biases[0][2] *= factor
    assert float(instability(net, lower, upper).detach()) == pytest.approx(value, abs=1e-9)


def test_unstable_relus_are_counted_in_the_box_and_under_the_constraints(tmp_path: Path) -> None:
    path = tmp_path / "problem.toml"
    path.write_text(CASCADE)
    rows = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # pump − upper − 1, pump + 1, upper − 4
    network = ReluNetwork(3, (Layer(rows, np.array([-1.0, 1.0, -4.0])),), Layer(np.ones((2, 6)), np.zeros(2)))
    lower, upper = np.array([0.0, 0.0, 0.0]), np.array([3.0, 10.0, 2000.0])
    assert unstable_in_box(network, lower, upper) == 2
    assert unstable_in_problem(load_problem(path, network), 3, TANKS) == 1


def test_an_idle_unit_is_moved_to_where_the_error_is() -> None:
    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(rng.uniform(-1.0, 1.0, (500, 2)))
    targets = torch.relu(inputs[:, :1] - 0.3) + torch.relu(-inputs[:, 1:] - 0.5)
    net = DenseNet.random(2, (4,), 1, True, rng)
    with torch.no_grad():
        net.biases[0][1] = -100.0
    net.refit_output(inputs, targets)
    before = float(torch.mean((net.forward(inputs) - targets) ** 2).detach())
    exchange_units(net, inputs, targets, rng)
    assert float(net.biases[0][1].detach()) > -100.0
    assert float(torch.mean((net.forward(inputs) - targets) ** 2).detach()) < before


# Reports


def test_errors_are_those_of_the_formulas() -> None:
    data = learning_data(TANKS, *NAMES, QUICK)
    network = random_network(np.random.default_rng(3), 3, [4], 2)
    found = state_errors(Predictor(network, data.input_columns, data.output_columns, "delta"), data)[1]
    test = TANKS.select(data.split.test)
    error = network.forward(network_inputs(test))[:, 1] + test.states[:, 0] - test.next_states[:, 0]
    change = test.next_states[:, 0] - test.states[:, 0]
    assert found.name == "upper"
    assert found.rmse == pytest.approx(np.sqrt(np.mean(error**2)))
    assert found.mae == pytest.approx(np.mean(np.abs(error)))
    assert found.worst == pytest.approx(np.abs(error).max())
    assert found.worst_row == data.split.test[np.abs(error).argmax()] + 1
    assert found.r2_change == pytest.approx(1.0 - np.var(error) / np.var(change) - error.mean() ** 2 / np.var(change))
    assert found.r2_next == pytest.approx(1.0 - np.mean(error**2) / np.var(test.next_states[:, 0]))


def drifting(steps: int, episodes: int = 3) -> Transitions:
    """x' = x + u, y' = 2 y: whoever predicts x + u + 0.1 is off by 0.1 t after t steps."""
    u = np.tile(np.linspace(-1.0, 1.0, steps), episodes)[:, None]
    x = np.tile(np.concatenate([[0.0], np.cumsum(u[: steps - 1, 0])]), episodes)
    y = np.tile(2.0 ** np.arange(steps), episodes)
    states = np.column_stack([x, y])
    episode, step = np.repeat(np.arange(episodes), steps), np.tile(np.arange(steps), episodes)
    after = np.column_stack([x + u[:, 0], 2.0 * y])
    return Transitions(("x", "y"), ("u",), episode, step, states, u, after)


def test_errors_add_up_over_a_rollout() -> None:
    network = ReluNetwork(2, (), Layer(np.array([[1.0, 1.0]]), np.array([0.1])))
    predictor = Predictor(network, (0, 2), (0,), "next")
    episodes = drifting(25)
    errors = roll_out(predictor, episodes, 10, np.array([False]))
    assert errors.shape == (6, 10, 1)
    np.testing.assert_allclose(errors[..., 0], np.broadcast_to(0.1 * np.arange(1, 11), (6, 10)), atol=1e-9)
    found = rollout_errors(predictor, episodes, np.array([False]))
    assert [(entry.steps, entry.windows) for entry in found] == [(10, 6)]
    assert found[0].rmse == pytest.approx((1.0,))
    rounded = roll_out(predictor, replace(episodes, actions=np.ones_like(episodes.actions)), 2, np.array([True]))
    np.testing.assert_allclose(rounded[0, :, 0] + episodes.next_states[:2, 0], [1.0, 2.0])


def test_a_gap_in_the_steps_ends_a_rollout() -> None:
    network = ReluNetwork(2, (), Layer(np.array([[1.0, 1.0]]), np.array([0.1])))
    episodes = drifting(25, 1)
    with_gap = episodes.select(np.delete(np.arange(25), 12))
    assert len(roll_out(Predictor(network, (0, 2), (0,), "next"), with_gap, 10, np.array([False]))) == 2
    assert len(roll_out(Predictor(network, (0, 2), (0,), "next"), with_gap, 13, np.array([False]))) == 0


def test_the_report_is_strict_json(tmp_path: Path) -> None:
    report = train(TANKS, *NAMES, replace(QUICK, epochs=3, prune=0.2), variables=BOUNDS).report

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    report.save(tmp_path / "report.json")
    stored = json.loads((tmp_path / "report.json").read_text(), parse_constant=refuse)
    assert stored["rows"] == report.rows
    assert sum(report.rows.values()) == len(TANKS)
    assert stored["settings"]["hidden"] == [6]
    assert stored["versions"]["torch"]
    assert [entry["steps"] for entry in stored["rollouts"]] == [10]
    assert len(stored["drift"]["rmse"]) == 10
    assert stored["relus"] >= stored["unstable_relus"]


def test_short_episodes_leave_rollouts_unknown() -> None:
    report = train(cascade_data(100, 4), *NAMES, replace(QUICK, epochs=2, polish=0)).report
    assert report.rollouts == ()
    assert report.drift is None
    assert any("consecutive steps" in note for note in report.notes)


# The package


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = "import sys, reluplan, reluplan.learning, reluplan.cli; assert reluplan.train and 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], timeout=AMPLE).returncode == 0
