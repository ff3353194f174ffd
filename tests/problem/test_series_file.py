"""Series, lags, limits of change and soft rows in problem files: what they mean, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from reluplan.errors import InputError
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.planning.planner import plan
from reluplan.problem.check import check
from reluplan.problem.plan_file import plan_csv, read_plan
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory, simulate

Make = Callable[..., Problem]

TEXT = """
horizon = {horizon}
reward = "{reward}"
{top}
[series]
{series}
[state.x]
bounds = {x_bounds}
initial = 1
{state}
[action.a]
bounds = {bounds}
{action}
[transition]
x = "x + a"
"""


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(
        reward: str = "-price*a", series: str = "price = {values = [1, 2, 3, 4]}", *, horizon: int = 4, top: str = "",
        state: str = "", action: str = "", bounds: str = "[-1, 1]", x_bounds: str = "[-9, 9]", **files: str,
    ) -> Problem:  # fmt: skip
        for name, text in files.items():
            (tmp_path / f"{name}.csv").write_text(text)
        path = tmp_path / "problem.toml"
        path.write_text(
            TEXT.format(
                horizon=horizon,
                reward=reward,
                series=series,
                top=top,
                state=state,
                action=action,
                bounds=bounds,
                x_bounds=x_bounds,
            )
        )
        return Problem.load(path)

    return made


def rolled(problem: Problem, *actions: float) -> Trajectory:
    return simulate(problem, problem.initial_lower, np.array(actions)[:, None])


def test_series_are_factors_and_divisors_and_summands(make: Make) -> None:
    actions = (1.0, -0.5, 0.25, 0.0)
    price, a = np.array([1.0, 2.0, 3.0, 4.0]), np.array(actions)
    x = 1.0 + np.concatenate([[0.0], np.cumsum(a)])
    after = np.array([2.0, 3.0, 4.0, 5.0])
    five = "price = {values = [1, 2, 3, 4, 5]}"
    for reward, expected in {
        "-price*a": -price * a,
        "a*price/2 - price": a * price / 2 - price,
        "a/price": a / price,
        "abs(price - 2)*abs(x)": np.abs(price - 2) * np.abs(x[:-1]),
        "(price' + price)*x'": (after + price) * x[1:],
        "max(price*a, price, x)": np.maximum(np.maximum(price * a, price), x[:-1]),
        "price*price*a - (1/price)*a": price**2 * a - a / price,
        "(2*price - 3)*(a + x')": (2 * price - 3) * (a + x[1:]),
        "lag(a, 1) + lag(price, 2)*lag(x, 1)": np.array([7.0, *a[:-1]])
        + np.array([30.0, 20.0, 1.0, 2.0]) * np.array([1.0, *x[:3]]),
    }.items():
        series = five if "price'" in reward else "price = {values = [1, 2, 3, 4], history = [20, 30]}"
        problem = make(reward, series, action="previous = 7")
        found = rolled(problem, *actions)
        np.testing.assert_allclose(found.rewards, expected, rtol=1e-12, atol=1e-12, err_msg=reward)


def test_series_come_from_files(make: Make) -> None:
    problem = make(
        "-eur*a - out", 'eur = {file = "p.csv", column = "price"}\nout = {file = "p.csv"}',
        p="price;out\n1,5;0\n2,5;1\n3,5;2\n4,5;3\n",
    )  # fmt: skip
    np.testing.assert_array_equal(rolled(problem, 1, 1, 1, 1).rewards, [-1.5, -3.5, -5.5, -7.5])


def test_series_that_repeat_go_on_forever(make: Make) -> None:
    problem = make(series="price = {values = [1, 2], repeat = true}", horizon=5)
    np.testing.assert_array_equal(rolled(problem, 1, 1, 1, 1, 1).rewards, [-1, -2, -1, -2, -1])
    np.testing.assert_array_equal(problem.with_horizon(7).series_table[:, 0], [1, 2, 1, 2, 1, 2, 1, 2])
    lagged = make("lag(price, 1)", "price = {values = [1, 2, 3], repeat = true}", horizon=5)
    np.testing.assert_array_equal(rolled(lagged, 0, 0, 0, 0, 0).rewards, [3, 1, 2, 3, 1])


def test_a_constant_series_is_a_constant(make: Make) -> None:
    """The same problem, so the same bounds and plans to the last digit."""
    series = make("-price*a - abs(x' - price')", "price = {values = [3, 3, 3, 3]}")
    constant = make("-price*a - abs(x' - price)", "", top="constants = {price = 3}")
    assert series.auxiliaries == ()
    assert series.fingerprint() == constant.fingerprint()


def test_a_series_is_an_input_of_the_network(make: Make, tmp_path: Path) -> None:
    network = ReluNetwork(
        2, (Layer(np.array([[1.0, 1.0]]), np.zeros(1)),), Layer(np.array([[0.0, 0.0, 1.0]]), np.zeros(1))
    )
    network.save(tmp_path / "net.json")
    path = tmp_path / "net.toml"
    path.write_text(
        'horizon = 3\nreward = "-abs(x\' - 2)"\n[series]\nwind = {values = [1, -5, 2]}\nstill = {values = [0, 0, 0]}\n'
        "[state.x]\nbounds = [-9, 9]\ninitial = 1\n[action.a]\nbounds = [-1, 1]\n"
        '[network]\nfile = "net.json"\ninputs = ["a", "wind"]\noutputs = ["x"]\npredicts = "next"\n'
    )
    found = rolled(Problem.load(path), 0.5, 0.5, -1.0)
    np.testing.assert_array_equal(found.states[1:, 0], [1.5, 0.0, 1.0])
    path.write_text(path.read_text().replace('"wind"]', '"still"]'))
    path.write_text(path.read_text().replace('"still"]', '"lag( still,1)"]').replace("0, 0]}", "0, 0], history = [0]}"))
    assert [v.name for v in Problem.load(path).auxiliaries] == ["wind", "lag(still, 1)"]
    path.write_text(path.read_text().replace('"lag( still,1)"]', '"still"]'))
    problem = Problem.load(path)
    assert [v.name for v in problem.auxiliaries] == ["wind", "still"]  # constant, but the network reads it
    np.testing.assert_array_equal(rolled(problem, 0.5, 0.5, -1.0).states[1:, 0], [0.5, 0.5, 0.0])


def test_series_are_bounds(make: Make) -> None:
    problem = make(
        "a", "limit = {values = [1, 0.5, 2, 0]}\nfloor = {values = [0, 0, 0, 0, 3]}\nname = {values = [4, 4, 4, 4]}",
        bounds='[-9, "limit"]', x_bounds='["floor", "name"]',
    )  # fmt: skip
    assert [(v.lower, v.upper) for v in (*problem.states, *problem.actions)] == [(0.0, 4.0), (-9.0, 2.0)]
    assert check(problem, rolled(problem, 1.0, 0.5, 0.5, 0.0)).ok
    for actions in ((1.0, 0.6, 0.0, 0.0), (1.0, 0.5, -0.5, 0.0), (1.0, 0.5, 2.0, 0.0)):
        assert not check(problem, rolled(problem, *actions)).ok
    best = plan(problem, threads=1)
    assert best.status == "optimal"
    assert best.reward == pytest.approx(3.0, abs=1e-4)


def test_max_change(make: Make) -> None:
    for limit, most in (("0.25", 0.25 + 0.5 + 0.75 + 1.0), ("[-1, 0.5]", 0.5 + 1 + 1 + 1), ("[-inf, 2]", 4.0)):
        best = plan(make("a", "", action=f"max_change = {limit}\nprevious = 0"), threads=1)
        assert best.status == "optimal"
        assert best.reward == pytest.approx(most, abs=1e-4)
    falling = make("a*price", "price = {values = [1, 1, -1, -1]}", action="max_change = [-0.5, 2]\nprevious = 1")
    assert plan(falling, threads=1).reward == pytest.approx(2.0, abs=1e-4)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_lags_are_what_was(make: Make, steps: int) -> None:
    history = [-1.0, -2.0, -3.0]
    problem = make(
        f"lag(x, {steps}) + 10*lag(a, {steps})", "", state=f"history = {history}", action=f"history = {history}"
    )
    found = rolled(problem, 0.5, -1.0, 0.25, 0.125)
    x = [*reversed(history[:steps]), *found.states[:, 0]]
    a = [*reversed(history[:steps]), 0.5, -1.0, 0.25, 0.125]
    np.testing.assert_allclose(found.rewards, np.array(x[:4]) + 10 * np.array(a[:4]), atol=1e-12)
    assert [lag.name for lag in problem.lags] == [f"lag({name}, {k})" for name in "xa" for k in range(1, steps + 1)]
    assert check(problem, found).ok


def test_a_history_from_a_file(make: Make) -> None:
    problem = make(
        "lag(a, 2)", "", action='history = {file = "log.csv", column = "power"}', log="power\n1\n0.5\n0.25\n"
    )
    np.testing.assert_array_equal(rolled(problem, 1, 1, 1, 1).rewards, [0.5, 0.25, 1, 1])


def test_soft_rows_cost_what_they_are_broken_by(make: Make) -> None:
    problem = make(
        "-price*a",
        top="soft = [{row = \"x' >= 2\", weight = 10}, {row = '1 <= x <= 3', weight=2}, {row = 'a == 0', weight = 1}]",
    )
    found = rolled(problem, 3.0, -1.0, 0.0, -2.0)  # x = 1, 4, 3, 3, 1
    penalties = np.array([0 + 0 + 3, 0 + 2 + 1, 0, 10 + 0 + 2])
    np.testing.assert_allclose(found.rewards, -np.array([3.0, -2.0, 0.0, -8.0]) - penalties, atol=1e-12)
    assert len(problem.soft) == 4
    infeasible = make("-abs(a)", "", top='soft = [{row = "x >= 100", weight = 1}]')
    assert plan(infeasible, threads=1).status == "optimal"


def test_a_plan_file_is_read_back(make: Make, tmp_path: Path) -> None:
    problem = make("-price*a - abs(a - lag(a, 1))", action="previous = 0.5")
    found = rolled(problem, 1.0, 0.5, 0.25, 0.0)
    path = tmp_path / "plan.csv"
    path.write_text(plan_csv(problem, found))
    stored = read_plan(problem, path)
    again = simulate(problem, stored.initial_state, stored.actions, stored.auxiliaries)
    np.testing.assert_array_equal(again.rewards, found.rewards)
    path.write_text("a\n1\n0.5\n0.25\n0\n")  # only what a person decides
    stored = read_plan(problem, path)
    again = simulate(problem, stored.initial_state, stored.actions, stored.auxiliaries)
    np.testing.assert_array_equal(again.rewards, found.rewards)
    path.write_text("a,price\n1,1\n0.5,2\n0.25,9\n0,4\n")
    with pytest.raises(InputError, match=r"line 4, column 'price': 9 is not what the problem says, 3"):
        read_plan(problem, path)


FROM_FILE = {"series": 'price = {file = "p.csv"}'}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"series": "price = {values = [1, 2, 3]}"}, 'series."price": has 3 rows, but 4 are needed for 4 steps'),
        ({"series": "price = {values = [3, 3]}"}, "has 2 rows, but 4 are needed"),
        ({"reward": "-price'*a"}, "has 4 rows, but 5 are needed for 4 steps (row 5 is that of the final state"),
        ({"top": 'goal = ["x <= price"]'}, "but 5 are needed"),
        ({"series": "price = {values = [1, 'x', 3, 4]}"}, "price\".values[1]: expected a number, got 'x'"),
        ({"series": "price = {values = [1, nan, 3, 4]}"}, "expected a number, got nan"),
        ({"series": "price = {values = []}"}, "has no value"),
        ({"series": "price = {repeat = true}"}, "needs one of the keys values and file"),
        ({"series": "price = 3"}, "expected a table with the key values or file, got 3"),
        ({"series": "price = {values = [1,2,3,4], step = 2}"}, "unknown key 'step'"),
        ({"series": "price = {values = [1,2,3,4], repeat = 1}"}, "expected true or false"),
        ({"series": 'price = {file = "no.csv"}'}, "no.csv: no such data file"),
        (FROM_FILE | {"p": "prize\n1\n2\n3\n4\n"}, "'p.csv' has no column 'price' (did you mean 'prize'?"),
        (FROM_FILE | {"p": "h,price\n1,1\n2,\n3,3\n"}, "line 3 (step 2), column 'price': the cell is empty"),
        (FROM_FILE | {"p": "price\n1\n2\nx\n4\n"}, "line 4, column 'price': expected a number, got 'x'"),
        (FROM_FILE | {"p": "price\n1\n2\n\n3\n4\n"}, "line 4 is empty"),
        (FROM_FILE | {"p": "price\n1\n2\n"}, "p.csv: has 2 rows, but 4 are needed"),
        ({"reward": "a/price", "series": "price = {values = [1, 0, 1, 2]}"}, "at step 2: a divisor is zero there"),
        ({"reward": "a*x"}, "a product of two variables is not piecewise linear"),
        ({"reward": "price/a"}, "division by a variable"),
        ({"reward": "lag(a, 1)"}, 'action."a": what it was 1 steps ago is read, so previous'),
        ({"reward": "lag(b, 1)"}, "lag(b, 1): unknown variable"),
        ({"reward": "lag(price, 2)"}, "so history = [...] must say what was before the first step, 2 numbers"),
        ({"reward": "lag(a)"}, "lag takes a variable and a whole number of steps"),
        ({"reward": "lag(a, 1000000)"}, "at most 1,000 steps"),
        ({"reward": "lag(x, 1)'"}, "the next value of a lag"),
        ({"action": "max_change = -1"}, "must not be negative"),
        ({"action": "max_change = 1"}, "what it was 1 steps ago is read"),
        ({"action": "previous = 1\nhistory = [1]"}, "say the same"),
        ({"action": 'previous = "x"'}, "expected a number"),
        ({"bounds": '[0, "limit"]'}, "bounds: expected a number or a series, got 'limit' (series and constants: p"),
        ({"top": 'soft = ["x <= 1"]'}, "soft[0]: expected a table"),
        ({"top": 'soft = [{row = "x <= 1"}]'}, "soft[0].weight: expected a number"),
        ({"top": 'soft = [{row = "x <= 1", weight = 0}]'}, "must be positive"),
        ({"top": 'soft = [{row = "x + 1", weight = 1}]'}, "soft[0].row: expected one of"),
        ({"series": "step = {values = [1, 2, 3, 4]}", "reward": "a"}, "the name 'step' is taken"),
        ({"series": "a = {values = [1, 2, 3, 4]}", "reward": "a"}, "the name 'a' is declared twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(make: Make, arguments: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as raised:
        make(**arguments)
    assert message in str(raised.value)


def test_a_transition_cannot_multiply_by_a_series(tmp_path: Path) -> None:
    path = tmp_path / "problem.toml"
    path.write_text(
        TEXT.format(
            horizon=2, reward="a", top="", series="price = {values = [1, 2]}", state="", action="", bounds="[0, 1]",
            x_bounds="[0, 1]",
        ).replace("x + a", "x + price*a")
    )  # fmt: skip
    with pytest.raises(InputError, match="a product of two variables"):
        Problem.load(path)


def test_longer_horizons_need_longer_series(make: Make) -> None:
    with pytest.raises(InputError, match="has 4 rows, but 5 are needed"):
        make().with_horizon(5)


def test_potentials_know_the_series_that_they_rest_on(make: Make) -> None:
    one, other = make(), make(series="price = {values = [1, 2, 3, 5]}")
    assert one.fingerprint() != other.fingerprint()
    assert one.fingerprint() == make().fingerprint()
