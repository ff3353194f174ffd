"""What the search for the smallest network saves, and whether it costs accuracy.

    python benchmarks/network_search.py [--only NAME]

One row per system: the network of 32 units that is trained without the search, and the one that the search chooses.
The settings of the search were chosen on the first three systems; the others were not used for that. Systems are
simulated here, in numpy, or by gymnasium; run it from the repository's root. Needs the extras `train` and `gym`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from training import DOMAINS

from reluplan.data import Transitions
from reluplan.learning import TrainingReport, TrainingSettings
from reluplan.learning.train import train
from reluplan.problem.file import read_variables
from reluplan.problem.problem import Variable
from reluplan.simulators.collect import collect

Array = NDArray[np.float64]
Step = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class System:
    """Data, and what is learned from them."""

    data: Transitions
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    variables: tuple[Variable, ...]


def simulated(step: Step, state: list[float], action: list[float], noise: float = 0.0, count: int = 400) -> System:
    """Ten steps from states all over the box ±state with actions all over ±action; noise: in parts of the box."""
    rng = np.random.default_rng(1)
    names = tuple(f"s{i}" for i in range(len(state))), tuple(f"a{i}" for i in range(len(action)))
    now = rng.uniform(-1.0, 1.0, (count, len(state))) * state
    rows = []
    for _ in range(10):
        acts = rng.uniform(-1.0, 1.0, (count, len(action))) * action
        after = step(now, acts) + noise * rng.standard_normal(now.shape) * state
        rows.append((now, acts, after))
        now = after
    states, actions, next_states = (np.stack(part, axis=1).reshape(10 * count, -1) for part in zip(*rows, strict=True))
    episode, steps = np.repeat(np.arange(count), 10), np.tile(np.arange(10), count)
    box = zip(names[0] + names[1], [*state, *action], strict=True)
    variables = tuple(Variable(name, lower=-side, upper=side) for name, side in box)
    data = Transitions(names[0], names[1], episode, steps, states, actions, next_states)
    return System(data, names[0] + names[1], names[0], variables)


def car(state: Array, action: Array) -> Array:
    """Positions and velocities in the plane, with drag: linear."""
    position, velocity = state[:, :2], state[:, 2:]
    return np.hstack([position + 0.1 * velocity + 0.005 * action, 0.98 * velocity + 0.1 * action])


def piecewise(units: int, seed: int) -> Step:
    """A random network of that many ReLUs."""
    rng = np.random.default_rng(seed)
    linear, first = 0.2 * rng.normal(size=(2, 3)), rng.normal(size=(units, 3))
    bias, last = 0.5 * rng.normal(size=units), 0.4 * rng.normal(size=(2, units))

    def step(state: Array, action: Array) -> Array:
        read = np.hstack([state, action])
        change = read @ linear.T + np.maximum(read @ first.T + bias, 0.0) @ last.T
        return state + 0.3 * (change - 0.3 * state)

    return step


def tanks() -> System:
    """The two tanks of examples/tanks."""
    rng = np.random.default_rng(0)
    capacity = np.array([100.0, 200.0])
    level = rng.uniform(0.0, capacity, (4000, 2))
    flow = rng.uniform(0.0, 1.0, (4000, 2)) * level
    after = level + np.array([5.0, 10.0]) - 0.5 * np.sin(level / 1000.0) * level - flow
    after[:, 1] += flow[:, 0]
    names = ("upper", "lower"), ("out", "through")
    sides = zip(names[0] + names[1], [*capacity, *capacity], strict=True)
    variables = tuple(Variable(name, lower=0.0, upper=side) for name, side in sides)
    data = Transitions(*names, np.arange(4000), np.zeros(4000, dtype=np.int64), level, flow, after)
    return System(data, names[0] + names[1], names[0], variables)


def shipped(name: str) -> System:
    """A domain of the examples."""
    domain = DOMAINS[name]
    table = read_variables(domain.problem)
    assert table.network is not None
    data = domain.collect(short=800, long=20)
    return System(data, table.network.inputs, table.network.outputs, (*table.states, *table.actions))


def gymnasium(name: str, episodes: int, steps: int | None = None, exploration: str = "uniform") -> System:
    """An environment; its box is that of the data."""
    data = collect(f"gym:{name}", episodes=episodes, steps=steps, seed=1, exploration=exploration)
    return System(data, (*data.state_names, *data.action_names), data.state_names, ())


SYSTEMS: dict[str, Callable[[], System]] = {
    "tanks": tanks,
    "reservoir-3": lambda: shipped("reservoir-3"),
    "reservoir-4": lambda: shipped("reservoir-4"),
    "car": lambda: simulated(car, [10.0, 10.0, 5.0, 5.0], [3.0, 3.0]),
    "car, noise": lambda: simulated(car, [10.0, 10.0, 5.0, 5.0], [3.0, 3.0], noise=0.005),
    "3 ReLUs": lambda: simulated(piecewise(3, 100), [3.0, 3.0], [1.0]),
    "3 ReLUs, noise": lambda: simulated(piecewise(3, 100), [3.0, 3.0], [1.0], noise=0.004),
    "8 ReLUs": lambda: simulated(piecewise(8, 101), [3.0, 3.0], [1.0]),
    "Pendulum-v1": lambda: gymnasium("Pendulum-v1", 50),
    "CartPole-v1": lambda: gymnasium("CartPole-v1", 250),
    "MountainCarContinuous-v0": lambda: gymnasium("MountainCarContinuous-v0", 20, 300, "smooth"),
    "hvac-3": lambda: shipped("hvac-3"),
}


def cells(report: TrainingReport, seconds: float) -> str:
    """Undecided and all ReLUs, weights, the largest unexplained share, processor seconds."""
    unexplained = max(1.0 - state.r2_change for state in report.states if state.r2_change is not None)
    relus = f"{report.unstable_relus} of {report.relus}"
    return f"{relus} | {report.nonzero_weights} | {max(unexplained, 0.0):.1e} | {seconds:.0f}"


def learned(system: System, search: bool) -> str:
    """One training."""
    began = time.process_time()
    settings = TrainingSettings(predicts="delta", search=search)
    report = train(system.data, system.inputs, system.outputs, settings, variables=system.variables).report
    return cells(report, time.process_time() - began)


def main() -> None:
    """One row per system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SYSTEMS, help="one system")
    only = parser.parse_args().only
    print("| system | rows | undecided ReLUs | weights | 1 - R² | s | with search: undecided | weights | 1 - R² | s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in [only] if only else SYSTEMS:
        system = SYSTEMS[name]()
        row = f"{learned(system, False)} | {learned(system, True)}"
        print(f"| {name} | {len(system.data)} | {row} |", flush=True)


if __name__ == "__main__":
    main()
