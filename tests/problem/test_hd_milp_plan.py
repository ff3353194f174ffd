"""HD-MILP-Plan files: the converted problem against the text files, read a second time in the plainest way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from reluplan.errors import InputError
from reluplan.network.relu_network import Array, ReluNetwork
from reluplan.problem.hd_milp_plan.convert import convert
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.writer import NetworkEntry, ProblemText, format_row, format_sum, number

INSTANCES = ("navigation_8x8", "navigation_10x10", "reservoir_3", "reservoir_4", "hvac_3", "hvac_6")
NAVIGATION = INSTANCES[:2]
Values = dict[str, float]


def lines_of(path: Path) -> list[list[str]]:
    return [line.replace("$", "").split(",") for line in path.read_text(encoding="utf-8").splitlines() if line]


def random_values(names: list[str], rng: np.random.Generator) -> Values:
    return {name: float(rng.uniform(-5.0, 120.0)) for name in names}


def step_vector(problem: Problem, now: Mapping[str, float], after: Mapping[str, float]) -> Array:
    """w = (s, a, x, s', x') from values by name."""
    later = (*problem.states, *problem.auxiliaries)
    return np.array([*(now[v.name] for v in problem.input_variables), *(after[v.name] for v in later)])


def reward(problem: Problem, now: Mapping[str, float], after: Mapping[str, float]) -> float:
    return float(problem.reward.evaluate(step_vector(problem, now, after)))


def texts(problem: Problem) -> list[str]:
    return [constraint.text for constraint in problem.constraints]


def goal_texts(problem: Problem) -> list[str]:
    return [constraint.text for constraint in problem.goal]


def bounds(problem: Problem) -> dict[str, tuple[float, float]]:
    return {v.name: (v.lower, v.upper) for v in problem.input_variables}


# The six published instances


def naive_step(folder: Path, name: str, now: Values) -> Values:
    """The next state by walking through the lines of the network file."""
    mapping = dict(lines_of(folder / "translation" / f"mappings_{name}.txt"))
    value = {unit: now[variable] for unit, variable in mapping.items() if unit.startswith("N")}
    for unit, activation, *pairs in lines_of(folder / "dnn" / f"dnn_{name}.txt"):
        total = 0.0
        for read, weight in zip(pairs[::2], pairs[1::2], strict=True):
            total += float(weight) * (1.0 if read.startswith("B") else value[read])
        value[unit] = max(0.0, total) if activation == "relu" else total
    return {variable: value[unit] for unit, variable in mapping.items() if unit.startswith("D")}


@pytest.mark.parametrize("name", INSTANCES)
def test_dynamics_equal_the_text_file(published_instances: Path, tmp_path: Path, name: str) -> None:
    problem = Problem.load(convert(published_instances, name, tmp_path))
    rng = np.random.default_rng(0)
    for _ in range(20):
        now = random_values([v.name for v in problem.input_variables], rng)
        expected = naive_step(published_instances, name, now)
        inputs = np.array([now[v.name] for v in problem.input_variables])
        np.testing.assert_allclose(
            problem.next_states(inputs), [expected[v.name] for v in problem.states], rtol=1e-12, atol=1e-12
        )


def navigation_reward(now: Values, after: Values) -> float:
    return -sum(abs(after[f"location[{d}]"] - 3.0) for d in "xy")


def reservoir_reward(now: Values, after: Values) -> float:
    low, high = (20.0, 30.0, 40.0, 60.0), (80.0, 180.0, 380.0, 480.0)
    total = 0.0
    for r in range(len(after)):
        level = after[f"rlevel[t{r + 1}]"]
        total += -0.1 * abs(level - (low[r] + high[r]) / 2.0)
        total += -5.0 * max(0.0, low[r] - level) - 100.0 * max(0.0, level - high[r])
    return total


def hvac_reward(now: Values, after: Values) -> float:
    total = 0.0
    for r in range(1, len(after) + 1):
        heat, air = after[f"TEMP[r{r}]"], now[f"AIR[r{r}]"]
        total += -air - 10.0 * abs(heat - 21.75) - 20000.0 * (max(0.0, 20.0 - heat) + max(0.0, heat - 23.5))
    return total


FORMULAS: dict[str, Callable[[Values, Values], float]] = {
    "navigation": navigation_reward,
    "reservoir": reservoir_reward,
    "hvac": hvac_reward,
}


@pytest.mark.parametrize("name", INSTANCES)
def test_reward_equals_the_formula_of_the_domain(published_instances: Path, tmp_path: Path, name: str) -> None:
    problem = Problem.load(convert(published_instances, name, tmp_path))
    assert problem.auxiliaries == ()
    formula = FORMULAS[name.split("_")[0]]
    rng = np.random.default_rng(1)
    for _ in range(50):
        now = random_values([v.name for v in problem.input_variables], rng)
        after = random_values([v.name for v in problem.states], rng)
        assert reward(problem, now, after) == pytest.approx(formula(now, after), rel=1e-12)


def best_auxiliary_reward(folder: Path, name: str, now: Values, after: Values) -> float:
    """The reward of the files: its auxiliaries are the best ones that the constraints file allows in state `after`."""
    weights = {variable: float(weight) for variable, weight in lines_of(folder / f"translation/reward_{name}.txt")}
    fixed = sum(w * now[v] for v, w in weights.items() if v in now)
    fixed += sum(w * after[v[:-1]] for v, w in weights.items() if v[:-1] in after)
    free = [v[:-1] for v in weights if v.endswith("'") and v[:-1] not in after]
    rows: dict[str, list[tuple[list[float], float]]] = {"<=": [], ">=": [], "==": []}
    for *terms, sign, constant in lines_of(folder / f"translation/constraints_{name}.txt"):
        split = [term.rpartition("*") for term in terms]
        coefficients = {variable: float(factor or 1.0) for factor, _, variable in split}
        if coefficients.keys() & set(free):
            known = sum(c * after[v] for v, c in coefficients.items() if v in after)
            rows[sign].append(([coefficients.get(v, 0.0) for v in free], float(constant) - known))
    upper = [*rows["<="], *(([-c for c in row], -constant) for row, constant in rows[">="])]
    solution = linprog(
        [-weights[f"{v}'"] for v in free],
        A_ub=[row for row, _ in upper],
        b_ub=[constant for _, constant in upper],
        A_eq=[row for row, _ in rows["=="]] or None,
        b_eq=[constant for _, constant in rows["=="]] or None,
        bounds=(None, None),
    )
    assert solution.status == 0
    return fixed - float(solution.fun)


@pytest.mark.parametrize("name", INSTANCES)
def test_reward_equals_the_best_auxiliaries_of_the_files(published_instances: Path, tmp_path: Path, name: str) -> None:
    problem = Problem.load(convert(published_instances, name, tmp_path))
    rng = np.random.default_rng(2)
    for _ in range(3):
        now = random_values([v.name for v in problem.input_variables], rng)
        after = random_values([v.name for v in problem.states], rng)
        expected = best_auxiliary_reward(published_instances, name, now, after)
        assert reward(problem, now, after) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("name", "width"), [("navigation_8x8", 4.0), ("navigation_10x10", 5.0)])
def test_navigation_rows(published_instances: Path, tmp_path: Path, name: str, width: float) -> None:
    problem = Problem.load(convert(published_instances, name, tmp_path))
    assert (problem.name, problem.horizon) == (name, 100)
    assert bounds(problem) == {
        **{f"location[{d}]": (-width, width) for d in "xy"},
        **{f"move[{d}]": (-1.0, 1.0) for d in "xy"},
    }
    assert (texts(problem), goal_texts(problem)) == ([], [])
    assert problem.initial_lower.tolist() == problem.initial_upper.tolist() == [-width, -width]
    assert problem.dynamics.relu_count == 64
    assert len(problem.dynamics.hidden) == 2


@pytest.mark.parametrize("count", [3, 4])
def test_reservoir_rows(published_instances: Path, tmp_path: Path, count: int) -> None:
    problem = Problem.load(convert(published_instances, f"reservoir_{count}", tmp_path))
    tanks = range(1, count + 1)
    assert problem.horizon == 500
    assert texts(problem) == [f"flow[t{r}] <= rlevel[t{r}]" for r in tanks]
    assert goal_texts(problem) == []
    caps = dict(zip(tanks, (100.0, 200.0, 400.0, 500.0), strict=False))
    assert bounds(problem) == {
        **{f"rlevel[t{r}]": (-np.inf, caps[r]) for r in tanks},
        **{f"flow[t{r}]": (0.0, np.inf) for r in tanks},
    }
    assert problem.initial_lower.tolist() == [75.0, 50.0, 50.0, 50.0][:count]


@pytest.mark.parametrize("count", [3, 6])
def test_hvac_rows(published_instances: Path, tmp_path: Path, count: int) -> None:
    problem = Problem.load(convert(published_instances, f"hvac_{count}", tmp_path))
    assert problem.horizon == 100
    assert (texts(problem), goal_texts(problem)) == ([], [])
    assert {(v.lower, v.upper) for v in problem.actions} == {(0.0, 10.0)}
    assert {(v.lower, v.upper) for v in problem.states} == {(-np.inf, np.inf)}
    assert problem.initial_lower.tolist() == [10.0] * count


def test_the_file_is_readable(published_instances: Path, tmp_path: Path) -> None:
    text = convert(published_instances, "hvac_3", tmp_path).read_text(encoding="utf-8")
    assert (
        "reward = \"-AIR[r1] - AIR[r2] - AIR[r3] - 10*abs(TEMP[r1]' - 21.75) - 20000*max(0, 20 - TEMP[r1]')"
        " - 20000*max(0, TEMP[r1]' - 23.5) - 10*abs(TEMP[r2]' - 21.75)"
    ) in text
    assert '[action."AIR[r1]"]\nbounds = [0, 10]\n' in text
    assert text.startswith("# The HD-MILP-Plan instance hvac_3")
    assert str(published_instances) not in text
    assert "dnn/dnn_hvac_3.txt" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network.onnx", "problem.toml"]


def test_action_bounds_narrow(published_instances: Path, tmp_path: Path) -> None:
    navigation = Problem.load(convert(published_instances, "navigation_8x8", tmp_path / "a", action_bounds=(-0.1, 0.1)))
    assert {(v.lower, v.upper) for v in navigation.actions} == {(-0.1, 0.1)}
    reservoir = Problem.load(
        convert(published_instances, "reservoir_3", tmp_path / "b", action_bounds=(-7.0, 90.0), horizon=3)
    )
    assert {(v.lower, v.upper) for v in reservoir.actions} == {(0.0, 90.0)}
    assert reservoir.horizon == 3
    assert texts(reservoir) == [f"flow[t{r}] <= rlevel[t{r}]" for r in (1, 2, 3)]


# The example variants


@pytest.mark.parametrize("name", NAVIGATION)
def test_example_goal(published_instances: Path, tmp_path: Path, name: str) -> None:
    """The example goal says nothing of the auxiliaries; the last step is still penalised."""
    problem = Problem.load(convert(published_instances, name, tmp_path, examples=["goal"]))
    assert sorted(goal_texts(problem)) == [
        "location[x] <= 3", "location[x] >= 0", "location[y] <= 3", "location[y] >= 0",
    ]  # fmt: skip
    width = 4.0 if name.endswith("8x8") else 5.0
    assert bounds(problem)["location[x]"] == (-width, width)
    assert texts(problem) == []
    assert problem.auxiliaries == ()
    after = {"location[x]": 1.0, "location[y]": -2.5}
    assert reward(problem, {**after, "move[x]": 0.0, "move[y]": 0.0}, after) == -7.5


@pytest.mark.parametrize("name", NAVIGATION)
def test_example_integer_states(published_instances: Path, tmp_path: Path, name: str) -> None:
    problem = Problem.load(convert(published_instances, name, tmp_path, examples=["pvariables"]))
    assert [v.kind for v in problem.states] == ["integer", "integer"]
    assert [v.kind for v in problem.actions] == ["continuous", "continuous"]
    now = {"location[x]": -2.0, "location[y]": 1.0, "move[x]": 0.8, "move[y]": -0.7}
    expected = naive_step(published_instances, name, now)
    inputs = np.array([now[v.name] for v in problem.input_variables])
    assert problem.next_states(inputs).tolist() == [round(expected[v.name]) for v in problem.states]


@pytest.mark.parametrize("name", NAVIGATION)
def test_example_transitions(published_instances: Path, tmp_path: Path, name: str) -> None:
    path = convert(published_instances, name, tmp_path, examples=["transitions"])
    assert not (tmp_path / "network.onnx").exists()
    assert "[network]" not in path.read_text(encoding="utf-8")
    problem = Problem.load(path)
    assert problem.next_states(np.array([1.0, -2.0, 0.25, 0.5])).tolist() == [1.25, -1.5]
    assert problem.dynamics.relu_count == 0
    assert texts(problem) == []


@pytest.mark.parametrize("name", NAVIGATION)
def test_all_examples_together(published_instances: Path, tmp_path: Path, name: str) -> None:
    """Integer states with known transitions: the equation holds exactly, so rounding must not hide a fraction."""
    problem = Problem.load(convert(published_instances, name, tmp_path, examples=["goal", "pvariables", "transitions"]))
    assert [v.kind for v in problem.states] == ["integer", "integer"]
    assert texts(problem) == [f"location[{d}]' == location[{d}] + move[{d}]" for d in "xy"]
    assert len(goal_texts(problem)) == 4


# Small instances of the features that the published files do not use

SMALL: dict[str, str] = {
    "dnn": "D10,relu,N00,1,N01,-2,B0,0.5\nD20,linear,N01,1,D10,3,B1,-1",
    "pvariables": "action_continuous: a,state_continuous: x[$1]",
    "mappings": "N00,a\nN01,x[$1]\nD20,x[$1]",
    "constraints": "a,>=,0\na,<=,1",
    "initial": "x[$1],==,2",
    "reward": "x[$1]',1",
}
WITH_AUXILIARY = "action_continuous: a,state_continuous: x,state_continuous: y,auxiliary_continuous: p,"
TWO_STATES = {
    "dnn": "D20,linear,N00,1,N01,1,B1,0\nD21,linear,N00,2,N02,1,B1,0",
    "pvariables": WITH_AUXILIARY + "auxiliary_continuous: m",
    "mappings": "N00,a\nN01,x\nN02,y\nD20,x\nD21,y",
    "initial": "x,==,0\ny,==,0",
}


def write_instance(folder: Path, files: Mapping[str, str]) -> Path:
    for kind, text in files.items():
        path = folder / ("dnn" if kind == "dnn" else "translation") / f"{kind}_toy.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def load_small(tmp_path: Path, **files: str) -> Problem:
    folder = write_instance(tmp_path / "files", {**SMALL, **files})
    return Problem.load(convert(folder, "toy", tmp_path / "out"))


def load_two_states(tmp_path: Path, **files: str) -> Problem:
    folder = write_instance(tmp_path / "files", {**TWO_STATES, **files})
    return Problem.load(convert(folder, "toy", tmp_path / "out"))


def test_a_small_network_by_hand(tmp_path: Path) -> None:
    problem = load_small(tmp_path)
    assert problem.horizon == 10
    assert problem.next_states(np.array([1.0, 3.0])).tolist() == [1.0 + 3.0 * max(0.0, 3.0 - 2.0 + 0.5) - 1.0]
    assert reward(problem, {"x[1]": 0.0, "a": 0.0}, {"x[1]": 4.0}) == 4.0


def test_absent_files(tmp_path: Path) -> None:
    folder = write_instance(tmp_path / "files", {kind: SMALL[kind] for kind in ("dnn", "pvariables", "mappings")})
    problem = Problem.load(convert(folder, "toy", tmp_path / "out"))
    assert (problem.constraints, problem.goal) == ((), ())
    assert reward(problem, {"x[1]": 1.0, "a": 2.0}, {"x[1]": 3.0}) == 0.0
    assert bounds(problem)["a"] == (-np.inf, np.inf)
    assert (problem.initial_lower.tolist(), problem.initial_upper.tolist()) == ([-np.inf], [np.inf])


def test_units_in_any_order_and_layers_by_depth(tmp_path: Path) -> None:
    """Units may stand before the ones they read, biases anywhere, and the layer is what a unit reads, not its name."""
    problem = load_small(
        tmp_path,
        dnn="D30,linear,B2,1,D20,2,N00,1\nD20,relu,D10,-1,B1,4,N01,1\nD10,relu,B0,0,N00,1\nD11,relu,N01,1,B0,0\n",
        mappings="D30,x[$1]\nN01,x[$1]\nN00,a\n",
    )
    assert [layer.unit_count for layer in problem.dynamics.hidden] == [2, 1]
    x, a = 0.5, 3.0
    assert problem.next_states(np.array([x, a])).tolist() == [1.0 + 2.0 * max(0.0, 4.0 + x - a) + a]


def test_step_units_are_one_from_zero_on(tmp_path: Path) -> None:
    problem = load_small(
        tmp_path,
        dnn="D10,step,N00,1,N01,-2,B0,0.25",
        pvariables="action_integer: a,state_boolean: x[$1]",
        mappings="N00,a\nN01,x[$1]\nD10,x[$1]",
        initial="x[$1],==,1",
    )
    assert (problem.states[0].kind, problem.actions[0].kind) == ("boolean", "integer")
    for x in (0.0, 1.0):
        for a in (-0.25, -0.25 - 1e-6, 1.75, 1.75 - 1e-6, 5.0):
            expected = 1.0 if a - 2.0 * x + 0.25 >= 0.0 else 0.0
            assert problem.next_states(np.array([x, a])).tolist() == [expected]


def test_different_weights_become_two_maxima(tmp_path: Path) -> None:
    problem = load_two_states(
        tmp_path, constraints="x,-1*p,m,==,3\np,>=,0\nm,>=,0", reward="p',-2\nm',-0.5\nm,-4\na,-1"
    )
    assert problem.auxiliaries == ()
    for now, after in ((1.0, 5.0), (5.0, 1.0), (3.0, 3.0)):
        expected = -2.0 * max(0.0, after - 3.0) - 0.5 * max(0.0, 3.0 - after) - 4.0 * max(0.0, 3.0 - now) - 0.25
        assert reward(problem, {"x": now, "y": 0.0, "a": 0.25}, {"x": after, "y": 0.0}) == expected


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("x,2*y,-1*p,<=,3", "-max(0, x' + 2*y' - 3)"),
        ("-1*x,-2*y,p,>=,-3", "-max(0, x' + 2*y' - 3)"),
        ("x,-0.5*y,p,>=,0", "-max(0, -x' + 0.5*y')"),
        ("x,p,>=,-3\nx,p,>=,-3", "-max(0, -3 - x')"),
    ],
)
def test_sums_of_states_and_other_spellings(tmp_path: Path, rows: str, text: str) -> None:
    files = {"pvariables": WITH_AUXILIARY, "constraints": f"{rows}\n-1*p,<=,0", "reward": "p',-1"}
    problem = load_two_states(tmp_path, **files)
    assert problem.auxiliaries == ()
    assert f'reward = "{text}"' in (tmp_path / "out" / "problem.toml").read_text(encoding="utf-8")
    rng = np.random.default_rng(3)
    for _ in range(5):
        now, after = random_values(["x", "y", "a"], rng), random_values(["x", "y"], rng)
        expected = best_auxiliary_reward(tmp_path / "files", "toy", now, after)
        assert reward(problem, now, after) == pytest.approx(expected)


def test_an_auxiliary_outside_the_reward_vanishes(tmp_path: Path) -> None:
    problem = load_two_states(tmp_path, constraints="x,-1*p,m,==,3\np,>=,0\nm,>=,0", reward="y',1")
    assert (problem.auxiliaries, texts(problem), goal_texts(problem)) == ((), [], [])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"reward": "p',0.5\nm',-1"}, "a positive weight"),
        ({"constraints": "x,-1*p,m,==,3\np,>=,0\nm,>=,0\np,y,<=,9"}, "another row"),
        ({"constraints": "x,-1*p,m,==,3\np,>=,0\nm,>=,0\np,<=,9"}, "an upper bound"),
        ({"constraints": "x,-1*p,m,==,3\np,>=,0\nm,>=,1"}, "a lower bound other than 0"),
        ({"constraints": "x,-1*p,m,==,3\nm,>=,0"}, "no lower bound"),
        ({"constraints": "x,-2*p,m,==,3\np,>=,0\nm,>=,0"}, "a coefficient other than 1"),
        ({"constraints": "x,-1*p,-1*m,==,3\np,>=,0\nm,>=,0"}, "two of one sign"),
        ({"constraints": "x,-1*p,m,>=,3\np,>=,0\nm,>=,0"}, "not an equation"),
        ({"goal": "x,-1*p,m,==,2"}, "another row in the goal"),
        ({"constraints": "x,-1*p,m,==,3\nm,>=,0", "goal": "p,>=,0"}, "a lower bound in the goal only"),
        ({"initial": "x,==,0\ny,==,0\np,<=,9"}, "a row on the first state"),
        ({"transitions": "x',-1*p,==,0"}, "a transition"),
        ({"pvariables": WITH_AUXILIARY + "auxiliary_integer: m"}, "an integer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_auxiliaries_that_fit_no_pattern_stay(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    files = {"constraints": "x,-1*p,m,==,3\np,>=,0\nm,>=,0", "reward": "p',-1\nm',-1", **changes}
    problem = load_two_states(tmp_path, **files)
    assert [v.name for v in problem.auxiliaries] == ["p", "m"], reason
    now = {"x": 0.0, "y": 0.0, "a": 0.0, "p": 7.0, "m": 8.0}
    weight = 0.5 if "0.5" in files["reward"] else -1.0
    assert reward(problem, now, {"x": 1.0, "y": 0.0, "p": 10.0, "m": 2.0}) == weight * 10.0 - 2.0


def test_rows_of_a_staying_auxiliary_hold_at_the_final_state(tmp_path: Path) -> None:
    """Rows on auxiliaries that read no action are added to the goal; other rows of the constraints are not."""
    problem = load_two_states(
        tmp_path,
        constraints="x,-1*p,m,==,3\np,>=,0\nm,>=,0\nm,<=,5\np,a,<=,9\nx,y,<=,8",
        goal="p,<=,2\nm,<=,7",
        reward="p',-1",
    )
    assert texts(problem) == ["x - p + m == 3", "p + a <= 9", "x + y <= 8"]
    assert goal_texts(problem) == ["p <= 2", "x - p + m == 3"]
    assert (bounds(problem)["p"], bounds(problem)["m"]) == ((0.0, np.inf), (0.0, 5.0))


def test_rows_with_actions_define_no_penalty(tmp_path: Path) -> None:
    problem = load_two_states(
        tmp_path, pvariables=WITH_AUXILIARY, constraints="x,-1*a,-1*p,<=,0\np,>=,0", reward="p,-1"
    )
    assert texts(problem) == ["x <= a + p"]
    assert goal_texts(problem) == []


def test_state_rows_become_bounds_only_where_the_goal_implies_them(tmp_path: Path) -> None:
    problem = load_two_states(
        tmp_path,
        constraints="x,<=,9\nx,>=,-9\n-2*y,>=,-8\ny,>=,-8\ny,>=,-9\na,==,0.5",
        goal="x,<=,9\nx,>=,-10\ny,==,1",
    )
    assert bounds(problem)["x"] == (-np.inf, 9.0)
    assert bounds(problem)["y"] == (-8.0, 4.0)
    assert bounds(problem)["a"] == (0.5, 0.5)
    assert texts(problem) == ["x >= -9"]
    assert goal_texts(problem) == ["x >= -10", "y == 1"]


def test_initial_rows(tmp_path: Path) -> None:
    problem = load_two_states(tmp_path, initial="x,>=,1\n-1*x,>=,-2.5\ny,<=,4\nx,-1*y,<=,0\nx,y,>=,1")
    assert problem.initial_lower.tolist() == [1.0, -np.inf]
    assert problem.initial_upper.tolist() == [2.5, 4.0]
    assert [constraint.text for constraint in problem.initial_constraints] == ["x <= y", "x + y >= 1"]


def test_a_known_transition_replaces_one_output(tmp_path: Path) -> None:
    problem = load_two_states(tmp_path, transitions="2*x',-1*x,4*a,-6*y,==,3")
    x, y, a = 1.0, -2.0, 0.25
    assert problem.next_states(np.array([x, y, a, 0.0, 0.0])).tolist() == [
        0.5 * x - 2.0 * a + 3.0 * y + 1.5,
        2.0 * a + y,
    ]
    assert ReluNetwork.load(tmp_path / "out" / "network.onnx").output_count == 1


def test_whole_transitions_of_integer_states_need_no_row(tmp_path: Path) -> None:
    kinds = "action_integer: a,state_integer: x,state_boolean: y,auxiliary_continuous: p,auxiliary_continuous: m"
    problem = load_two_states(tmp_path, pvariables=kinds, transitions="x',-1*x,-3*a,==,1\ny',-1*y,-1*a,==,0")
    assert texts(problem) == ["y' == y + a"]


# Errors: what, where, and what to do

ERRORS: list[tuple[dict[str, str], str]] = [
    ({"dnn": "D10,relu,N00,1,B0"}, r"dnn_toy.txt, line 1: unit D10: expected name,activation"),
    ({"dnn": "D10,tanh,N00,1,B0,0"}, r"line 1: unit D10: unsupported activation 'tanh'"),
    ({"dnn": "D20,linear,N00,one,B0,0"}, r"dnn_toy.txt, line 1: expected a number, got 'one'"),
    ({"dnn": "D20,linear,N00,inf,B0,0"}, r"expected a number, got 'inf'"),
    ({"dnn": "D20,linear,N00,1,N00,2,B0,0"}, r"unit D20: 'N00' is listed twice"),
    ({"dnn": "D20,linear,N00,1"}, r"line 1: unit D20: expected one bias .* found 0"),
    ({"dnn": SMALL["dnn"] + "\n\nD10,relu,N00,1,B0,0"}, r"line 4: unit D10 is defined twice \(first on line 1\)"),
    ({"dnn": "D20,linear,D15,1,B0,0"}, r"unit D20 reads 'D15', an unknown unit"),
    ({"dnn": "D20,linear,N07,1,B0,0"}, r"unit D20 reads 'N07', a network input that the mappings file does not"),
    ({"dnn": SMALL["dnn"] + "\nD30,relu,D20,1,B0,0"}, r"line 3: unit D30 reads D20, an output"),
    ({"dnn": SMALL["dnn"] + "\nD21,linear,D10,1,B0,0"}, r"line 3: the linear unit D21 stands for no state"),
    ({"dnn": "D20,relu,N00,1,B0,0"}, r"the relu unit D20 stands for a state"),
    ({"dnn": "D20,step,N00,1,B0,0"}, r"the step unit D20 predicts the continuous state 'x\[1\]'"),
    (
        {"dnn": SMALL["dnn"] + "\nD11,relu,D12,1,B0,0\nD12,relu,D11,1,B0,0"},
        r"line 3: unit D11 is in no layer: among D11, D12",
    ),
    ({"pvariables": "state_real: x"}, r"pvariables_toy.txt, line 1: cannot read 'state_real: x'"),
    ({"pvariables": "state_continuous: x,\nstate_integer: $x"}, r"line 2: the variable 'x' is declared twice"),
    ({"pvariables": "state_continuous: x'"}, r"contains a quote"),
    ({"mappings": "N00"}, r"mappings_toy.txt, line 1: expected unit,variable; got 'N00'"),
    ({"mappings": "N00,a\nN01,a"}, r"line 2: both N00 and N01 stand for 'a'"),
    ({"mappings": "N00,a\nN00,x[$1]"}, r"line 2: unit N00 is mapped twice"),
    ({"mappings": "D77,x[$1]"}, r"line 1: unit D77 is not defined in the network file"),
    ({"mappings": "D20,a"}, r"the action 'a' may not be used here"),
    (
        {"pvariables": SMALL["pvariables"] + ",state_continuous: z"},
        r"toy: nothing predicts the state 'z': .*transitions_toy.txt",
    ),
    ({"constraints": "a,>=,0\n\na,1"}, r"constraints_toy.txt, line 3: cannot read 'a,1': expected term"),
    ({"constraints": "a,<,1"}, r"line 1: cannot read 'a,<,1'.*<=, >=, =="),
    ({"constraints": "x[$2],<=,1"}, r"line 1: unknown variable 'x\[2\]' \(did you mean 'x\[1\]'\?\)"),
    ({"constraints": "q*a,<=,1"}, r"expected a number, got 'q'"),
    ({"constraints": "a,<=,nan"}, r"expected a number, got 'nan'"),
    ({"constraints": "a,a,<=,1"}, r"'a' is listed twice"),
    ({"constraints": "0*a,<=,1"}, r"every coefficient of this row is zero"),
    ({"constraints": "x[$1]',<=,1"}, r"the state 'x\[1\]' has no next value here"),
    ({"constraints": "a,<=,1\na,>=,2"}, r"line 2: no value of 'a' satisfies both"),
    ({"goal": "a,<=,1"}, r"goal_toy.txt, line 1: the action 'a' may not be used here"),
    ({"initial": "x[$1],==,1\nx[$1],==,2"}, r"initial_toy.txt, line 2: no value of 'x\[1\]'"),
    ({"reward": "x[$1]"}, r"reward_toy.txt, line 1: expected variable,weight"),
    ({"reward": "a',1"}, r"the action 'a' has no next value"),
    ({"reward": "a,1\na,2"}, r"line 2: 'a' has a weight already"),
    ({"transitions": "x[$1]',-1*a,<=,0"}, r"transitions_toy.txt, line 1: a known transition is an equation"),
    ({"transitions": "x[$1],-1*a,==,0"}, r"one next state \(x'\), found none"),
    ({"transitions": "x[$1]',==,0\nx[$1]',==,1"}, r"line 2: 'x\[1\]' has a known transition already, on line 1"),
]


@pytest.mark.parametrize(("files", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_errors_name_file_and_line(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_small(tmp_path, **files)
    assert not (tmp_path / "out").exists()


def test_two_next_states_in_one_transition(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"found x', y'"):
        load_two_states(tmp_path, transitions="x',y',==,0")


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: no such folder; give the folder that holds dnn/"):
        convert(tmp_path / "nowhere", "toy", tmp_path)


def test_an_unknown_instance_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no instance 'tou' \(available: toy\)"):
        convert(write_instance(tmp_path, SMALL), "tou", tmp_path)


def test_missing_files(tmp_path: Path) -> None:
    folder = write_instance(tmp_path, SMALL)
    with pytest.raises(InputError, match=r"example_goal_toy.txt: no such file"):
        convert(folder, "toy", tmp_path, examples=["goal"])
    with pytest.raises(InputError, match=r"'reward' is no kind of example file: use goal, pvariables, transitions"):
        convert(folder, "toy", tmp_path, examples=["reward"])
    (folder / "translation" / "mappings_toy.txt").unlink()
    with pytest.raises(InputError, match=r"mappings_toy.txt: no such file"):
        convert(folder, "toy", tmp_path)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    folder = write_instance(tmp_path, SMALL)
    (folder / "translation" / "reward_toy.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"reward_toy.txt: is not a text file in UTF-8"):
        convert(folder, "toy", tmp_path)


@pytest.mark.parametrize("interval", [(2.0, 3.0), (1.0, 0.0), (float("nan"), 1.0)])
def test_action_bounds_without_a_value(tmp_path: Path, interval: tuple[float, float]) -> None:
    with pytest.raises(InputError, match=r"leave no value for the action 'a', which the instance keeps in \[0, 1\]"):
        convert(write_instance(tmp_path, SMALL), "toy", tmp_path / "out", action_bounds=interval)


def test_a_horizon_below_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="horizon must be at least 1, got 0"):
        convert(write_instance(tmp_path, SMALL), "toy", tmp_path, horizon=0)


def test_an_output_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match=r"out: cannot be made a folder"):
        convert(write_instance(tmp_path, SMALL), "toy", tmp_path / "out")
    assert (tmp_path / "out").read_text(encoding="utf-8") == "mine"


# The problem writer


@pytest.mark.parametrize("value", [0.0, -0.0, 10.0, -3.0, 0.1, 1e-5, 1e15, 1e300, -2.5e-310, 123456789.125, np.inf])
def test_numbers_read_back_exactly(value: float) -> None:
    assert float(number(value)) == value


def test_rows_and_sums_as_text() -> None:
    assert format_sum([]) == "0"
    assert format_sum([(1.0, ""), (-1.0, "x"), (-0.5, "max(0, y)")]) == "1 - x - 0.5*max(0, y)"
    assert format_row({"x": 1.0, "odd name'": -2.0}, "<=", 0.0) == "x <= 2*`odd name`'"
    assert format_row({"x": -1.0, "y": -2.0}, "==", 0.0) == "-x - 2*y == 0"
    assert format_row({"x": 1.0, "y": -2.0}, ">=", -3.5) == "x - 2*y >= -3.5"


def test_every_part_of_a_problem_file_reads_back(tmp_path: Path) -> None:
    odd = 'odd "name" \\ 1'
    ReluNetwork.sequential([[[2.0]]], [[1.0]]).save(tmp_path / "network.onnx")
    ProblemText(
        name="all of it",
        horizon=4,
        reward=f"target*`{odd}`' - k'",
        states=(Variable("x", "continuous", -1.0, 0.1), Variable(odd, "boolean")),
        actions=(Variable("a", "integer", 0.0, 3.0),),
        auxiliaries=(Variable("k", "continuous", 0.0),),
        initial_values={"x": (-0.5, 0.1), odd: 1.0},
        constraints=("k >= x",),
        goal=("x >= 0",),
        initial=("x <= 0.05",),
        constants={"target": 2.5},
        network=NetworkEntry("network.onnx", ("a",), ("x",), "delta"),
        transitions={odd: f"`{odd}`"},
        comments=("by hand", ""),
    ).write(tmp_path / "problem.toml")
    problem = Problem.load(tmp_path / "problem.toml")
    assert [(v.kind, v.lower, v.upper) for v in problem.input_variables] == [
        ("continuous", -1.0, 0.1), ("boolean", 0.0, 1.0), ("integer", 0.0, 3.0), ("continuous", 0.0, np.inf),
    ]  # fmt: skip
    assert (problem.initial_lower.tolist(), problem.initial_upper.tolist()) == ([-0.5, 1.0], [0.1, 1.0])
    assert problem.next_states(np.array([-0.5, 1.0, 2.0, 0.0])).tolist() == [4.5, 1.0]
    now = {"x": 0.0, odd: 0.0, "a": 0.0, "k": 0.0}
    assert reward(problem, now, {"x": 0.0, odd: 1.0, "k": 0.5}) == 2.0
    assert [len(rows) for rows in (problem.constraints, problem.goal, problem.initial_constraints)] == [1, 1, 1]
