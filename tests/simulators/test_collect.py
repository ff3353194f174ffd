"""Collected data are true transitions, within what each state allows, and the same for the same seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reluplan.data import Transitions
from reluplan.errors import InputError
from reluplan.simulators.collect import collect
from reluplan.simulators.settings import CollectionSettings
from shared_data import EXAMPLES

SYSTEM = """
STATES = {"level[a]": (0, 10), "level[b]": (0, 50)}
ACTIONS = {"flow[a]": (0, 10), "flow[b]": (0, 50)}
INITIAL = {"level[a]": 4, "level[b]": 9}
HORIZON = 12

def step(state, action):
    a, b = state
    return a + 1 - 0.5 * action[0], b + action[0] - action[1]

def explode(state, action):
    return state[0] * 1e200, state[1]

def burst(state, action):
    return state[0] * 1e200 * 1e200, state[1]

def jump(state, action):
    return state[0] + 30, state[1]
"""
PROBLEM = """
horizon = 5
reward = "level[a]'"
constraints = ["flow[a] <= level[a]", "flow[b] <= level[b]", "level[a]' >= 1", "flow[a] + flow[b] == 3"]
[network]
file = "not_there_yet.onnx"
inputs = ["level[a]", "level[b]", "flow[a]", "flow[b]"]
outputs = ["level[a]", "level[b]"]
[state."level[a]"]
bounds = [1, 8]
initial = 4
[state."level[b]"]
initial = 9
[action."flow[b]"]
bounds = [0, 20]
[action."flow[a]"]
"""
quick = settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def system(tmp_path: Path) -> str:
    path = tmp_path / "system.py"
    path.write_text(SYSTEM)
    return f"{path}:step"


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.toml"
    path.write_text(PROBLEM)
    return path


def same(one: Transitions, other: Transitions) -> bool:
    fields = ("episode", "step", "states", "actions", "next_states")
    return all(np.array_equal(getattr(one, field), getattr(other, field)) for field in fields)


def require_true(data: Transitions) -> None:
    """Every row is a transition of the system, and rows of an episode hang together."""
    a, b = data.states.T
    expected = np.column_stack([a + 1 - 0.5 * data.actions[:, 0], b + data.actions[:, 0] - data.actions[:, 1]])
    assert np.array_equal(data.next_states, expected)
    follows = (np.diff(data.episode) == 0) & (np.diff(data.step) == 1)
    assert np.array_equal(data.states[1:][follows], data.next_states[:-1][follows])
    assert (data.step[np.flatnonzero(np.diff(data.episode, prepend=-1))] == 0).all()


@pytest.mark.parametrize("exploration", ["uniform", "smooth", "latin"])
@quick
@given(seed=st.integers(0, 2**31))
def test_data_are_transitions_of_the_system_within_the_problem(
    system: str, problem: Path, exploration: str, seed: int
) -> None:
    data = collect(system, episodes=6, seed=seed, exploration=exploration, problem=problem)
    require_true(data)
    assert (data.actions <= data.states).all()
    assert data.actions.min() >= 0.0
    assert data.actions[:, 1].max() <= 20.0
    assert (data.states[:, 0] >= 1.0 - 1e-6).all()
    assert (data.states[:, 0] <= 8.0 + 1e-5).all()


def test_the_horizon_is_the_default_length_and_ten_for_restarts(system: str, problem: Path) -> None:
    counts = dict.fromkeys(("uniform", "latin"), 0)
    for exploration in counts:
        data = collect(system, episodes=30, exploration=exploration, problem=problem)
        counts[exploration] = int(data.step.max()) + 1
    assert counts == {"uniform": 12, "latin": 10}
    assert collect(system, episodes=2, steps=3).step.max() <= 2


def test_first_states_are_spread_over_the_bounds_by_latin(system: str) -> None:
    data = collect(system, episodes=20, steps=1, exploration="latin")
    assert sorted(np.floor(data.states[:, 0] / 0.5).astype(int).tolist()) == list(range(20))
    assert sorted(np.floor(data.states[:, 1] / 2.5).astype(int).tolist()) == list(range(20))
    assert (collect(system, episodes=5, steps=1).states == [4, 9]).all()


@pytest.mark.parametrize("exploration", ["uniform", "latin"])
def test_the_same_seed_gives_the_same_data_whatever_the_processes(system: str, exploration: str) -> None:
    one = collect(system, episodes=7, steps=4, seed=3, exploration=exploration)
    two = collect(system, episodes=7, steps=4, seed=3, exploration=exploration, processes=2)
    other = collect(system, episodes=7, steps=4, seed=4, exploration=exploration)
    assert same(one, two)
    assert not np.array_equal(one.actions[:4], other.actions[:4])


def test_more_episodes_begin_with_the_same_ones(system: str) -> None:
    few, many = (collect(system, episodes=count, exploration="smooth", seed=1) for count in (3, 6))
    assert same(few, many.select(many.episode < 3))


def test_progress_is_told(system: str) -> None:
    told: list[int] = []
    collect(system, episodes=4, steps=2, on_episode=told.append)
    assert told == [1, 2, 3, 4]


def test_rddl_preconditions_hold_and_noise_follows_the_seed() -> None:
    """Reservoirs with random rain; what is released is at most what the domain allows."""
    one, again = (collect("Reservoir_Continuous", "0", episodes=2, steps=10, seed=5) for _ in range(2))
    assert same(one, again)
    assert not np.array_equal(one.next_states, collect("Reservoir_Continuous", "0", 2, 10, seed=6).next_states)
    assert one.state_names == ("rlevel[t1]", "rlevel[t2]", "rlevel[t3]")


def test_the_reservoir_example_releases_no_more_than_there_is() -> None:
    folder = EXAMPLES / "reservoir"
    data = collect(str(folder / "domain.rddl"), "instance_3.rddl", episodes=8, steps=5, exploration="latin")
    assert (data.actions <= data.states).all()
    shares = (data.actions / data.states).ravel()
    counts, _ = np.histogram(shares, bins=4, range=(0.0, 1.0))
    assert counts.min() > 0.1 * len(shares)  # small and large releases alike


def test_discrete_actions_are_tried_all() -> None:
    data = collect("gym:CartPole-v1", episodes=5, steps=20)
    assert set(data.actions[:, 0].tolist()) == {0.0, 1.0}


def test_an_episode_ends_where_a_state_leaves_its_bounds_or_is_no_number(system: str) -> None:
    data = collect(system.replace(":step", ":jump"), episodes=3, steps=5)
    assert len(data) == 3
    assert (data.next_states[:, 0] == 34).all()
    exploded = collect(system.replace(":step", ":explode"), episodes=2, steps=5)
    assert np.isfinite(exploded.next_states).all()
    with pytest.raises(InputError, match="gave no transition"):
        collect(system.replace(":step", ":burst"), episodes=2, steps=5)


def test_what_cannot_be_collected_is_bad_input(system: str, problem: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown exploration 'wild'"):
        collect(system, exploration="wild")
    with pytest.raises(InputError, match="episodes must be at least 1"):
        collect(system, episodes=0)
    with pytest.raises(InputError, match="steps must be at least 1"):
        collect(system, steps=0)
    with pytest.raises(InputError, match="seed must be at least 0"):
        collect(system, seed=-1)
    with pytest.raises(InputError, match="processes must be at least 1"):
        collect(system, processes=0)
    with pytest.raises(InputError, match="cannot be put into a chosen state"):
        collect("gym:Pendulum-v1", exploration="latin")
    with pytest.raises(InputError, match=r"state 'obs\[1\]' has the bounds \[-inf, inf\].*--problem"):
        collect("gym:CartPole-v1", exploration="latin")
    problem.write_text(PROBLEM.replace("level[b]", "depth[b]"))
    with pytest.raises(InputError, match=r"the simulator has no state 'depth\[b\]'"):
        collect(system, problem=problem)
    problem.write_text(PROBLEM.replace("[0, 20]", "[60, 70]"))
    with pytest.raises(InputError, match=r"action 'flow\[b\]': the bounds of .* do not overlap"):
        collect(system, problem=problem)
    problem.write_text(PROBLEM.replace("flow[a] <= level[a]", "flow[a] >= level[a] + 100"))
    with pytest.raises(InputError, match="no allowed action was found in the state"):
        collect(system, problem=problem)


def test_settings_decide_how_long_episodes_last(system: str) -> None:
    path, _, _ = system.rpartition(":")
    Path(path).write_text(SYSTEM.replace("HORIZON = 12", "") + "\ndef calm(state, action):\n    return state\n")
    short = CollectionSettings(default_steps=7, restarted_steps=2)
    assert len(collect(f"{path}:calm", episodes=1)) == 100
    assert len(collect(f"{path}:calm", episodes=1, settings=short)) == 7
    assert len(collect(f"{path}:calm", episodes=3, exploration="latin")) == 30
    assert len(collect(f"{path}:calm", episodes=3, exploration="latin", settings=short)) == 6


REWARDED = """
STATES = {NAMES}
ACTIONS = {"push": (0, 1)}
INITIAL = {name: 0 for name in STATES}


def paid(state, action):
    return [state[0] + action[0]] * len(STATES), 3 * action[0]


def unpaid(state, action):
    return [state[0] + action[0]] * len(STATES)
"""


@pytest.mark.parametrize(
    ("names", "column"), [("x", "reward"), ("Reward", "simulator_reward"), ("reward x simulator_reward", None)]
)
def test_the_simulators_reward_is_a_column_under_a_name_that_is_free(
    tmp_path: Path, names: str, column: str | None
) -> None:
    table = dict.fromkeys(names.split(), (0, 100))
    (tmp_path / "system.py").write_text(REWARDED.replace("{NAMES}", repr(table)))
    found = collect(f"{tmp_path / 'system.py'}:paid", episodes=2, steps=3)
    assert set(found.extras) == ({column} if column else set())
    if column:
        np.testing.assert_allclose(found.extras[column], 3.0 * found.actions[:, 0])
    assert collect(f"{tmp_path / 'system.py'}:unpaid", episodes=1, steps=3).extras == {}
