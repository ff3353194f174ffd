"""Distilling: teachers of every kind, students, and where they are worst."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from command_line import Command, write
from random_problems import random_network
from reluplan import clock
from reluplan.data import write_transitions
from reluplan.data.transitions import Transitions
from reluplan.errors import InputError
from reluplan.learning.distillation import teacher as teacher_module
from reluplan.learning.distillation.distil import distil, sampled_transitions
from reluplan.learning.distillation.names import Names
from reluplan.learning.distillation.region import Region, box_region, data_region
from reluplan.learning.distillation.rollout import compare_rollouts
from reluplan.learning.distillation.settings import DistilSettings
from reluplan.learning.distillation.teacher import Teacher
from reluplan.learning.distillation.worst_case import AscentSettings, worst_points
from reluplan.learning.settings import TrainingSettings
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.file import load_problem
from reluplan.problem.problem import Problem, Variable
from systems import PLANT, PLANT_NETWORK
from teachers import ACTIVATIONS, smooth_teacher, smooth_values

Array = NDArray[np.float64]
QUICK = ("--hidden", 6, "--epochs", 4, "--polish", 40, "--samples", 400)
NAMES = Names(("push", "pull", "height", "speed"), ("speed", "height"), ("height", "speed"))
VARIABLES = tuple(Variable(name, lower=-2.0, upper=2.0) for name in NAMES.inputs)


# Teachers


@pytest.mark.parametrize("evaluator", ["onnxruntime", "reference"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_teachers_of_every_kind_are_evaluated(
    activation: str, evaluator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if evaluator == "reference":
        monkeypatch.setattr(teacher_module, "find_spec", lambda _name: None)
    elif find_spec("onnxruntime") is None:
        pytest.skip("onnxruntime is not installed")
    points = np.random.default_rng(0).uniform(-3.0, 3.0, (20, 4))
    for batch, dtype, precision in (("N", np.float64, 1e-12), (1, np.float32, 1e-5)):
        file = smooth_teacher(tmp_path / "t.onnx", activation, 4, 2, batch=batch, dtype=dtype)
        np.testing.assert_allclose(Teacher(file, 4, 2)(points), smooth_values(activation, points, 2), atol=precision)


def save_graph(path: Path, nodes: list[onnx.NodeProto], inputs: dict[str, list[int | str]], outputs: list[str]) -> Path:
    """A graph of doubles with weights w (3, 3)."""
    graph = helper.make_graph(
        nodes,
        "teacher",
        [helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in outputs],
        [numpy_helper.from_array(np.arange(9.0).reshape(3, 3) / 9.0, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def test_inputs_and_outputs_are_put_one_after_the_other(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["x"], axis=1),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Tanh", ["h"], ["y"]),
    ]
    file = save_graph(tmp_path / "t.onnx", nodes, {"a": ["N", 1], "b": ["N", 2]}, ["y", "a"])
    points = np.random.default_rng(0).normal(size=(5, 3))
    expected = np.hstack([np.tanh(points @ np.arange(9.0).reshape(3, 3) / 9.0), points[:, :1]])
    np.testing.assert_allclose(Teacher(file, 3, 4)(points), expected, atol=1e-12)


def test_a_graph_that_mixes_the_rows_of_a_batch_is_evaluated_row_by_row(tmp_path: Path) -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["s"], axis=0), helper.make_node("MatMul", ["s", "w"], ["y"])]
    file = save_graph(tmp_path / "t.onnx", nodes, {"x": [1, 3]}, ["y"])
    found = Teacher(file, 3, 3)(np.random.default_rng(0).normal(size=(4, 3)))
    np.testing.assert_allclose(found, np.tile(np.arange(9.0).reshape(3, 3).sum(axis=0) / 9.0, (4, 1)))


def test_an_input_without_a_batch(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Sigmoid", ["h"], ["y"])]
    file = save_graph(tmp_path / "t.onnx", nodes, {"x": [3]}, ["y"])
    points = np.random.default_rng(0).normal(size=(4, 3))
    expected = 1.0 / (1.0 + np.exp(-points @ np.arange(9.0).reshape(3, 3) / 9.0))
    np.testing.assert_allclose(Teacher(file, 3, 3)(points), expected, atol=1e-12)


def not_a_number(folder: Path) -> Path:
    return save_graph(folder / "t.onnx", [helper.make_node("Log", ["x"], ["y"])], {"x": ["N", 3]}, ["y"])


def text_file(folder: Path) -> Path:
    return write(folder, "this is not a network", "t.onnx")


def torch_file(folder: Path) -> Path:
    return write(folder, "", "model.pt")


def four_at_a_time(folder: Path) -> Path:
    return save_graph(folder / "t.onnx", [helper.make_node("Tanh", ["x"], ["y"])], {"x": [4, 3]}, ["y"])


def too_wide(folder: Path) -> Path:
    return save_graph(folder / "t.onnx", [helper.make_node("Tanh", ["x"], ["y"])], {"x": ["N", 5]}, ["y"])


def too_many_outputs(folder: Path) -> Path:
    nodes = [helper.make_node("Concat", ["x", "x"], ["y"], axis=1)]
    return save_graph(folder / "t.onnx", nodes, {"x": ["N", 3]}, ["y"])


def unknown_operator(folder: Path) -> Path:
    node = helper.make_node("Mystery", ["x"], ["y"], domain="elsewhere")
    return save_graph(folder / "t.onnx", [node], {"x": ["N", 3]}, ["y"])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (not_a_number, "NaN or infinity for the inputs"),
        (text_file, "not an ONNX file"),
        (torch_file, "torch.onnx.export"),
        (four_at_a_time, "fixed batch of 4"),
        (too_wide, "the teacher has 5 inputs, but network.inputs of the problem lists 3"),
        (too_many_outputs, "the teacher has 6 outputs, but network.outputs of the problem lists 3"),
        (unknown_operator, "cannot be evaluated"),
        (lambda folder: folder / "nowhere.onnx", "cannot be read"),
    ],
)
def test_teachers_that_cannot_teach(make: Callable[[Path], Path], reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=reason):
        Teacher(make(tmp_path), 3, 3)(np.full((2, 3), -1.0))


def test_a_teacher_too_large_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = smooth_teacher(tmp_path / "t.onnx", "Tanh", 4, 2)
    monkeypatch.setattr(teacher_module, "LARGEST_FILE", 100)
    with pytest.raises(InputError, match="too large"):
        Teacher(file, 4, 2)


# Regions and the search for the worst


def test_points_of_a_box_reach_its_edges_and_whole_numbers_stay_whole() -> None:
    region = box_region([Variable("a", "integer", -1.0, 3.0), Variable("b", lower=0.0, upper=1.0)], "p")
    points = region.draw(2000, np.random.default_rng(0)).values
    assert set(points[:, 0]) == {-1.0, 0.0, 1.0, 2.0, 3.0}
    assert (points[:, 1] == 0.0).any()
    assert (points[:, 1] == 1.0).any()
    assert ((points[:, 1] > 0.0) & (points[:, 1] < 1.0)).mean() > 0.7


def test_points_around_data_stay_near_a_row_and_within_bounds() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 2))
    region = data_region([Variable("a"), Variable("b", lower=0.0)], rows, 0.1)
    drawn = region.draw(500, rng)
    near = np.abs(drawn.values[:, None, 0] - rows[None, :, 0]).min(axis=1)
    assert near.max() <= 0.1 * rows[:, 0].std() + 1e-12
    assert drawn.values[:, 1].min() >= 0.0
    assert (drawn.lower <= drawn.values).all()
    assert (drawn.values <= drawn.upper).all()


def test_a_box_without_bounds_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"'b' has no finite bounds.*--data"):
        box_region([Variable("a", lower=0.0, upper=1.0), Variable("b", lower=0.0)], "p.toml")


def test_the_ascent_finds_a_peak_that_samples_miss() -> None:
    peak = np.array([0.913, -0.402, 0.277])

    def error(points: Array) -> Array:
        return np.asarray(np.exp(-3.0 * np.abs(points - peak).sum(axis=1, keepdims=True)))

    region = Region(tuple(Variable(name, lower=-1.0, upper=1.0) for name in "abc"))
    rng = np.random.default_rng(0)
    points = region.draw(500, rng)
    sizes = error(points.values)[:, 0]
    found, heights = worst_points(error, points, sizes, 0, region, rng, AscentSettings())
    assert sizes.max() < 0.8
    assert heights[0] > 0.99
    np.testing.assert_allclose(found.values[0], peak, atol=0.01)
    assert (np.diff(heights) <= 0.0).all()


# Students


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_student_is_like_its_teacher_and_its_worst_error_is_no_less_than_that_of_samples(
    activation: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    teacher = Teacher(smooth_teacher(tmp_path / "t.onnx", activation, 4, 2), 4, 2)
    region = box_region(VARIABLES, "p")
    training = TrainingSettings(hidden=(12,), epochs=8, polish=100)
    result = distil(teacher, NAMES, region, training, DistilSettings(samples=1500, judging=1500))
    points = np.random.default_rng(99).uniform(-2.0, 2.0, (1000, 4))
    errors = np.abs(result.network.forward(points) - teacher(points))
    linear = np.hstack([points, np.ones((1000, 1))])
    rest = teacher(points) - linear @ np.linalg.lstsq(linear, teacher(points), rcond=None)[0]
    for output, found in enumerate(result.report.outputs):
        assert found.worst >= errors[:, output].max()
        assert found.worst >= found.sampled_worst >= found.percentile_99 >= found.mean
        assert found.mean < 0.5 * np.abs(rest[:, output]).mean()
        at = np.array([[found.worst_at[name] for name in NAMES.inputs]])
        assert abs(result.network.forward(at)[0, output] - teacher(at)[0, output]) == pytest.approx(found.worst)


@pytest.mark.parametrize("predicts", ["next", "delta"])
def test_samples_become_transitions_whose_targets_are_the_teachers(predicts: str) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 3))
    targets = rng.normal(size=(40, 2))
    names = Names(("push", "speed", "slack"), ("height", "speed"), ("height", "speed"))
    found = sampled_transitions(names, points, targets, predicts)  # type: ignore[arg-type]
    assert (found.state_names, found.action_names) == (("speed", "height"), ("push", "slack"))
    np.testing.assert_array_equal(found.states[:, 0], points[:, 1])
    np.testing.assert_array_equal(found.actions, points[:, [0, 2]])
    made = found.next_states[:, ::-1] - (found.states[:, ::-1] if predicts == "delta" else 0.0)
    np.testing.assert_allclose(made, targets, atol=1e-12)


def test_rollouts_of_a_student_that_is_its_teacher_stay_together(tmp_path: Path) -> None:
    PLANT_NETWORK.save(tmp_path / "network.onnx")
    problem = load_problem(write(tmp_path, PLANT.replace("horizon = 3", "horizon = 30")))
    teacher = Teacher(tmp_path / "network.onnx", 4, 2)
    variables = {variable.name: variable for variable in problem.input_variables}
    region = box_region([variables[name] for name in NAMES.inputs], "p")
    rng = np.random.default_rng(0)
    found = compare_rollouts(problem, teacher, NAMES, "next", region, rng, DistilSettings())
    assert [entry.steps for entry in found] == [1, 10, 30]
    assert max(max(entry.worst) for entry in found) < 1e-9
    other = load_problem(tmp_path / "problem.toml", random_network(rng, 4, [3], 2))
    apart = compare_rollouts(other, teacher, NAMES, "next", region, rng, DistilSettings())
    assert apart[0].rmse[0] > 0.01


def test_a_slow_teacher_is_asked_about_as_many_points_as_it_has_time_for(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    teacher = Teacher(smooth_teacher(tmp_path / "t.onnx", "Tanh", 4, 2), 4, 2)
    training = TrainingSettings(hidden=(2,), epochs=1, polish=0)
    settings = DistilSettings(samples=50_000, judging=600)
    with clock.using(clock.WorkClock()):
        found = distil(teacher, NAMES, box_region(VARIABLES, "p"), training, settings, deadline=0.2).report
    assert 500 <= found.samples < 50_000
    assert found.judged >= 500
    assert any("take more units" in note for note in found.notes), "two units are too few"


# The command


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """A problem whose network is a smooth one."""
    smooth_teacher(tmp_path / "smooth.onnx", "Tanh", 4, 2, dtype=np.float32, batch=1)
    return write(tmp_path, PLANT.replace("network.onnx", "smooth.onnx").replace("= 3\n", "= 2\n", 1))


def test_from_a_smooth_network_to_a_plan(command: Command, problem: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    before = (tmp_path / "smooth.onnx").read_bytes()
    done = command("distil", problem, "--teacher", tmp_path / "smooth.onnx", *QUICK)
    assert done.code == 0, done.err
    student = tmp_path / "smooth-relu.onnx"
    assert (tmp_path / "smooth.onnx").read_bytes() == before
    assert ReluNetwork.load(student).relu_count <= 6
    assert "change network.file in" in done.out
    assert '"smooth-relu.onnx"' in done.out
    assert "height =" in " ".join(done.out.split())
    report = json.loads(student.with_suffix(".json").read_text())
    assert [output["name"] for output in report["outputs"]] == ["speed", "height"]
    assert report["training"]["predicts"] == "next"
    problem.write_text(problem.read_text().replace("smooth.onnx", "smooth-relu.onnx"))
    assert Problem.load(problem).dynamics.relu_count == report["relus"]
    assert command("plan", problem, "--out", tmp_path / "run").code == 0
    assert not list(tmp_path.glob("*.tmp"))


def test_files_go_where_they_are_sent_and_equal_seeds_give_equal_networks(
    command: Command, problem: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    prints = []
    for name in ("a", "b"):
        line = ("--out", tmp_path / name / "n.onnx", "--report", tmp_path / name / "r.json", "--json", "--seed", 3)
        done = command("distil", problem, "--teacher", tmp_path / "smooth.onnx", *QUICK, *line)
        assert done.code == 0, done.err
        printed = json.loads(done.out)
        assert printed["network"] == str(tmp_path / name / "n.onnx")
        assert printed["outputs"] == json.loads((tmp_path / name / "r.json").read_text())["outputs"]
        prints.append(printed["fingerprint"])
    assert prints[0] == prints[1]


def test_learning_around_data_needs_no_bounds(command: Command, problem: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    problem.write_text(problem.read_text().replace('[state."speed"]\nbounds = [-5, 5]', '[state."speed"]'))
    refused = command("distil", problem, "--teacher", tmp_path / "smooth.onnx", *QUICK)
    assert refused.code == 4
    assert "'speed' has no finite bounds" in refused.err
    rng = np.random.default_rng(0)
    states = rng.normal(size=(60, 2))
    actions = np.column_stack([rng.uniform(-1.0, 1.0, 60), rng.integers(-1, 2, 60)])
    order = np.arange(60)
    data = Transitions(("height", "speed"), ("push", "pull"), order, np.zeros(60, int), states, actions, states)
    write_transitions(data, tmp_path / "data.csv")
    line = ("--data", tmp_path / "data.csv", "--json")
    done = command("distil", problem, "--teacher", tmp_path / "smooth.onnx", *QUICK, *line)
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["region"] == "data"
    assert abs(report["outputs"][0]["worst_at"]["speed"]) < 5.0


def test_a_teacher_that_is_piecewise_linear_needs_no_student(command: Command, problem: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    PLANT_NETWORK.save(tmp_path / "relu.onnx")
    done = command("distil", problem, "--teacher", tmp_path / "relu.onnx", *QUICK, "--out", tmp_path / "n.onnx")
    assert done.code == 0, done.err
    assert "can be planned with as it is" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--teacher", "{folder}/nowhere.onnx"], "cannot be read"),
        (["--teacher", "{folder}/smooth.onnx", "--out", "{folder}/smooth.onnx"], "named twice"),
        (["--teacher", "{folder}/smooth.onnx", "--out", "{folder}/n.txt"], "let its name end in .onnx"),
        (["--teacher", "{folder}/smooth.onnx", "--samples", "5"], "must be at least 100"),
        (["--teacher", "{folder}/smooth.onnx", "--hidden", "0"], "hidden"),
        (["--teacher", "{folder}/smooth.onnx", "--data", "{folder}/nowhere.csv"], "nowhere.csv"),
        ([], "--teacher"),
    ],
)
def test_bad_input_has_exit_code_4_and_writes_nothing(
    command: Command, problem: Path, arguments: list[str], reason: str
) -> None:
    before = sorted(problem.parent.iterdir())
    done = command("distil", problem, *(text.format(folder=problem.parent) for text in arguments))
    assert done.code == 4
    assert reason in done.err
    assert done.err.count("\n") == 1
    assert sorted(problem.parent.iterdir()) == before
