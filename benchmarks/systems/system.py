"""A system of the family: its problem, and how its network is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.writer import NetworkEntry, ProblemText

Half = Literal["tune", "test"]
NETWORK = "network.onnx"


@dataclass(frozen=True)
class System:
    """kind: what it is like, in a few words. half: whether constants may be chosen on it. problem: what is written, but
    for its name and horizon. network: makes the network. horizons: to plan over; the file has the first.
    """

    name: str
    kind: str
    half: Half
    problem: ProblemText
    network: Callable[[], ReluNetwork]
    horizons: tuple[int, ...]

    def make(self, folder: Path) -> Path:
        """Write problem.toml and network.onnx; the problem file's path."""
        folder.mkdir(parents=True, exist_ok=True)
        self.network().save(folder / NETWORK)
        path = folder / "problem.toml"
        replace(self.problem, name=self.name, horizon=self.horizons[0]).write(path)
        Problem.load(path)
        return path


def reads(inputs: tuple[str, ...], outputs: tuple[str, ...], predicts: str = "delta") -> NetworkEntry:
    """The [network] table with the family's file name."""
    return NetworkEntry(NETWORK, inputs, outputs, predicts)


def names(variables: tuple[Variable, ...]) -> tuple[str, ...]:
    """Their names."""
    return tuple(variable.name for variable in variables)


def box(**bounds: tuple[float, float]) -> tuple[Variable, ...]:
    """Continuous variables with their bounds."""
    return tuple(Variable(name, "continuous", *map(float, pair)) for name, pair in bounds.items())
