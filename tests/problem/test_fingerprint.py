"""The fingerprint of a problem: every field counts, found by walking them, so that one added later is tested too."""

from __future__ import annotations

import copy
import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from random_problems import random_network
from reluplan.errors import InputError
from reluplan.potentials.potential_set import PotentialSet
from reluplan.problem.expression import Constraint
from reluplan.problem.fingerprint import fingerprint
from reluplan.problem.lags import Lag
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import NOT_IN_FINGERPRINT, Problem, Variable
from reluplan.problem.series import Series
from reluplan.problem.soft_rows import SoftRow

SILENT = {
    ("Problem", "name"),
    ("Problem", "source"),
    ("Constraint", "text"),
    ("Problem", "final_reward"),
    ("Problem", "discount"),
    ("Problem", "soft"),
    ("Problem", "lags"),
    ("Series", "name"),
    ("Series", "place"),
}
"""What changes no step at all; the other fields outside the fingerprint are compared by `require_fit`."""

Path = tuple[tuple[str, str], ...]
"""The (class, field) pairs that lead to a value."""


def full_problem() -> Problem:
    """A problem with something in every field, tuples of two where there may be several."""
    width = 11  # s0 s1 a x p q, then the next s0 s1 x p q
    rng = np.random.default_rng(5)

    def function() -> PiecewiseLinear:
        pieces = [PiecewiseLinear(rng.normal(size=width), float(rng.normal())) for _ in range(4)]
        kinks = [PiecewiseLinear.maximum(pieces[:2]), PiecewiseLinear.minimum(pieces[2:])]
        price, other = PiecewiseLinear.variable(4, width), PiecewiseLinear.variable(5, width)
        products = pieces[1].times(price) * 2.0 + pieces[2].times(other, divides=True)
        return pieces[0] + kinks[0] * 2.0 + kinks[1] + products

    def rows(name: str) -> tuple[Constraint, ...]:
        return Constraint(function(), False, f"{name}1"), Constraint(function(), True, f"{name}2")

    return Problem(
        name="full",
        horizon=3,
        states=(Variable("s0", "continuous", -4.0, 4.0), Variable("s1", "integer", -2.0, 2.0)),
        actions=(Variable("a", "boolean", 0.0, 1.0),),
        auxiliaries=(
            Variable("x", "continuous", -1.0, 3.0),
            *(Variable(name, "continuous", 0.5, 5.0) for name in "pq"),
        ),
        initial_lower=np.array([-1.0, 0.0]),
        initial_upper=np.array([1.0, 0.0]),
        dynamics=random_network(rng, 6, [3, 2], 2),
        reward=function(),
        constraints=rows("c"),
        initial_constraints=rows("i"),
        goal=rows("g"),
        final_reward=function(),
        discount=0.9,
        source="full.toml",
        series=(
            Series("p", np.array([1.0, 2.0, 4.0]), True, "p.csv"),
            Series("q", np.array([2.0, 1.0, 0.5, 3.0, 5.0])),
        ),
        first_step=1,
        soft=(SoftRow(rows("s")[0], 2.0), SoftRow(rows("t")[0], 3.0)),
        lags=(Lag("s0", 1), Lag("a", 1)),
    )


def changes(value: Any, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Values that differ from the given one in one place, for every place there is."""
    match value:
        case bool():
            yield path, not value
        case int() | float():
            yield path, value + 1
            yield path, value - 1
        case str():
            yield path, value + "x"
        case np.ndarray():
            for at in np.ndindex(value.shape):
                for step in (1.0, -1.0):
                    moved = value.copy()
                    moved[at] += step
                    yield path, moved
        case tuple():
            yield path, (*value, *(value[:1] or (0.0,)))
            if value:
                yield path, value[:-1]
            if len(value) > 1:
                yield path, value[::-1]
            for place, part in enumerate(value):
                for deeper, changed in changes(part, path):
                    yield deeper, (*value[:place], changed, *value[place + 1 :])
        case _ if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                here = (*path, (type(value).__name__, field.name))
                for deeper, part in changes(getattr(value, field.name), here):
                    whole = copy.copy(value)
                    object.__setattr__(whole, field.name, part)  # not the constructor, which refuses some of them
                    yield deeper, whole
        case _:
            raise AssertionError(f"a field of type {type(value).__name__} at {path}: say here how to change it")


def fits(known: PotentialSet, problem: Problem) -> bool:
    try:
        known.require_fit(problem)
    except InputError:
        return False
    return True


def test_every_change_of_a_problem_is_noticed() -> None:
    problem = full_problem()
    box = problem.initial_lower, problem.initial_upper
    known = PotentialSet((), problem.fingerprint(), *box, problem.horizon)
    assert fits(known, copy.deepcopy(problem))
    noticed: dict[tuple[str, str], list[bool]] = {}
    for path, changed in changes(problem):
        assert isinstance(changed, Problem)
        place = next((step for step in path if step in SILENT), path[-1])
        noticed.setdefault(place, []).append(not fits(known, changed))
    assert {name for kind, name in noticed if kind == "Problem"} >= {"horizon", "initial_lower", "initial_upper"}
    for place, reactions in noticed.items():
        if place in SILENT:
            assert not any(reactions), place
        elif place in NOT_IN_FINGERPRINT:
            assert any(reactions), place
            assert not all(reactions), place  # a shorter horizon, a smaller box
        else:
            assert all(reactions), place
    top_level = {field.name for field in dataclasses.fields(Problem)}
    assert {path[0][1] for path, _ in changes(problem)} == top_level


def test_what_is_left_out_exists_and_has_a_reason() -> None:
    kinds = {kind.__name__: kind for kind in (Problem, Variable, Constraint, Series)}
    for (kind, name), reason in NOT_IN_FINGERPRINT.items():
        assert name in {field.name for field in dataclasses.fields(kinds[kind])}
        assert reason


def test_a_row_that_moves_elsewhere_is_noticed() -> None:
    """A row of the goal is no constraint, though the rows one after the other are the same."""
    problem = full_problem()
    first, second = problem.constraints
    moved = dataclasses.replace(problem, constraints=(first,), goal=(second, *problem.goal))
    assert moved.fingerprint() != problem.fingerprint()
    initial = dataclasses.replace(problem, initial_constraints=())
    assert initial.fingerprint() != problem.fingerprint()


def test_a_field_that_is_added_later_counts() -> None:
    later = dataclasses.make_dataclass("Problem", [("risk", float, 1.0)], bases=(Problem,), frozen=True, eq=False)
    fields = {field.name: getattr(full_problem(), field.name) for field in dataclasses.fields(Problem)}
    assert later(**fields).fingerprint() == later(**fields).fingerprint()
    assert later(**fields).fingerprint() != later(**fields, risk=0.9).fingerprint()
    unknown = dataclasses.make_dataclass("Problem", [("rule", object, None)], bases=(Problem,), frozen=True, eq=False)
    with pytest.raises(TypeError, match="no canonical form"):
        unknown(**fields, rule=abs).fingerprint()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1.0, (2.0,)), ((1.0, 2.0),)),
        (("ab", "c"), ("a", "bc")),
        ((1,), (1.0,)),
        ((True,), (1,)),
        ((np.zeros((2, 3)),), (np.zeros((3, 2)),)),
        ((np.zeros(2),), (np.zeros(2, dtype=np.int64),)),
        (("1", None), ("1", "None")),
    ],
)
def test_values_that_look_alike_differ(first: object, second: object) -> None:
    assert fingerprint(first) != fingerprint(second)


def test_equal_values_agree() -> None:
    assert fingerprint(np.array([0.0, -0.0])) == fingerprint(np.array([-0.0, 0.0]))
    assert fingerprint(np.arange(6.0)[::2]) == fingerprint(np.array([0.0, 2.0, 4.0]))


def test_nested_expressions_are_walked_once(tmp_path: pathlib.Path) -> None:
    """A hundred nested abs have a fingerprint at once, where a tree would have 2^100 parts."""
    text = "x"
    for _ in range(100):
        text = f"abs({text} - 1)"
    state, action = "[state.x]\nbounds = [0, 1]\ninitial = 0\n", "[action.a]\nbounds = [0, 1]\n"
    content = f'horizon = 1\nreward = "{text}"\n[transition]\nx = "x"\n{state}{action}'
    (tmp_path / "p.toml").write_text(content)
    assert len(Problem.load(tmp_path / "p.toml").fingerprint()) == 64
