"""Problem files: what is read, and for every mistake an error that names the file, the key and the value."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_network
from reluplan.errors import InputError
from reluplan.problem.problem import Kind, Problem, Variable
from reluplan.problem.writer import ProblemText

COMPLETE = """
name = "two tanks"
horizon = 7
reward = "-abs(upper' - target) - 0.5*pump + slack'"
constraints = ["pump <= upper + lower", "0 <= slack <= upper"]
goal = ["upper + slack >= 2"]
initial = ["upper + lower <= 9"]

[constants]
target = 5
rain = 0.25

[network]
file = "network.onnx"
inputs = ["pump", "upper", "lower"]
outputs = ["upper"]
predicts = "delta"

[state."upper"]
bounds = [0, 10]
initial = 4.0

[state."lower"]
bounds = [0, inf]
initial = [2, 3]

[state."open"]
kind = "boolean"
initial = true

[action."pump"]
kind = "integer"
bounds = [-1.5, 3.5]

[auxiliary."slack"]
bounds = [0, 10]

[transition]
"lower" = "lower + rain"
"open" = "min(1, max(0, pump))"
"""
NETWORK = random_network(np.random.default_rng(3), 3, [4], 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    NETWORK.save(tmp_path / "network.onnx")
    return tmp_path


def load(folder: Path, text: str) -> Problem:
    path = folder / "plant.toml"
    path.write_text(text, encoding="utf-8")
    return Problem.load(path)


def changed(old: str, new: str) -> str:
    assert old in COMPLETE
    return COMPLETE.replace(old, new, 1)


def test_everything_is_read(folder: Path) -> None:
    problem = load(folder, COMPLETE)
    assert (problem.name, problem.horizon, problem.source) == ("two tanks", 7, str(folder / "plant.toml"))
    assert problem.states == (
        Variable("upper", "continuous", 0.0, 10.0),
        Variable("lower", "continuous", 0.0, math.inf),
        Variable("open", "boolean", 0.0, 1.0),
    )
    assert problem.actions == (Variable("pump", "integer", -1.0, 3.0),)
    assert problem.auxiliaries == (Variable("slack", "continuous", 0.0, 10.0),)
    assert problem.initial_lower.tolist() == [4.0, 2.0, 1.0]
    assert problem.initial_upper.tolist() == [4.0, 3.0, 1.0]
    # w = (upper, lower, open, pump, slack, upper', lower', open', slack')
    w = np.array([4.0, 2.5, 1.0, 3.0, 6.0, 7.0, 2.75, 1.0, 0.5])
    assert problem.reward.evaluate(w) == -abs(7.0 - 5.0) - 0.5 * 3.0 + 0.5
    assert [float(c.function.evaluate(w)) for c in problem.constraints] == [3.0 - 6.5, 0.0 - 6.0, 6.0 - 4.0]
    assert [float(c.function.evaluate(w)) for c in problem.goal] == [2.0 - 10.0]
    assert [float(c.function.evaluate(w)) for c in problem.initial_constraints] == [6.5 - 9.0]
    inputs = np.array([4.0, 2.5, 1.0, 3.0, 6.0])
    delta = float(NETWORK.forward([3.0, 4.0, 2.5])[0])
    np.testing.assert_allclose(problem.dynamics.forward(inputs), [4.0 + delta, 2.75, 1.0], rtol=1e-12)


def test_names_of_any_kind_work_in_every_place(tmp_path: Path) -> None:
    problem = load(
        tmp_path,
        """
horizon = 2
reward = "-abs(`Füllstand 1 (m³)`' - 5) - flow[t1,2]"
constraints = ["flow[t1,2] <= `max`"]
[state."Füllstand 1 (m³)"]
initial = 1
[state."max"]
initial = 2
[action."flow[t1,2]"]
bounds = [0, 1]
[transition]
"Füllstand 1 (m³)" = "`Füllstand 1 (m³)` + flow[t1,2]"
"max" = "`max`"
""",
    )
    assert problem.name == "plant"
    np.testing.assert_array_equal(problem.next_states(np.array([1.0, 2.0, 0.5])), [1.5, 2.0])
    assert problem.constraints[0].function.evaluate(np.array([1.0, 2.0, 0.5, 1.5, 2.0])) == -1.5


def test_a_byte_order_mark_does_not_matter(folder: Path) -> None:
    assert load(folder, "\ufeff" + COMPLETE).horizon == 7


def test_an_absent_initial_value_means_the_bounds_of_the_state(folder: Path) -> None:
    problem = load(folder, changed("initial = [2, 3]", "").replace("initial = 4.0", "").replace("initial = true", ""))
    assert problem.initial_lower.tolist() == [0.0, 0.0, 0.0]
    assert problem.initial_upper.tolist() == [10.0, math.inf, 1.0]


sides = st.floats(-20, 20) | st.integers(-4, 4).map(float) | st.sampled_from([math.inf, -math.inf])
intervals = st.tuples(sides, sides).map(lambda pair: (min(pair), max(pair))) | st.tuples(sides, sides)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["continuous", "integer", "boolean"]), intervals, intervals)
def test_boxes_hold_exactly_the_values_of_the_kind(
    tmp_path_factory: pytest.TempPathFactory, kind: Kind, bounds: tuple[float, float], initial: tuple[float, float]
) -> None:
    """Bounds [low, high] and initial [first, last] allow the values inside; a file without any is refused."""
    (low, high), (first, last) = bounds, initial
    text = ProblemText(
        "box", 1, "x", (Variable("x", kind, low, high),), (Variable("a"),),
        initial_values={"x": (first, last)}, transitions={"x": "x"},
    ).to_toml()  # fmt: skip
    try:
        problem = load(tmp_path_factory.getbasetemp(), text)
    except InputError:
        problem = None
    # A variable without any finite bound is written without bounds, so it may take any value.
    endless = math.isinf(low) and math.isinf(high)
    for value in {
        0.0,
        1.0,
        0.5,
        *map(float, range(-21, 22)),
        *(v for v in (low, high, first, last) if math.isfinite(v)),
    }:
        of_kind = value in (0.0, 1.0) if kind == "boolean" else kind == "continuous" or value == round(value)
        allowed = of_kind and (endless or low <= value <= high)
        if problem is None:
            assert not (allowed and first <= value <= last)
            continue
        (state,) = problem.states
        assert of_kind is False or allowed == (state.lower <= value <= state.upper)
        inside = problem.initial_lower[0] <= value <= problem.initial_upper[0]
        assert of_kind is False or inside == (allowed and first <= value <= last)


MISTAKES = [
    # what to change, into what, and what the message must say
    ("horizon = 7", "", ["the key 'horizon' is missing"]),
    ("horizon = 7", "horizon = 0", ["horizon", "at least 1", "0"]),
    ("horizon = 7", "horizon = -3", ["horizon", "at least 1", "-3"]),
    ("horizon = 7", "horizon = 7.5", ["horizon", "whole number", "7.5"]),
    ("horizon = 7", "horizon = true", ["horizon", "whole number", "True"]),
    ("horizon = 7", 'horizon = "7"', ["horizon", "whole number", "'7'"]),
    ("horizon = 7", "horizont = 7", ["unknown key 'horizont'", "did you mean 'horizon'?"]),
    ("horizon = 7", "horizon = 7\nzzz = 1", ["unknown key 'zzz'", "known keys: action, auxiliary"]),
    ("horizon = 7", "horizon = [", ["not valid TOML", "line"]),
    ("horizon = 7", f"horizon = {'7' * 5000}", ["not valid TOML"]),
    ('name = "two tanks"', "name = 5", ["name", "expected a text", "5"]),
    ('reward = "-abs', 'reward = "*abs', ["reward: unexpected '*'", "column 1"]),
    ("reward =", "#", ["the key 'reward' is missing"]),
    ("+ slack'\"", "+ pump'\"", ["reward", "'pump'' may not be used here", "actions have no next value"]),
    ("+ slack'\"", '+ slak"', ["reward", "unknown variable 'slak'", "did you mean 'slack'?"]),
    ('"pump <= upper + lower"', "3", ["constraints[0]", "expected a text", "3"]),
    ('"pump <= upper + lower", "0 <= slack <= upper"', '"pump < 3"', ["constraints[0]", "write <=", "column 6"]),
    ('"pump <= upper + lower", ', '"1 + 1 <= target - 4", ', ["constraints[0]", "reads no variable", "never true"]),
    ('"pump <= upper + lower", ', '"target == rain", ', ["constraints[0]", "reads no variable", "never true"]),
    ('["pump <= upper + lower", "0 <= slack <= upper"]', '"x <= 3"', ["constraints", "expected a list"]),
    ('goal = ["upper', 'goal = ["pump', ["goal[0]", "'pump' may not be used here", "the final state only"]),
    ('initial = ["upper', 'initial = ["upper\'', ["initial[0]", "'upper'' may not", "the first state only"]),
    ("target = 5", 'target = "5"', ["constants.target", "expected a number"]),
    ("target = 5", "target = inf", ["constants.target", "finite"]),
    ("target = 5", "target = nan", ["constants.target", "expected a number"]),
    ("target = 5", "target = 5\nupper = 3", ["the name 'upper' is declared twice"]),
    ("[constants]", "[constant]", ["unknown key 'constant'", "did you mean 'constants'?"]),
    ('file = "network.onnx"', "", ["network: the key 'file' is missing"]),
    ('file = "network.onnx"', 'file = "absent.onnx"', ["network.file", "no such file", "absent.onnx"]),
    ('file = "network.onnx"', 'file = "."', ["network.file", "no such file"]),
    ('file = "network.onnx"', 'file = "plant.toml"', ["plant.toml", "not an ONNX file"]),
    ('file = "network.onnx"', 'files = "network.onnx"', ["network: unknown key 'files'", "did you mean 'file'?"]),
    ('"pump", "upper", "lower"]', '"pump", "upper"]', ["network.inputs", "2 names", "'network.onnx' has 3 inputs"]),
    ('"pump", "upper", "lower"]', '"pump", "uper", "lower"]', ["network.inputs", "'uper'", "did you mean 'upper'?"]),
    ('"pump", "upper", "lower"]', '"pump", "upper", "upper"]', ["network.inputs", "listed twice"]),
    ('"pump", "upper", "lower"]', '["pump"], "upper", "lower"]', ["network.inputs", "unknown name ['pump']"]),
    ('outputs = ["upper"]', 'outputs = ["upper", "open"]', ["network.outputs", "2 names", "has 1 outputs"]),
    ('outputs = ["upper"]', 'outputs = ["pump"]', ["network.outputs", "unknown name 'pump'"]),
    ('outputs = ["upper"]', 'outputs = ["open"]', ["state 'upper' has no transition"]),
    ('"lower" = "lower + rain"', '"upper" = "1"', ["state 'upper' is both a network output and has a known"]),
    ('predicts = "delta"', 'predicts = "change"', ["network.predicts", '"next" or "delta"', "'change'"]),
    ("bounds = [0, 10]\ninitial = 4.0", "bounds = [10, 0]", ['state."upper".bounds', "the box is empty", "10", "0"]),
    ("bounds = [0, 10]\ninitial = 4.0", "bounds = [inf, inf]", ['state."upper".bounds', "the box is empty"]),
    ("bounds = [0, 10]\ninitial = 4.0", "bounds = [0]", ['state."upper".bounds', "two numbers", "[0]"]),
    ("bounds = [0, 10]\ninitial = 4.0", 'bounds = ["a", 1]', ['state."upper".bounds', "a number", "'a'"]),
    ("bounds = [0, 10]\ninitial = 4.0", "bounds = [0, nan]", ['state."upper".bounds', "a number", "nan"]),
    ("bounds = [0, 10]", f"bounds = [0, 1{'0' * 400}]", ['state."upper".bounds', "too large"]),
    ("bounds = [-1.5, 3.5]", "bounds = [0.2, 0.8]", ['action."pump".bounds', "[0.2, 0.8] contains no integer value"]),
    ("initial = 4.0", "initial = 11", ['state."upper".initial', "11 lies outside the bounds [0, 10]"]),
    ("initial = 4.0", "initial = [-2, -1]", ['state."upper".initial', "[-2, -1] lies outside the bounds [0, 10]"]),
    ("initial = 4.0", "initial = true", ['state."upper".initial', "expected a number, got True"]),
    ("initial = [2, 3]", "initial = inf", ['state."lower".initial', "finite"]),
    ("initial = true", "initial = 0.5", ['state."open".initial', "0.5 contains no boolean value"]),
    ("initial = true", "initial = 2", ['state."open".initial', "2 lies outside the bounds [0, 1]"]),
    ('kind = "integer"', 'kind = "int"', ['action."pump"', "must be one of continuous, integer, boolean", "'int'"]),
    ('kind = "integer"', "initial = 3", ['action."pump": unknown key \'initial\'']),
    ('[action."pump"]', '[action."upper"]', ["the name 'upper' is declared twice"]),
    ('[action."pump"]', '[actions."pump"]', ["unknown key 'actions'", "did you mean 'action'?"]),
    ('[auxiliary."slack"]', '[auxiliary."sl\'ack"]', ["sl'ack", "quote"]),
    ('[auxiliary."slack"]', '[auxiliary." slack"]', ["' slack'", "spaces that cannot be seen"]),
    ('[auxiliary."slack"]', '[auxiliary.""]', ["''", "empty"]),
    ('[auxiliary."slack"]', '[auxiliary."reward"]', ["'reward'", "plan.csv has a column of that name"]),
    ('[auxiliary."slack"]\nbounds = [0, 10]', "[auxiliary]\nslack = [0, 10]", ['."slack"', "expected a table"]),
    ('"lower" = "lower + rain"', "", ["state 'lower' has no transition"]),
    ('"lower" = "lower + rain"', '"lower" = "lower\' + 1"', ['transition."lower"', "a cycle: lower' reads lower'"]),
    ('"lower" = "lower + rain"', '"lower" = "slack\' + 1"', ["'slack'' may not be used here", "which is free"]),
    ('"lower" = "lower + rain"', '"lower" = 3', ['transition."lower"', "expected an expression, got 3"]),
    ('"lower" = "lower + rain"', '"lowr" = "3"', ['transition."lowr"', "not a declared state", "mean 'lower'?"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES)
def test_mistakes_are_named(folder: Path, old: str, new: str, said: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        load(folder, changed(old, new))
    message = str(caught.value)
    assert message.startswith(str(folder)), "the message names the file"
    for part in said:
        assert part in message


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such problem file"):
        Problem.load(tmp_path / "absent.toml")
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}: cannot be read (Is a directory)")):
        Problem.load(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="not a text file in UTF-8"):
        Problem.load(tmp_path / "binary.toml")
    with pytest.raises(InputError, match="no state is declared"):
        load(tmp_path, "")
    with pytest.raises(InputError, match="no action is declared"):
        load(tmp_path, 'horizon = 1\nreward = "x"\n[state."x"]\ninitial = 1\n')


def test_a_constant_row_that_holds_is_no_mistake(folder: Path) -> None:
    problem = load(folder, changed('"pump <= upper + lower", ', '"rain <= target", "0.1 + 0.2 == 0.3", '))
    assert len(problem.constraints) == 4
