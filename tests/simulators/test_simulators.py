"""Simulators step as their domain says, start where they are put, and refuse what their state does not allow."""

from __future__ import annotations

import contextlib
import io
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reluplan.errors import InputError
from reluplan.simulators import Simulator, open_simulator
from reluplan.simulators.exploration import action_fractions, latin_hypercube
from reluplan.simulators.limits import ActionLimits, Box, between
from reluplan.simulators.matching import match_names

quick = settings(deadline=None, max_examples=40)
fractions = st.floats(0.0, 1.0)

DOMAIN = """
domain works {
    types { tank : object; mode : { @slow, @fast }; };
    pvariables {
        CAP(tank)           : { non-fluent, real, default = 10.0 };
        height(tank)         : { state-fluent, real, default = 4.0 };
        link(tank, tank)    : { state-fluent, bool, default = false };
        tally               : { state-fluent, int, default = 2 };
        gear                : { state-fluent, mode, default = @slow };
        flow(tank)          : { action-fluent, real, default = 0.0 };
        add                 : { action-fluent, int, default = 0 };
        toggle              : { action-fluent, bool, default = false };
    };
    cpfs {
        height'(?t) = height(?t) - flow(?t) + add;
        link'(?a, ?b) = link(?a, ?b) | (toggle ^ (?a == ?b));
        tally' = tally + add;
        gear' = if (toggle) then @fast else gear;
    };
    reward = (sum_{?t : tank} [height'(?t)]) - tally';
    action-preconditions {
        forall_{?t : tank} [flow(?t) >= 0.0];
        forall_{?t : tank} [flow(?t) <= CAP(?t)];
        forall_{?t : tank} [flow(?t) - height(?t) <= 0.0];
        add >= -1;
        add <= 2;
    };
    state-invariants {
        forall_{?t : tank} [height(?t) >= 0.0];
        forall_{?t : tank} [height(?t) <= CAP(?t)];
    };
}
"""
INSTANCE = """
non-fluents works_nf { domain = works; objects { tank : { a, b }; }; non-fluents { CAP(b) = 20.0; }; }
instance works_1 {
    domain = works; non-fluents = works_nf;
    init-state { height(b) = 7.0; };
    max-nondef-actions = LIMIT; horizon = 9; discount = 1.0;
}
"""
STATES = ("height[a]", "height[b]", "link[a,a]", "link[a,b]", "link[b,a]", "link[b,b]", "tally", "gear")
ACTIONS = ("flow[a]", "flow[b]", "add", "toggle")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    domain, instance = tmp_path / "domain.rddl", tmp_path / "instance_1.rddl"
    domain.write_text(DOMAIN)
    instance.write_text(INSTANCE.replace("LIMIT", "pos-inf"))
    return domain, instance


@pytest.fixture
def works(files: tuple[Path, Path]) -> Simulator:
    return open_simulator(str(files[0]), str(files[1]))


def test_fluents_are_named_as_in_problem_files_and_bounded_by_the_domain(works: Simulator) -> None:
    assert works.state_names == STATES
    assert works.action_names == ACTIONS
    assert works.state_lower.tolist() == [0, 0, 0, 0, 0, 0, -math.inf, 0]
    assert works.state_upper.tolist() == [10, 20, 1, 1, 1, 1, math.inf, 1]
    assert works.action_lower.tolist() == [0, 0, -1, 0]
    assert works.action_upper.tolist() == [10, 20, 2, 1]
    assert works.state_is_discrete.tolist() == [False, False, True, True, True, True, True, True]
    assert works.action_is_discrete.tolist() == [False, False, True, True]
    assert works.default_action.tolist() == [0, 0, 0, 0]
    assert works.horizon == 9


def test_a_step_follows_the_domain(works: Simulator) -> None:
    assert works.reset(0).tolist() == [4, 7, 0, 0, 0, 0, 2, 0]
    state, reward, over = works.step(np.array([1.5, 2.0, 1.0, 1.0]))
    assert state.tolist() == [3.5, 6.0, 1, 0, 0, 1, 3, 1]
    assert reward == pytest.approx(3.5 + 6.0 - 3.0)
    assert not over
    assert works.reset(0).tolist() == [4, 7, 0, 0, 0, 0, 2, 0]


def test_a_step_starts_where_the_simulator_was_put(works: Simulator) -> None:
    works.reset(0)
    works.set_state(np.array([9.0, 1.25, 0, 1, 0, 0, 5, 1]))
    state, _, over = works.step(np.array([0.0, 1.0, 2.0, 0.0]))
    assert state.tolist() == [11.0, 2.25, 0, 1, 0, 0, 7, 1]
    assert over  # height[a] is above its capacity
    assert works.step(np.zeros(4))[0][0] == 11.0  # goes on if asked to


def test_forbidden_actions_are_refused_with_the_reason(works: Simulator) -> None:
    works.reset(0)
    assert works.allows(np.array([4.0, 7.0, 2.0, 1.0]))
    assert works.refusal(np.array([4.0, 7.0, 2.0, 1.0])) is None
    too_much = np.array([4.5, 0.0, 0.0, 0.0])
    assert not works.allows(too_much)
    assert "flow(?t) - height(?t)" in (works.refusal(too_much) or "")
    with pytest.raises(InputError, match=r"flow\[a\] = 4.5.*refused: the action precondition"):
        works.step(too_much)
    assert works.step(np.zeros(4))[0][0] == 4.0  # as if nothing had happened


def test_no_more_actions_than_the_instance_allows(files: tuple[Path, Path]) -> None:
    files[1].write_text(INSTANCE.replace("LIMIT", "1"))
    works = open_simulator(f"{files[0]},{files[1]}")
    works.reset(0)
    assert works.allows(np.array([1.0, 0.0, 0.0, 0.0]))
    assert "max-nondef-actions" in (works.refusal(np.array([1.0, 1.0, 0.0, 0.0])) or "")


def test_instances_are_found_by_path_name_and_number(files: tuple[Path, Path]) -> None:
    domain, instance = files
    for name in (str(instance), instance.name, "instance_1", "1"):
        assert open_simulator(str(domain), name).horizon == 9
    single = domain.with_name("both.rddl")
    single.write_text(DOMAIN + INSTANCE.replace("LIMIT", "pos-inf"))
    assert open_simulator(str(single)).state_names == STATES
    with pytest.raises(InputError, match=r"which instance\?.*instance_1\.rddl"):
        open_simulator(str(domain))
    with pytest.raises(InputError, match="no such RDDL instance file"):
        open_simulator(str(domain), "2")
    with pytest.raises(InputError, match="no such RDDL domain file"):
        open_simulator(str(domain.with_name("none.rddl")), "1")


def test_a_broken_domain_is_bad_input_in_one_line(files: tuple[Path, Path]) -> None:
    files[0].write_text(DOMAIN.replace("tally' = tally + add;", "tally' = tally + + ;"))
    with pytest.raises(InputError, match="pyRDDLGym cannot use it") as caught:
        open_simulator(str(files[0]), str(files[1]))
    assert "\n" not in str(caught.value)


def test_the_repository_of_domains_is_open_and_silent() -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        reservoir = open_simulator("Reservoir_Continuous", "0")
        first = reservoir.reset(1)
        random = reservoir.step(reservoir.default_action)[0]
    assert out.getvalue() + err.getvalue() == ""
    assert reservoir.state_names == ("rlevel[t1]", "rlevel[t2]", "rlevel[t3]")
    assert reservoir.action_upper.tolist() == [100, 100, 100]
    assert reservoir.reset(1).tolist() == first.tolist()
    assert reservoir.step(reservoir.default_action)[0].tolist() == random.tolist()
    reservoir.reset(2)
    assert reservoir.step(reservoir.default_action)[0].tolist() != random.tolist()


def test_the_state_that_is_read_is_the_state_that_pyrddlgym_logs() -> None:
    import pyRDDLGym

    ours = open_simulator("HVAC", "0")
    with contextlib.redirect_stderr(io.StringIO()):
        theirs = pyRDDLGym.make("HVAC", "0", vectorized=False)
    state, _ = theirs.reset(seed=3)
    assert ours.reset(3).tolist() == list(state.values())
    rng = np.random.default_rng(0)
    for _ in range(5):
        action = rng.uniform(ours.action_lower, ours.action_upper)
        state, reward, *_ = theirs.step(dict(zip(theirs.action_space, action.tolist(), strict=True)))
        mine, paid, _ = ours.step(action)
        assert mine.tolist() == list(state.values())
        assert paid == reward


@pytest.mark.parametrize(
    ("spec", "instance", "message"),
    [
        ("HVACK", None, r"did you mean 'HVAC'\?"),
        ("HVAC", "77", "has no instance '77'; it has 0, 1"),
        ("gym:NoSuchThing-v0", None, "gymnasium cannot make it"),
        ("gym:FrozenLake-v1", None, "only vectors"),
        ("gym:CartPole-v1", "1", "only RDDL domains have instances"),
        ("nowhere.py:step", None, "no such Python file"),
        ("nowhere.py", None, "expected file.py:function"),
        ("no.such.module:step", None, "cannot be imported"),
        ("math:sinn", None, r"has no function 'sinn' \(did you mean 'sin'\?\)"),
        ("math:sin", None, "must say STATES"),
    ],
)
def test_what_is_no_simulator_is_bad_input(spec: str, instance: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_simulator(spec, instance)


def test_gymnasium_environments_with_vectors() -> None:
    cart = open_simulator("gym:CartPole-v1")
    assert cart.state_names == ("obs[0]", "obs[1]", "obs[2]", "obs[3]")
    assert (cart.action_lower.tolist(), cart.action_upper.tolist()) == ([0.0], [1.0])
    assert cart.action_is_discrete.tolist() == [True]
    assert cart.state_upper[1] == math.inf
    assert cart.horizon == 500
    assert cart.reset(5).tolist() == cart.reset(5).tolist()
    assert cart.can_set_state
    cart.set_state(np.array([0.5, 0.0, 0.1, 0.0]))
    one = cart.step(np.array([1.0]))[0]
    cart.reset(6)
    cart.set_state(np.array([0.5, 0.0, 0.1, 0.0]))
    assert cart.step(np.array([1.0]))[0].tolist() == one.tolist()
    assert one[0] == pytest.approx(0.5)  # the first step moves the speed only
    with pytest.raises(InputError, match=r"action\[0\] = 2 lies outside \[0, 1\]"):
        cart.step(np.array([2.0]))
    cart.close()
    pendulum = open_simulator("gym:Pendulum-v1")
    assert not pendulum.can_set_state  # it shows cos and sin of the angle that it keeps
    assert pendulum.action_upper.tolist() == [2.0]
    state, reward, over = pendulum.step(np.array([0.5]))
    assert (state.shape, over) == ((3,), False)
    assert reward <= 0
    with pytest.raises(InputError, match="cannot be put into a chosen state"):
        pendulum.set_state(state)


TANK = """
from limits import CAP
STATES = {"level": (0, CAP), "rate": (-1, 1)}
ACTIONS = {"pump": (0, 3)}
INITIAL = {"rate": 0.5, "level": 2}
HORIZON = 7

def step(state, action):
    level, rate = state
    return min(level + rate + action[0], CAP), -rate

def paid(state, action):
    return step(state, action), 10 * action[0]

def short(state, action):
    return [1.0]

def broken(state, action):
    return 1 / 0
"""


@pytest.fixture
def tank(tmp_path: Path) -> Path:
    (tmp_path / "limits.py").write_text("CAP = 10\n")
    path = tmp_path / "tank.py"
    path.write_text(TANK)
    return path


def test_python_functions_are_simulators(tank: Path) -> None:
    simulator = open_simulator(f"python:{tank}:step")
    assert (simulator.state_names, simulator.action_names, simulator.horizon) == (("level", "rate"), ("pump",), 7)
    assert simulator.reset().tolist() == [2, 0.5]
    state, reward, over = simulator.step(np.array([3.0]))
    assert (state.tolist(), over) == ([5.5, -0.5], False)
    assert math.isnan(reward)
    simulator.set_state(np.array([9.0, 1.0]))
    assert simulator.step(np.array([1.0]))[0].tolist() == [10.0, -1.0]
    assert open_simulator(f"{tank}:paid").step(np.array([2.0]))[1] == 20
    assert simulator.refusal(np.array([3.5])) == "pump = 3.5 lies outside [0, 3]"


def test_functions_that_go_wrong_are_told(tank: Path) -> None:
    with pytest.raises(InputError, match="must return 2 numbers"):
        open_simulator(f"{tank}:short").step(np.array([1.0]))
    with pytest.raises(InputError, match="the function failed: ZeroDivisionError"):
        open_simulator(f"{tank}:broken").step(np.array([1.0]))
    tank.write_text(TANK.replace('"rate": 0.5, ', ""))
    with pytest.raises(InputError, match="INITIAL"):
        open_simulator(f"{tank}:step")
    tank.write_text(TANK.replace("(0, 3)", "3"))
    with pytest.raises(InputError, match="ACTIONS is"):
        open_simulator(f"{tank}:step")
    tank.write_text("import nothing_of_that_name\n")
    with pytest.raises(InputError, match="cannot be run: ModuleNotFoundError"):
        open_simulator(f"{tank}:step")


def test_names_are_matched_in_any_spelling() -> None:
    known = ("rlevel[t1]", "rlevel[t2]", "speed")
    assert match_names(known, ["speed", "rlevel___t2", "RLEVEL[t1]"], "state", "p").tolist() == [2, 1, 0]
    with pytest.raises(InputError, match=r"p: the simulator has no state 'speeds' \(did you mean 'speed'\?\)"):
        match_names(known, ["speeds"], "state", "p")


BOX = Box(np.array([0.0, -2.0, 0.0]), np.array([10.0, 2.0, 3.0]), np.array([False, False, True]))


@quick
@given(at=hnp.arrays(np.float64, 3, elements=fractions))
def test_points_of_a_box_lie_in_it_and_whole_numbers_are_whole(at: np.ndarray) -> None:
    point = BOX.point(at)
    assert ((BOX.lower <= point) & (point <= BOX.upper)).all()
    assert point[2] == round(point[2])
    assert BOX.point(np.zeros(3)).tolist() == [0, -2, 0]
    assert BOX.point(np.ones(3)).tolist() == [10, 2, 3]


def test_whole_numbers_get_equal_shares() -> None:
    grid = (np.arange(400) + 0.5) / 400
    values = between(np.zeros(400), np.full(400, 3.0), grid, np.ones(400, dtype=bool))
    assert np.bincount(values.astype(int)).tolist() == [100] * 4


@quick
@given(at=hnp.arrays(np.float64, 3, elements=fractions), limit=st.floats(0.05, 12.0), seed=st.integers(0, 99))
def test_spread_actions_are_allowed(at: np.ndarray, limit: float, seed: int) -> None:
    def allowed(action: np.ndarray) -> bool:
        return bool(action[0] + abs(action[1]) + action[2] <= limit)

    action = ActionLimits(BOX, np.zeros(3), allowed).spread(at, np.random.default_rng(seed))
    assert action is not None
    assert allowed(action)
    assert ((BOX.lower <= action) & (action <= BOX.upper)).all()


def test_spread_actions_cover_what_is_allowed_evenly() -> None:
    """flow <= level with levels far below the capacity: uniform over [0, level] in each coordinate."""
    level = np.array([0.5, 3.0])
    box = Box(np.zeros(2), np.array([10.0, 10.0]), np.zeros(2, dtype=bool))
    limits = ActionLimits(box, np.zeros(2), lambda action: bool((action <= level).all()))
    rng = np.random.default_rng(0)
    actions = np.array([limits.spread(rng.random(2), rng) for _ in range(800)]) / level
    for column in actions.T:
        counts, _ = np.histogram(column, bins=5, range=(0.0, 1.0))
        assert counts.min() > 100
    assert abs(np.corrcoef(actions.T)[0, 1]) < 0.15


def test_where_the_default_is_not_allowed_another_start_is_found_or_none() -> None:
    rng = np.random.default_rng(0)
    high = ActionLimits(BOX, np.zeros(3), lambda action: bool(action[0] >= 8.0))
    found = high.spread(np.zeros(3), rng)
    assert found is not None
    assert found[0] >= 8.0
    assert high.nearest(np.zeros(3)) is None
    assert ActionLimits(BOX, np.zeros(3), lambda _: False).spread(np.zeros(3), rng) is None


@quick
@given(wanted=hnp.arrays(np.float64, 3, elements=st.floats(-5.0, 15.0)), limit=st.floats(0.0, 10.0))
def test_the_nearest_action_changes_only_what_it_must(wanted: np.ndarray, limit: float) -> None:
    limits = ActionLimits(BOX, np.zeros(3), lambda action: bool(action[0] <= limit))
    wanted[2] = round(wanted[2])
    nearest = limits.nearest(wanted)
    assert nearest is not None
    expected = np.clip(wanted, BOX.lower, BOX.upper)
    expected[0] = min(expected[0], limit)
    assert nearest == pytest.approx(expected, abs=1e-9)


@quick
@given(steps=st.integers(1, 60), count=st.integers(1, 4), seed=st.integers(0, 99))
def test_fractions_are_fractions(steps: int, count: int, seed: int) -> None:
    for exploration in ("uniform", "smooth"):
        found = action_fractions(exploration, steps, count, np.random.default_rng(seed))
        assert found.shape == (steps, count)
        assert ((found >= 0.0) & (found <= 1.0)).all()


def test_smooth_actions_move_slowly_and_reach_both_ends() -> None:
    episodes = [action_fractions("smooth", 200, 1, np.random.default_rng(seed))[:, 0] for seed in range(50)]
    values = np.concatenate(episodes)
    assert (values == 0.0).mean() > 0.03
    assert (values == 1.0).mean() > 0.03
    counts, _ = np.histogram(values, bins=10, range=(0.0, 1.0))
    assert counts.min() > 0.05 * len(values)
    moves = np.mean([np.abs(np.diff(episode)).mean() for episode in episodes])
    assert moves < 0.6 * (1.0 / 3.0)  # independent uniform numbers differ by a third on average


@quick
@given(count=st.integers(1, 30), width=st.integers(0, 4), seed=st.integers(0, 99))
def test_a_latin_hypercube_has_one_point_in_each_part_of_each_axis(count: int, width: int, seed: int) -> None:
    points = latin_hypercube(count, width, np.random.default_rng(seed))
    assert points.shape == (count, width)
    for column in points.T:
        assert sorted(np.floor(column * count).astype(int).tolist()) == list(range(count))
