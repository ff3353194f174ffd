"""Conditions on rows: what Python makes of the same text, and errors that point."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reluplan.errors import InputError
from reluplan.problem.condition import parse_condition
from reluplan.problem.expression import Scope

SCOPE = Scope({"x": 0, "y": 1, "x'": 2}, {"limit": 2.0}, 3, {"y'": "actions have no next value"})
sums = st.sampled_from(["x", "y", "x - y", "abs(x) + 1", "min(x, 2*y)", "limit", "-3", "max(x, y, 0) / 2"])
signs = st.sampled_from(["<", "<=", ">", ">=", "=="])
comparisons = st.builds(lambda left, sign, right: f"{left} {sign} {right}", sums, signs, sums)
chains = st.builds(lambda first, sign, last: f"{first} {sign} {last}", comparisons, signs, sums)


@st.composite
def texts(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.one_of(comparisons, chains), min_size=1, max_size=4))
    words = draw(st.lists(st.sampled_from(["and", "or"]), min_size=3, max_size=3))
    return " ".join(part for pair in zip(parts, [*words, ""], strict=False) for part in pair).rsplit(" ", 1)[0]


@given(texts(), st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=1, max_size=6))
def test_a_condition_means_what_python_means_by_it(text: str, rows: list[tuple[int, int, int]]) -> None:
    found = parse_condition(text, SCOPE, "here").holds(np.array(rows, dtype=np.float64))
    expected = [eval(text, {"x": x, "y": y, "limit": 2, "abs": abs, "min": min, "max": max}) for x, y, _ in rows]
    assert found.tolist() == expected


def test_and_binds_before_or_and_a_prime_is_the_next_value() -> None:
    rows = np.array([[1.0, 0.0, 9.0], [0.0, 1.0, 9.0], [0.0, 1.0, 0.0]])
    condition = parse_condition("x > 0 or y > 0 and x' - x > 5", SCOPE, "here")
    assert condition.holds(rows).tolist() == [True, True, False]


def test_where_a_number_is_missing_nothing_holds() -> None:
    rows = np.array([[np.nan, 0.0, 0.0]])
    for text in ("x < 1", "x >= 1", "x == 1", "abs(x) > 0"):
        assert not parse_condition(text, SCOPE, "here").holds(rows).any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("z > 1", "unknown variable 'z'"),
        ("y' > 1", "actions have no next value"),
        ("x", "expected one of <=, >=, ==, <, > here"),
        ("x != 1", "expected one of"),
        ("x = 1", "write =="),
        ("x > 1 and", "ends too early"),
        ("x > 1 nor y > 1", "unexpected 'nor'"),
        ("x * y > 1", "a product of two variables"),
        ("", "is empty"),
    ],
)
def test_mistakes_are_pointed_at(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        parse_condition(text, SCOPE, "here")
