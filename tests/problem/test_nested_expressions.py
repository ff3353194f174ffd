"""Expressions inside each other: |x| reads x twice, and yet no stage's work doubles with each `abs`.

Work is counted (maxima, units, rows, columns, evaluations), never timed.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from reluplan.optimisation.model import ModelBuilder
from reluplan.optimisation.piecewise_rows import PiecewiseEncoder, Side
from reluplan.planning.planner import build_model
from reluplan.problem.expression import DEEPEST, Scope, parse_constraints, parse_expression
from reluplan.problem.piecewise import Array, MaxTerm, PiecewiseLinear
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import simulate
from reluplan.proofs.grid.model import grid_model
from reluplan.search.decisions import Decisions
from reluplan.search.linearise import linearise
from reluplan.search.local_model import LocalOptions, local_model
from reluplan.search.slopes import largest_slope, value_and_slope

SCOPE = Scope({"x": 0, "y": 1}, {}, 2)
GRID = np.stack(np.meshgrid(np.linspace(-9.0, 9.0, 37), np.linspace(-2.0, 2.0, 5)), axis=-1).reshape(-1, 2)


def text(depth: int, core: str = "x") -> str:
    for level in range(depth):
        core = f"abs({core} - {1 + level % 3})"
    return core


def values(depth: int, core: Array) -> Array:
    for level in range(depth):
        core = np.abs(core - (1 + level % 3))
    return core


def nested(depth: int, core: str = "x") -> PiecewiseLinear:
    return parse_expression(text(depth, core), SCOPE, "reward")


@pytest.mark.parametrize("depth", [1, 2, 3, 10, DEEPEST])
def test_the_size_is_linear_in_the_text(depth: int) -> None:
    maxima = nested(depth).maxima()
    assert len(maxima) == depth
    assert sum(len(term.arguments) for term in maxima) <= 2 * depth + 1
    assert sum(len(argument.terms) for term in maxima for argument in term.arguments) <= 2 * depth


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("abs({} + abs(y))", 2), ("abs(min({}, y) - 1)", 2), ("abs(abs({}) + max(y, -3*{}, 1))", 4)],
    ids=["sums", "minima", "twice in the text"],
)
def test_every_way_to_nest_is_linear(pattern: str, count: int) -> None:
    """Two further levels of the last pattern hold four times the text, and that is all."""
    depth = 3 if pattern.count("{}") > 1 else 20
    core = "x"
    for _ in range(depth):
        core = pattern.replace("{}", core)
    function = parse_expression(core, SCOPE, "reward")
    assert len(function.maxima()) <= count * (2**depth if pattern.count("{}") > 1 else depth)


@pytest.mark.parametrize("depth", [1, 2, 3, 10, DEEPEST])
def test_values_slopes_and_bounds(depth: int) -> None:
    function = nested(depth)
    expected = values(depth, GRID[:, 0])
    np.testing.assert_allclose(function.evaluate(GRID), expected, atol=1e-12)
    value, slope = value_and_slope(function, GRID)
    np.testing.assert_allclose(value, expected, atol=1e-12)
    np.testing.assert_array_equal(np.abs(slope), np.tile([1.0, 0.0], (len(GRID), 1)))
    assert largest_slope(function, GRID.min(axis=0), GRID.max(axis=0)) == 1.0
    low, high = function.bounds(GRID.min(axis=0), GRID.max(axis=0))
    assert low <= expected.min()
    assert expected.max() <= high
    if depth > 2:
        assert low == 0.0, "an absolute value is not negative, however deep its argument"
    assert function.support().tolist() == [True, False]


def test_sums_inside_absolute_values_keep_their_meaning() -> None:
    function = parse_expression("abs(abs(abs(x) + abs(y) - 3) - 2*abs(x - y) + 1)", SCOPE, "reward")
    x, y = GRID.T
    expected = np.abs(np.abs(np.abs(x) + np.abs(y) - 3) - 2 * np.abs(x - y) + 1)
    np.testing.assert_allclose(function.evaluate(GRID), expected, atol=1e-12)


def test_each_maximum_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[MaxTerm] = []
    evaluate = MaxTerm.evaluate

    def counted(term: MaxTerm, *arguments: object) -> Array:
        calls.append(term)
        return evaluate(term, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(MaxTerm, "evaluate", counted)
    nested(40).evaluate(GRID)
    assert len(calls) == 40


def test_it_stays_shared_when_another_process_gets_it() -> None:
    function = nested(DEEPEST)
    copy: PiecewiseLinear = pickle.loads(pickle.dumps(function))
    assert len(copy.maxima()) == DEEPEST
    assert copy.digest() == function.digest()
    assert nested(DEEPEST - 1).digest() != function.digest()


@pytest.mark.parametrize("side", list(Side))
def test_the_model_is_linear_in_the_text(side: Side) -> None:
    """One column and its rows for each maximum and side, in place of 2^depth."""
    builder = ModelBuilder()
    columns = builder.add_columns(np.full((3, 2), -9.0), np.full((3, 2), 9.0))
    encoder = PiecewiseEncoder(builder, columns, np.full((3, 2), -9.0), np.full((3, 2), 9.0))
    encoder.encode(nested(40), side, "reward")
    model = builder.build()
    assert len(encoder.terms) <= 2 * 40
    assert model.column_count <= 6 + 3 * 40 * 2 * 3
    assert model.row_count <= 3 * 40 * 2 * 5


def test_expressions_that_are_not_nested_share_nothing() -> None:
    """Two spellings of one maximum stay two, and a chain's middle is encoded for each of its sides, as ever."""
    assert len(parse_expression("abs(x) - abs(x)", SCOPE, "reward").maxima()) == 2
    builder = ModelBuilder()
    columns = builder.add_columns(np.full((1, 2), -9.0), np.full((1, 2), 9.0))
    encoder = PiecewiseEncoder(builder, columns, np.full((1, 2), -9.0), np.full((1, 2), 9.0))
    for constraint in parse_constraints("1 <= abs(x) <= 2", SCOPE, "constraints"):
        encoder.require(constraint, "constraint")
    assert len(encoder.terms) == 2


PROBLEM = """
horizon = 2
reward = "REWARD"
constraints = ["REWARD <= 9 + pump"]
[state.level]
bounds = [0, 10]
initial = 2
[action.pump]
bounds = [0, 3]
[transition]
level = "TRANSITION + pump"
"""


@pytest.fixture
def deep(tmp_path: Path) -> Problem:
    file = tmp_path / "deep.toml"
    file.write_text(
        PROBLEM.replace("REWARD", text(40, "level'")).replace("TRANSITION", text(20, "level")), encoding="utf-8"
    )
    return Problem.load(file)


def test_dynamics_have_one_unit_for_each_abs(deep: Problem) -> None:
    assert deep.dynamics.relu_count == 21, "the innermost two together need three"
    states = np.linspace(0.0, 10.0, 50)
    inputs = np.stack([states, np.ones(50)], axis=-1)
    np.testing.assert_allclose(deep.dynamics.forward(inputs)[:, 0], values(20, states) + 1.0, atol=1e-12)


def test_models_of_all_stages_stay_small(deep: Problem) -> None:
    plan = build_model(deep)
    assert plan.model.column_count < 2000
    trajectory = simulate(deep, np.array([2.0]), np.ones((2, 1)), np.zeros((3, 0)))
    x = plan.assignment(trajectory)
    np.testing.assert_allclose(plan.model.objective @ x + plan.model.offset, trajectory.total_reward, atol=1e-9)
    assert grid_model(deep).network.relu_count <= 21 + 2 * 41
    radius = Decisions(np.ones((1, 1)), np.ones((1, 2, 1)), np.ones((1, 3, 0)))
    local = local_model(deep, trajectory, linearise(deep, trajectory), LocalOptions(radius, 1.0, 0.0))
    assert local.model.matrix.nnz < 3000
