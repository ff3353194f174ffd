"""Small systems that several test files plan for: as problem files, as networks, as simulators, as data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from random_problems import random_network
from reluplan.data.transitions import Transitions

Array = NDArray[np.float64]

TANK = """
name = "tank"
horizon = 4
reward = "-abs(level' - 5) - 0.1*pump"
constraints = ["pump <= level + 1"]
[state."level"]
bounds = [0, 10]
initial = 2
[action."pump"]
bounds = [0, 3]
[transition]
"level" = "max(level - 1, 0) + pump"
"""
TANK_OPTIMUM = -1.7  # 3, 2, 1, 1: as fast as the pump allows to level 5, then what flows out

PLANT = """
horizon = 3
reward = "7 - abs(speed' - 1) + max(height', -speed) - 0.1*push"
constraints = ["push + pull <= 1.5"]
goal = ["height >= -3"]
[network]
file = "network.onnx"
inputs = ["push", "pull", "height", "speed"]
outputs = ["speed", "height"]
[state."height"]
bounds = [-5, 5]
initial = 0.5
[state."speed"]
bounds = [-5, 5]
initial = [-1, 1]
[action."push"]
bounds = [-1, 1]
[action."pull"]
kind = "integer"
bounds = [-1, 1]
"""
PLANT_NETWORK = random_network(np.random.default_rng(5), 4, [3, 3], 2)

HARD = """
horizon = 10
reward = "-position' + abs(speed') + abs(load')"
[network]
file = "hard.onnx"
inputs = ["position", "speed", "load", "push", "turn"]
outputs = ["position", "speed", "load"]
[state]
position = {bounds = [-3, 3], initial = 0}
speed = {bounds = [-3, 3], initial = 0}
load = {bounds = [-3, 3], initial = 0}
[action]
push = {bounds = [-1, 1]}
turn = {bounds = [-1, 1]}
"""
HARD_NETWORK = random_network(np.random.default_rng(1), 5, [40, 40], 3)
"""Too hard to be solved before somebody presses Ctrl-C."""

DRAINING = """
name = "tanks"
horizon = 4
reward = "-abs(low' - 5) - 0.1*flow"
constraints = ["flow <= high"]
goal = ["low >= 1"]
[state."high"]
bounds = [0, 10]
initial = [2, 6]
[state."low"]
bounds = [0, 10]
initial = 3
[action."flow"]
bounds = [0, 4]
[transition]
"high" = "high + 1 - flow"
"low" = "low + flow - 2"
"""
DRAINING_SYSTEM = """
STATES = {"LOW": (0, 10), "extra": (0, 1), "high": (0, 10)}
ACTIONS = {"unused": (-1, 1), "flow": (0, 4)}
INITIAL = {"LOW": 1, "extra": 0.25, "high": 1}

def exact(state, action):
    low, extra, high = state
    assert extra == 0.25 and action[0] == 0.0
    return low + action[1] - 2, extra, high + 1 - action[1]

def paid(state, action):
    low, extra, high = exact(state, action)
    return (low, extra, high), -abs(low - 5) - 0.1 * action[1] - 1

def leaking(state, action):
    low, extra, high = exact(state, action)
    return low - 0.5, extra, high

def exploding(state, action):
    low, extra, high = state
    return low * 1e200 * 1e200, extra, high

def wrong(state, action):
    return state * 0
"""
"""Python functions that are, or are not, the true system of the draining tanks."""

DRAINING_RDDL = """
domain tanks_true {
    pvariables {
        RAIN : { non-fluent, real, default = 0.5 };
        high : { state-fluent, real, default = 6.0 };
        low  : { state-fluent, real, default = 3.0 };
        flow : { action-fluent, real, default = 0.0 };
    };
    cpfs { high' = high + RAIN - flow; low' = low + flow - 2.0; };
    reward = -abs[low' - 5.0] - 0.1 * flow;
    action-preconditions { flow >= 0.0; flow <= 4.0; flow - high <= 0.0; };
    state-invariants { low >= 0.0; };
}
non-fluents dry { domain = tanks_true; non-fluents { RAIN = 0.5; }; }
instance tanks_1 { domain = tanks_true; non-fluents = dry; max-nondef-actions = pos-inf; horizon = 3; discount = 1.0; }
"""
"""The draining tanks with less rain than their problem file says."""

CASCADE = """
horizon = 3
reward = "-abs(upper' - 5)"
constraints = ["pump <= upper"]
[network]
file = "learned/network.onnx"
inputs = ["pump", "upper", "lower"]
outputs = ["lower", "upper"]
predicts = "delta"
[state."upper"]
bounds = [0, 10]
[state."lower"]
bounds = [0, 2000]
[action."pump"]
bounds = [0, 3]
"""


def cascade_data(episodes: int = 30, steps: int = 12, seed: int = 0) -> Transitions:
    """Two tanks with floors and an overflow: piecewise linear, with a different unit for each state."""
    rng = np.random.default_rng(seed)
    level = rng.uniform([0.0, 0.0], [10.0, 2000.0], (episodes, 2))
    parts: list[list[Array]] = [[], [], []]
    for _ in range(steps):
        pump = rng.uniform(0.0, 3.0, (episodes, 1))
        upper = np.maximum(level[:, :1] - 1.0, 0.0) + pump
        after = np.hstack([np.minimum(upper, 10.0), 0.9 * level[:, 1:] + 40.0 * np.maximum(upper - 8.0, 0.0)])
        for part, values in zip(parts, (level, pump, after), strict=True):
            part.append(values)
        level = after
    states, actions, after = (np.stack(part, axis=1).reshape(episodes * steps, -1) for part in parts)
    episode, step = np.repeat(np.arange(episodes), steps), np.tile(np.arange(steps), episodes)
    return Transitions(("upper", "lower"), ("pump",), episode, step, states, actions, after)
