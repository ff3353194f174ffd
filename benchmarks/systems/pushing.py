"""Problem files of the T that is pushed (BaB-ND, ICLR 2025): a learned network and instances by others, read only.

The folder holds network.onnx and instances.json. States are the four keypoints relative to the pusher and the pusher;
the cost of a plan is Σ |keypoint coordinate after the last step − target|, here as a negative final reward.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.files import write_atomically
from reluplan.problem.problem import Variable
from reluplan.problem.writer import ProblemText, number

from .octagon import octagon_row
from .system import NETWORK, reads

KEYS = tuple(f"k{i}{axis}" for i in range(1, 5) for axis in "xy")
POINTS = (("px'", "py'"), *((f"k{i}x' + px'", f"k{i}y' + py'") for i in range(1, 5)))
"""What must not touch an obstacle after any step: the pusher and the keypoints, absolute."""
FARTHEST = 10.0
PLACES = tuple(Variable(name, "continuous", -FARTHEST, FARTHEST) for name in (*KEYS, "px", "py"))


@dataclass(frozen=True)
class Pushing:
    """One instance as it was published; published: cost of each method by its name."""

    keypoints: NDArray[np.float64]
    pusher: NDArray[np.float64]
    target: NDArray[np.float64]
    obstacles: tuple[tuple[float, float, float], ...]
    horizon: int
    action_bound: float
    published: dict[str, float]

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Pushing:
        """One of the entries of instances.json."""
        circles = tuple((*each["centre"], each["radius"]) for each in entry["obstacles"])
        keypoints, pusher, target = (np.asarray(entry[key], float).ravel() for key in ("keypoints", "pusher", "target"))
        published = {method: float(found["cost"]) for method, found in entry["published"].items()}
        return cls(
            keypoints, pusher, target, circles, int(entry["horizon"]), float(entry["action_bound"]), published
        )  # fmt: skip

    def text(self, name: str, obstacles: bool) -> ProblemText:
        """The problem file; obstacles: the circumscribed octagon of each circle, for pusher and keypoints."""
        relative = self.keypoints - np.tile(self.pusher, 4)
        first = dict(zip((*KEYS, "px", "py"), (*relative.tolist(), *self.pusher.tolist()), strict=True))
        costs = (f"abs({key} + p{key[-1]} - {number(at)})" for key, at in zip(KEYS, self.target.tolist(), strict=True))
        rows = (octagon_row(x, y, circle) for circle in self.obstacles for x, y in POINTS)
        moves = tuple(Variable(move, "continuous", -self.action_bound, self.action_bound) for move in ("ux", "uy"))
        return ProblemText(
            name, self.horizon, "0", PLACES, moves,
            final_reward="-" + " - ".join(costs),
            initial_values=first,
            constraints=tuple(rows) if obstacles else (),
            network=reads((*KEYS, "ux", "uy"), KEYS),
            transitions={"px": "px + ux", "py": "py + uy"},
        )  # fmt: skip


def read_instances(source: Path) -> list[Pushing]:
    """All instances of the folder."""
    return [Pushing.of(entry) for entry in json.loads((source / "instances.json").read_text())["instances"]]


def write_pushing(source: Path, folder: Path) -> dict[str, Path]:
    """A folder of its own for each instance without and with its obstacles; problem files by name."""
    made = {}
    for number_, instance in enumerate(read_instances(source)):
        for obstacles in (False, True):
            name = f"pushing-{number_}" + ("-obstacles" if obstacles else "")
            place = folder / name
            place.mkdir(parents=True, exist_ok=True)
            write_atomically(place / NETWORK, (source / "network.onnx").read_bytes())
            made[name] = place / "problem.toml"
            instance.text(name, obstacles).write(made[name])
    return made
