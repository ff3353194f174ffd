"""The domains of the examples: their true steps, from other first states, and with networks learned anew."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from reluplan.learning import TrainingSettings
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.file import read_variables
from reluplan.problem.writer import ProblemText

from .learned import QUICK, Array, Learned, Step
from .system import Half, System, reads

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ADJACENT = {3: [(0, 1), (0, 2), (1, 2)], 6: [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]}
OUTSIDE = {3: [0, 1], 6: [0, 2, 3, 5]}
HALL = {3: [0, 2], 6: list(range(6))}


def navigation(states: Array, actions: Array, half_width: float) -> Array:
    """Moves lose their effect around the centre; walls at ±half_width."""
    distance = np.sqrt(np.sum(states**2, axis=1, keepdims=True))
    scale = 2.0 / (1.0 + np.exp(-2.0 * distance)) - 0.99
    after: Array = np.clip(states + actions * scale, -half_width, half_width)
    return after


def reservoir(levels: Array, flows: Array) -> Array:
    """Rain, evaporation, release, and what the reservoir above releases."""
    after: Array = levels + np.array([5.0, 10.0, 20.0, 30.0])[: levels.shape[1]]
    after -= 0.5 * np.sin(levels / 1000.0) * levels + flows
    after[:, 1:] += flows[:, :-1]
    return after


def hvac(temperatures: Array, air: Array) -> Array:
    """Warm air, neighbours, outside, hall."""
    rooms = temperatures.shape[1]
    heat = air * 1.006 * (40.0 - temperatures)
    for a, b in ADJACENT[rooms]:
        flow = (temperatures[:, b] - temperatures[:, a]) / 1.5
        heat[:, a] += flow
        heat[:, b] -= flow
    heat[:, OUTSIDE[rooms]] += (6.0 - temperatures[:, OUTSIDE[rooms]]) / 4.0
    heat[:, HALL[rooms]] += (10.0 - temperatures[:, HALL[rooms]]) / 2.0
    return temperatures + heat / 80.0


@dataclass(frozen=True)
class Example:
    """A shipped problem and its true step; limited: no more can be released than there is."""

    path: str
    step: Step
    limited: bool = False

    @property
    def problem(self) -> ProblemText:
        """The shipped problem file."""
        return read_text(EXAMPLES / self.path / "problem.toml")

    def network(self) -> ReluNetwork:
        """The shipped network."""
        return ReluNetwork.load(EXAMPLES / self.path / "network.onnx")

    def from_state(self, name: str, half: Half, first: tuple[float, ...], horizon: int) -> System:
        """The shipped network from another first state."""
        problem = self.problem
        values = {state.name: value for state, value in zip(problem.states, first, strict=True)}
        return System(
            name, "shipped, other first state", half, replace(problem, initial_values=values), self.network, (horizon,)
        )

    def learned(self, name: str, kind: str, horizons: tuple[int, ...], settings: TrainingSettings) -> System:
        """The shipped problem with a network of its own."""
        problem = self.problem
        fitting = self._fitting(problem) if self.limited else None
        return System(name, kind, "test", problem, Learned(problem, self.step, settings, fitting=fitting), horizons)

    def _fitting(self, problem: ProblemText) -> Callable[[Generator, Array], Array]:
        most = np.array([action.upper for action in problem.actions])
        return lambda rng, now: rng.uniform(0.0, np.minimum(most, now))


def read_text(path: Path) -> ProblemText:
    """A problem file without constants, goal and known transitions, as it was written."""
    table = read_variables(path)
    data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    assert table.network is not None
    first = {name: float(entry["initial"]) for name, entry in data["state"].items()}
    return ProblemText(
        data["name"], data["horizon"], data["reward"].strip(), tuple(table.states), tuple(table.actions),
        initial_values=first, constraints=tuple(data.get("constraints", ())),
        network=reads(table.network.inputs, table.network.outputs, table.network.predicts),
    )  # fmt: skip


HVAC_3 = Example("hvac/hvac_3", hvac)
RESERVOIR_3 = Example("reservoir/reservoir_3", reservoir, limited=True)
NAVIGATION_8 = Example("navigation/navigation_8", lambda s, a: navigation(s, a, 4.0))

TUNING = (HVAC_3.from_state("hvac-3", "tune", (21.0, 23.0, 20.5), 40),)
TESTING = (
    RESERVOIR_3.from_state("reservoir-3", "test", (30.0, 170.0, 300.0), 40),
    NAVIGATION_8.from_state("navigation-8", "test", (-3.0, 1.0), 60),
)
RETRAINED = tuple(
    RESERVOIR_3.learned(
        f"reservoir3-seed{seed}-{shape}", f"retrained, {shape}", (5, 20),
        replace(QUICK, seed=100 + seed, dense=shape == "dense"),
    )
    for seed in (1, 2, 3)
    for shape in ("sequential", "dense")
)  # fmt: skip
WIDE = tuple(
    example.learned(
        f"{name}-{units}x{units}", "wide", (20, 100),
        replace(QUICK, hidden=(units, units), epochs=60, polish=60),
    )
    for name, example in (("hvac3", HVAC_3), ("navigation8", NAVIGATION_8))
    for units in (64, 128, 256)
)  # fmt: skip
