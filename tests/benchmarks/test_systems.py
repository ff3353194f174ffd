"""The family of systems: simulators against hand-computed steps and gymnasium, and the same files every time."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.systems import (
    FAMILY,
    acrobot,
    building,
    cart_pole,
    mountain_car,
    obstacles,
    pendulum,
    race_car,
    reactor,
    tanks,
)
from benchmarks.systems.learned import QUICK, Learned
from benchmarks.systems.octagon import octagon_row
from benchmarks.systems.pushing import KEYS, write_pushing
from random_problems import random_network
from reluplan.problem.check import check
from reluplan.problem.expression import Scope, parse_constraints
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import simulate

Array = NDArray[np.float64]


# The family


def test_the_family_is_of_many_kinds_and_half_of_it_is_kept_for_testing() -> None:
    kinds = {system.kind for system in FAMILY.values()}
    halves = [system.half for system in FAMILY.values()]
    assert len(FAMILY) >= 14
    assert len(kinds) >= 12
    assert min(halves.count("tune"), halves.count("test")) >= 7


@pytest.mark.parametrize("name", ["random-small", "random-5", "reservoir-3"])
def test_files_are_the_same_every_time(name: str, tmp_path: Path) -> None:
    first, second = (FAMILY[name].make(tmp_path / str(number)) for number in range(2))
    assert first.read_bytes() == second.read_bytes()
    assert (first.parent / "network.onnx").read_bytes() == (second.parent / "network.onnx").read_bytes()


@pytest.mark.parametrize("name", FAMILY)
def test_problem_files_are_read(name: str, tmp_path: Path) -> None:
    """With any network of the right size: training is tested below."""
    entry = FAMILY[name].problem.network
    assert entry is not None
    network = random_network(np.random.default_rng(0), len(entry.inputs), [3], len(entry.outputs))
    problem = Problem.load(replace(FAMILY[name], network=lambda: network).make(tmp_path))
    assert problem.name == name
    assert problem.horizon == FAMILY[name].horizons[0]


def test_training_gives_the_same_network_every_time() -> None:
    """A network of four units, trained for a moment."""
    pytest.importorskip("torch")
    recipe = pendulum.SYSTEM.network
    assert isinstance(recipe, Learned)
    quick = replace(recipe, settings=replace(QUICK, hidden=(4,), epochs=3, polish=5), episodes=30)
    assert quick().fingerprint() == quick().fingerprint()


@pytest.mark.parametrize("name", [name for name, system in FAMILY.items() if isinstance(system.network, Learned)])
def test_data_are_steps_of_the_simulator_within_the_box(name: str) -> None:
    recipe = FAMILY[name].network
    assert isinstance(recipe, Learned)
    data = replace(recipe, episodes=20).data()
    lower, upper = (np.array([getattr(state, side) for state in recipe.problem.states]) for side in ("lower", "upper"))
    assert len(data) > 20
    np.testing.assert_array_equal(data.next_states, recipe.step(data.states, data.actions))
    assert ((data.next_states >= lower) & (data.next_states <= upper)).all()


# Simulators


def stepped(module: Any, state: list[float], action: list[float]) -> Array:
    """One step of one state."""
    return np.asarray(module.step(np.array([state]), np.array([action]))[0], dtype=np.float64)


def test_a_hanging_pendulum_is_pushed() -> None:
    """ω' = 3 · 2 · 0.05 = 0.3, and the angle moves on by 0.015."""
    expected = [-math.cos(0.015), -math.sin(0.015), 0.3]
    np.testing.assert_allclose(stepped(pendulum, [-1.0, 0.0, 0.0], [2.0]), expected, atol=1e-12)


def test_tanks_flow_into_each_other() -> None:
    """0.5 √4 = 1 leaves the first, which is pumped 1; all of 1 leaves the second; the last valves hold nothing back."""
    after = stepped(tanks, [4.0, 1.0, 0.0, 9.0], [1.0, 0.5, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(after, [4.0, 1.0, 1.0, 9.0])


def test_a_puck_that_is_pushed_against_its_drag_keeps_its_speed() -> None:
    np.testing.assert_allclose(stepped(obstacles, [0.0, 2.0, 1.0, 0.0], [0.3, 0.0]), [0.5, 2.0, 1.0, 0.0])


def test_a_car_that_is_driven_straight_keeps_its_heading() -> None:
    after = stepped(race_car, [1.0, 1.0, 0.0, 2.0], [0.2, 0.0])
    np.testing.assert_allclose(after, [1.5, 1.0, 0.0, 2.0], atol=1e-12)


def test_a_building_as_cold_as_the_night_stays_so() -> None:
    """At midnight it is 12 − 8 · 0.7 = 6.4 °C outside; the clock turns by an hour."""
    hour = math.pi / 12
    after = stepped(building, [6.4, 6.4, 6.4, 1.0, 0.0], [0.0, 0.0, 0.0])
    np.testing.assert_allclose(after, [6.4, 6.4, 6.4, math.cos(hour), math.sin(hour)], atol=1e-12)


def test_the_reactor_rests_where_it_shall_be_held() -> None:
    """k(350) = 7.2e10 exp(−25) = 1.0: half of the feed reacts, and its heat, 104.6, is what the jacket takes."""
    change = stepped(reactor, [0.5, 350.0], [300.0]) - [0.5, 350.0]
    assert np.all(np.abs(change) <= [1e-3, 0.1])


GYMNASIUM = {
    "Pendulum-v1": (pendulum, [-3.0, -7.0], [3.0, 7.0]),
    "CartPole-v1": (cart_pole, [-2.0, -2.0, -0.2, -2.0], [2.0, 2.0, 0.2, 2.0]),
    "MountainCarContinuous-v0": (mountain_car, [-1.19, -0.07], [0.4, 0.07]),
    "Acrobot-v1": (acrobot, [-3.0, -3.0, -2.0, -2.0], [3.0, 3.0, 2.0, 2.0]),
}


@pytest.mark.parametrize("name", GYMNASIUM)
def test_simulators_step_as_gymnasium_does(name: str) -> None:
    """From random states (of angles, where we see their cosine and sine), with the largest and the smallest action."""
    gymnasium = pytest.importorskip("gymnasium")
    module, low, high = GYMNASIUM[name]
    environment = gymnasium.make(name).unwrapped
    environment.reset(seed=0)
    rng = np.random.default_rng(0)
    for is_high in [False, True] * 10:
        inner = rng.uniform(low, high)
        action = module.ACTIONS[0].upper if is_high else module.ACTIONS[0].lower
        expected = _step_of(environment, name, inner, action, is_high)
        after = stepped(module, _seen(name, inner), [action])
        np.testing.assert_allclose(after, expected, atol=2e-6)  # gymnasium observes in float32


def _seen(name: str, inner: Array) -> list[float]:
    if name == "Pendulum-v1":
        return [math.cos(inner[0]), math.sin(inner[0]), inner[1]]
    if name == "Acrobot-v1":
        angles = [f(angle) for angle in inner[:2] for f in (math.cos, math.sin)]
        return [*angles, *inner[2:]]
    return list(inner)


def _step_of(environment: Any, name: str, inner: Array, action: float, is_high: bool) -> Array:
    environment.state = np.array(inner)
    if name == "CartPole-v1":
        environment.steps_beyond_terminated = None
    discrete = {"CartPole-v1": int(is_high), "Acrobot-v1": 2 * int(is_high)}
    observed = environment.step(discrete.get(name, np.array([action])))[0]
    return np.asarray(observed, dtype=np.float64)


# Obstacles


@given(st.floats(-3.0, 3.0), st.floats(-3.0, 3.0), st.floats(0.1, 1.5))
def test_who_stays_out_of_the_octagon_stays_out_of_the_circle(x: float, y: float, radius: float) -> None:
    """And the octagon is the smallest around it: its corners are r / cos(π/8) away."""
    row = octagon_row("x", "y", (0.5, -0.25, radius))
    (constraint,) = parse_constraints(row, Scope({"x": 0, "y": 1}, {}, 2), "row")
    is_out = constraint.violation(np.array([x, y])) <= 0.0
    distance = math.hypot(x - 0.5, y + 0.25)
    if is_out:
        assert distance >= radius - 1e-9
    elif distance >= radius:
        assert distance <= radius / math.cos(math.pi / 8) + 1e-9


# The T that is pushed


def test_the_final_reward_is_the_published_cost(tmp_path: Path) -> None:
    """Of an instance of our own in the published format: Σ |keypoint − target| after the last step."""
    network = random_network(np.random.default_rng(0), 10, [6], 8)
    network.save(tmp_path / "network.onnx")
    rng = np.random.default_rng(1)
    instance = {
        "keypoints": rng.uniform(1, 4, 8).tolist(), "pusher": [3.0, 2.0], "target": rng.uniform(1, 4, 8).tolist(),
        "obstacles": [{"centre": [9.0, 9.0], "radius": 0.5}, {"centre": [3.1, 2.0], "radius": 0.5}],
        "horizon": 2, "action_bound": 0.25, "published": {"CEM": {"cost": 1.0}},
    }  # fmt: skip
    (tmp_path / "instances.json").write_text(json.dumps({"instances": [instance]}))
    made = write_pushing(tmp_path, tmp_path / "made")
    problem = Problem.load(made["pushing-0"])
    actions = np.array([[0.1, -0.2], [0.25, 0.0]])
    found = simulate(problem, problem.initial_lower, actions)
    pusher = np.array([3.0, 2.0]) + actions.sum(axis=0)
    keypoints = found.states[-1, : len(KEYS)] + np.tile(pusher, 4)
    assert found.total_reward == pytest.approx(-np.abs(keypoints - instance["target"]).sum())
    assert not any("max(" in violation.constraint for violation in check(problem, found).broken)
    strict = Problem.load(made["pushing-0-obstacles"])
    assert any("max(" in violation.constraint for violation in check(strict, found).broken)  # the pusher stands on it
