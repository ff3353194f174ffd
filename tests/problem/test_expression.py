"""The expression language: its values against Python's own, its errors by the column they point at."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reluplan.errors import InputError
from reluplan.problem.expression import Constraint, Scope, parse_constraints, parse_expression, quote

NAMES = ("x", "y", "rlevel[t1]", "flow[t1,t2]", "`odd name`", "x'", "rlevel[t1]'", "`odd name`'", "größe_2")
CONSTANTS = {"target": 2.5, "low": -0.75}
SCOPE = Scope(
    positions={name.replace("`", ""): at for at, name in enumerate(NAMES)},
    constants=CONSTANTS,
    width=len(NAMES),
    elsewhere={"y'": "actions have no next value"},
)
WIDTH = len(NAMES)
quick = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 2**32 - 1)

# Random expressions, written twice: for us, and for Python with v for the variables and c for the constants.
Twin = tuple[str, str]


def joined(*parts: Twin | str, gap: str = "") -> Twin:
    pairs = [(part, part) if isinstance(part, str) else part for part in parts]
    return gap.join(ours for ours, _ in pairs), gap.join(python for _, python in pairs)


numbers: st.SearchStrategy[Twin] = st.sampled_from(["3", "0.25", ".5", "2.", "1e-2", "12E+1", "1.5e1", "7"]).map(
    lambda text: (text, text)
)
names: st.SearchStrategy[Twin] = st.sampled_from([(name, f"v[{at}]") for at, name in enumerate(NAMES)])
constants: st.SearchStrategy[Twin] = st.sampled_from([(name, f"c['{name}']") for name in CONSTANTS])
gaps = st.sampled_from(["", " ", "  ", "\n  ", "\t"])


@st.composite
def atoms(draw: st.DrawFn, depth: int) -> Twin:
    if depth == 0:
        return draw(st.one_of(numbers, names, constants))
    kind = draw(st.sampled_from(["leaf", "bracket", "abs", "min", "max"]))
    if kind == "leaf":
        return draw(atoms(0))
    if kind in ("bracket", "abs"):
        return joined("abs(" if kind == "abs" else "(", draw(sums(depth - 1)), ")", gap=draw(gaps))
    arguments = draw(st.lists(sums(depth - 1), min_size=2, max_size=3))
    parts = [part for argument in arguments for part in (",", argument)][1:]
    return joined(f"{kind}(", *parts, ")", gap=draw(gaps))


@st.composite
def products(draw: st.DrawFn, depth: int) -> Twin:
    """One factor of a product may be an expression, all others are numbers."""
    gap = draw(gaps)
    factors: list[Twin | str] = [draw(st.sampled_from(["", "", "-", "+", "- -"])), draw(atoms(depth))]
    for _ in range(draw(st.integers(0, 2))):
        number = draw(st.one_of(numbers, constants))
        side = draw(st.sampled_from(["*", "/", "before"]))
        factors = [number, "*", *factors] if side == "before" else [*factors, side, number]
    return joined(*factors, gap=gap)


@st.composite
def sums(draw: st.DrawFn, depth: int = 2) -> Twin:
    parts: list[Twin | str] = [draw(products(depth))]
    for _ in range(draw(st.integers(0, 2))):
        parts += [draw(st.sampled_from(["+", "-"])), draw(products(depth))]
    return joined(*parts, gap=draw(gaps))


def python_value(text: str, w: np.ndarray) -> float:
    one_line = re.sub(r"\s+", " ", text)
    return float(eval(one_line, {"__builtins__": {}, "abs": abs, "min": min, "max": max}, {"v": w, "c": CONSTANTS}))


def value(text: str, **named: float) -> float:
    w = np.zeros(WIDTH)
    for name, number in named.items():
        w[SCOPE.positions[name]] = number
    return float(parse_expression(text, SCOPE, "test").evaluate(w))


@quick
@given(sums(), seeds)
def test_values_are_those_of_python(twin: Twin, seed: int) -> None:
    ours, python = twin
    function = parse_expression(ours, SCOPE, "test")
    for w in np.random.default_rng(seed).normal(scale=3.0, size=(4, WIDTH)):
        expected = python_value(python, w)
        assert float(function.evaluate(w)) == pytest.approx(expected, rel=1e-9, abs=1e-7)


@quick
@given(st.lists(sums(1), min_size=2, max_size=4), st.data(), seeds)
def test_chains_mean_what_python_means(twins: list[Twin], data: st.DataObject, seed: int) -> None:
    """a <= b == c holds in Python exactly where each of its constraints holds."""
    signs = data.draw(st.lists(st.sampled_from(["<=", ">=", "=="]), min_size=len(twins) - 1, max_size=len(twins) - 1))
    parts = [part for sign, twin in zip(["", *signs], twins, strict=True) for part in (sign, twin)][1:]
    text = joined(*parts, gap=" ")[0]
    constraints = parse_constraints(text, SCOPE, "test")
    assert [constraint.equality for constraint in constraints] == [sign == "==" for sign in signs]
    w = np.random.default_rng(seed).normal(scale=3.0, size=WIDTH)
    sides = [python_value(python, w) for _, python in twins]
    for constraint, sign, left, right in zip(constraints, signs, sides, sides[1:], strict=False):
        expected = right - left if sign == ">=" else left - right
        assert float(constraint.function.evaluate(w)) == pytest.approx(expected, rel=1e-9, abs=1e-7)
        assert constraint.text == text


def test_a_chain_gives_one_constraint_for_each_sign() -> None:
    low, high = parse_constraints("0 <= x <= 10", SCOPE, "test")
    w = np.zeros((3, WIDTH))
    w[:, SCOPE.positions["x"]] = [-2.0, 4.0, 13.0]
    np.testing.assert_array_equal(low.function.evaluate(w), [2.0, -4.0, -13.0])
    np.testing.assert_array_equal(high.function.evaluate(w), [-12.0, -6.0, 3.0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 - 3 - 4", -5.0),
        ("2 * 3 / 4", 1.5),
        ("8 / 4 / 2", 1.0),
        ("-2 * 3 + 1", -5.0),
        ("2 - -3", 5.0),
        ("2 * -3", -6.0),
        ("49 / 49", 1.0),
        ("0.3 / 0.1", 0.3 / 0.1),
        ("max(1)", 1.0),
        ("min(1, -2, 5) + max(target, low)", 0.5),
        ("abs(-target) * abs(low)", 1.875),
        ("(x - x) * y", 0.0),
        ("0 * abs(x) + 1", 1.0),
    ],
)
def test_numbers_are_computed_exactly(text: str, expected: float) -> None:
    assert value(text, x=3.0, y=4.0) == expected


def test_names_of_every_kind() -> None:
    for name, position in SCOPE.positions.items():
        text = quote(name.removesuffix("'")) + "'" * name.endswith("'")
        w = np.zeros(WIDTH)
        w[position] = 1.0
        assert float(parse_expression(f"2 * {text}", SCOPE, "test").evaluate(w)) == 2.0


@quick
@given(st.text(st.characters(exclude_characters="`'", codec="utf-8"), min_size=1))
@example("max")
@example("e5")
@example("x[1]")
@example("x [1]")
@example("3d")
@example("line\nbreak")
def test_quote_writes_a_name_that_is_read_back(name: str) -> None:
    scope = Scope({name: 0, f"{name}'": 1}, {}, 2)
    for text, expected in ((quote(name), [1.0, 0.0]), (f"3*{quote(name)}'/3", [0.0, 1.0])):
        assert parse_expression(text, scope, "test").coefficients.tolist() == expected


def test_functions_may_also_be_names() -> None:
    scope = Scope({"max": 0, "abs": 1}, {}, 2)
    assert parse_expression("`max` - abs", scope, "test").coefficients.tolist() == [1.0, -1.0]
    assert parse_expression("max(max, abs(abs))", scope, "test").evaluate(np.array([1.0, -2.0])) == 2.0
    with pytest.raises(InputError, match="unexpected"):
        parse_expression("`max`(1, 2)", scope, "test")


def test_a_name_hides_no_constant_of_another_name() -> None:
    assert value("target*x", x=2.0) == 5.0


# Errors


def complaint(text: str, constraint: bool) -> tuple[str, int]:
    """The message and the column it points at, in words and with a caret."""
    parse = parse_constraints if constraint else parse_expression
    with pytest.raises(InputError) as caught:
        parse(text, SCOPE, "plant.toml: key")
    message, shown, caret = str(caught.value).rsplit("\n", 2)
    (line, place), *_ = re.findall(r"at (?:line (\d+), )?column (\d+):$", message)
    column = int(place)
    assert caret.strip() == "^"
    assert shown[len(caret) - 1 :][:1] == text.split("\n")[int(line or 1) - 1][column - 1 : column]
    assert message.startswith("plant.toml: key: ")
    return message, column


SYNTAX_ERRORS = [
    ("", 1, "the expression is empty"),
    ("   ", 1, "the expression is empty"),
    ("x +", 4, "ends too early"),
    ("x + ", 4, "ends too early"),
    ("(x + 1", 7, "expected ')'"),
    ("x + 1)", 6, "unexpected ')'"),
    ("(x, y)", 3, "expected ')'"),
    ("max(x, )", 8, "unexpected ')'"),
    ("max()", 5, "unexpected ')'"),
    ("max(x y)", 7, "expected ')'"),
    ("abs(x, y)", 1, "abs takes one argument, got 2"),
    ("1 + abs", 5, "'abs' is a function: write abs(...)"),
    ("x y", 3, "unexpected 'y'"),
    ("2x", 2, "write 2*x"),
    ("3 4", 3, "unexpected '4'"),
    ("* x", 1, "unexpected '*'"),
    ("x ** 2", 4, "powers are not piecewise linear"),
    ("x^2", 2, "powers are not piecewise linear"),
    ("x $ y", 3, "cannot read '$'"),
    ("1 + `odd", 5, "closing backquote is missing"),
    ("x [t1]", 3, "an index stands right behind its name"),
    ("rlevel[t1", 7, "an index stands right behind its name"),
    ("x * y", 3, "a product of two variables"),
    ("x + y*(1 + abs(x))", 6, "a product of two variables"),
    ("1 / x", 3, "division by a variable"),
    ("x / (2 - 2)", 3, "division by zero"),
    ("x + pumpe", 5, "unknown variable 'pumpe'"),
    ("x + rlevel[t2]", 5, "did you mean 'rlevel[t1]'?"),
    ("x + `no such thing`", 6, "unknown variable 'no such thing'"),
    ("x + targett", 5, "did you mean 'target'?"),
    ("x - y'", 5, "'y'' may not be used here: actions have no next value"),
    ("target'", 1, "unknown variable 'target''"),
    ("x + 1e999", 5, "the number 1e999 is too large"),
    ("x <= 3", 3, "a comparison has no place here"),
    ("x'' + 1", 3, "unexpected '''"),
    ("'x", 1, "unexpected '''"),
    ("(" * 101 + "x" + ")" * 101, 101, "more than 100 brackets"),
]

CONSTRAINT_ERRORS = [
    ("x", 2, "expected one of <=, >=, == here"),
    ("x < 3", 3, "write <="),
    ("x > 3", 3, "write >="),
    ("x = 3", 3, "write =="),
    ("x => 3", 3, "write >="),
    ("x =< 3", 3, "write <="),
    ("x != 3", 3, "expected one of <=, >=, == here"),
    ("0 <= x < 10", 8, "write <="),
    ("x <=", 5, "ends too early"),
    ("<= 3", 1, "unexpected '<='"),
    ("x <= 3 4", 8, "unexpected '4'"),
    ("0 <= x <= `", 11, "closing backquote"),
    ("x <= nix", 6, "unknown variable 'nix'"),
]


@pytest.mark.parametrize(("text", "column", "message"), SYNTAX_ERRORS)
def test_errors_point_at_the_column(text: str, column: int, message: str) -> None:
    said, at = complaint(text, constraint=False)
    assert message in said
    assert at == column


@pytest.mark.parametrize(("text", "column", "message"), CONSTRAINT_ERRORS)
def test_errors_of_comparisons_point_at_the_column(text: str, column: int, message: str) -> None:
    said, at = complaint(text, constraint=True)
    assert message in said
    assert at == column


def test_errors_name_the_line_of_an_expression_with_several() -> None:
    said, column = complaint("-abs(x - target)\n  - 2*pumpe\n  - y", constraint=False)
    assert "at line 2, column 7" in said
    assert column == 7


def test_errors_show_a_part_of_a_long_expression() -> None:
    text = " + ".join(["x"] * 500) + " + pumpe + " + " + ".join(["y"] * 500)
    with pytest.raises(InputError, match="column 2001") as caught:
        parse_expression(text, SCOPE, "test")
    *_, shown, caret = str(caught.value).split("\n")
    assert len(shown) < 120
    assert shown[len(caret) - 1 :].startswith("pumpe")


@pytest.mark.parametrize("text", ["1e300*1e300*x", "x/1e-300/1e-300", "1e308 + 1e308", "max(1e300*x, y)*1e300*1e300"])
def test_an_overflow_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="overflow"):
        parse_expression(text, SCOPE, "test")
    with pytest.raises(InputError, match="overflow"):
        parse_constraints(f"{text} <= 1", SCOPE, "test")


@quick
@given(st.text("xyt ()+-*/<>=,'`^.[]019emaxbsin\n\té", max_size=30))
def test_any_text_is_parsed_or_refused_with_a_place(text: str) -> None:
    """No text leads to anything but a result or an InputError that points into the text."""
    for parse in (parse_expression, parse_constraints):
        message = ""
        try:
            parsed = parse(text, SCOPE, "test")
        except InputError as error:
            message = str(error)
        if message:
            found = re.findall(r"column (\d+):$", message, re.MULTILINE)
            assert found or "overflow" in message
            assert all(1 <= int(column) <= len(text) + 1 for column in found)
        else:
            functions = (
                [c.function for c in parsed if isinstance(c, Constraint)] if isinstance(parsed, list) else [parsed]
            )
            assert all(function.is_finite for function in functions)
