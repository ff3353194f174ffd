"""Systems that nobody thought of: networks with random weights."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.writer import ProblemText, format_sum

from .system import Half, System, box, names, reads


def random_network(seed: int, states: int, actions: int, hidden: tuple[int, ...]) -> ReluNetwork:
    """s' = A s + B a + V max(0, W (s, a) + b), layer upon layer; the spectral norm of A is 0.8."""
    rng = np.random.default_rng(seed)
    inputs = states + actions
    layers = []
    width = read = inputs
    for units in hidden:
        weights = np.zeros((units, width))
        weights[:, width - read :] = rng.normal(size=(units, read)) / np.sqrt(read)
        layers.append(Layer(weights, 0.5 * rng.normal(size=units)))
        width, read = width + units, units
    linear = rng.normal(size=(states, states))
    last = np.zeros((states, width))
    last[:, :states] = 0.8 * linear / np.linalg.norm(linear, 2)
    last[:, states:inputs] = 0.4 * rng.normal(size=(states, actions))
    last[:, width - read :] = rng.normal(size=(states, read)) / np.sqrt(read)
    return ReluNetwork(inputs, tuple(layers), Layer(last, 0.1 * rng.normal(size=states)))


def random_system(
    name: str, half: Half, seed: int, states: int, actions: int, hidden: tuple[int, ...], horizon: int
) -> System:
    """Reach random targets, but for the first state, which shall leave its own: a reward that is not concave."""
    rng = np.random.default_rng(1000 + seed)
    network = random_network(seed, states, actions, hidden)
    state_box = box(**{f"s{i}": (-4.0, 4.0) for i in range(states)})
    action_box = box(**{f"a{i}": (-1.0, 1.0) for i in range(actions)})
    problem = ProblemText(
        name, horizon, _reward(rng, states, actions), state_box, action_box,
        initial_values={f"s{i}": value for i, value in enumerate(rng.uniform(-1, 1, states).round(3).tolist())},
        network=reads((*names(state_box), *names(action_box)), names(state_box), "next"),
        comments=("A network with random weights.",),
    )  # fmt: skip
    return System(name, f"random, {len(hidden)} layers", half, problem, lambda: network, (horizon,))


def _reward(rng: Generator, states: int, actions: int) -> str:
    """0.5 |s0' − c0| − Σ_{i>0} |si' − ci| − 0.1 Σ |aj|."""
    targets = rng.uniform(-1.5, 1.5, states).round(3)
    away = [(0.5 if i == 0 else -1.0, f"abs(s{i}' - {_number(c)})") for i, c in enumerate(targets)]
    return format_sum([*away, *((-0.1, f"abs(a{j})") for j in range(actions))])


def _number(value: float) -> str:
    return f"({value:g})" if value < 0.0 else f"{value:g}"


TUNING = (
    random_system("random-small", "tune", 12, 3, 2, (10,), 5),
    random_system("random-3", "tune", 3, 3, 2, (24,), 10),
)
TESTING = (
    random_system("random-5", "test", 5, 5, 2, (16, 16), 10),
    random_system("random-6", "test", 6, 6, 3, (20, 20), 8),
)
