"""Whether time limits hold on large networks: seconds used, plan and bound for random networks of growing size.

    python benchmarks/limits.py [--limits 2 5 20] [--methods auto base potentials] [--networks 64:64 ...] [--patience P]
    python benchmarks/limits.py --pushing-t FOLDER

A network is written as widths:horizon, such as 512-512:100; its weights come from a seed. Allowed is 10 % + 2 s over
the limit for the whole command, the start of Python included. A command is killed after P times that.
FOLDER holds network.onnx and instances.json of a learned network with 768 ReLUs that pushes a T.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Variable
from reluplan.problem.writer import NetworkEntry, ProblemText

NETWORKS = ("64-64:20", "128-128:5", "256-256:50", "512-512:100", "32-32-32-32-32-32:30")
METHODS = ("auto", "base", "potentials")
STATES, ACTIONS = 4, 2


@dataclass(frozen=True)
class Outcome:
    """How one command ended."""

    seconds: float
    killed: bool
    status: str = "-"
    reward: float | None = None
    bound: float | None = None


def random_network(widths: list[int], seed: int = 0) -> ReluNetwork:
    """Weights that keep the size of their inputs, so that every layer has units that switch."""
    rng = np.random.default_rng(seed)
    sizes = [STATES + ACTIONS, *widths, STATES]
    weights = [rng.normal(size=(b, a)) * math.sqrt(2.0 / a) for a, b in pairwise(sizes)]
    weights[-1] *= 0.3
    return ReluNetwork.sequential(weights, [0.1 * rng.normal(size=size) for size in sizes[1:]])


def write_random(spec: str, folder: Path) -> Path:
    """The problem file of `widths:horizon`: keep the states near a point that moves away by itself."""
    widths, horizon = spec.split(":")
    random_network([int(width) for width in widths.split("-")]).save(folder / "network.onnx")
    states = tuple(Variable(f"s{i}", "continuous", -5.0, 5.0) for i in range(STATES))
    actions = tuple(Variable(f"a{i}", "continuous", -1.0, 1.0) for i in range(ACTIONS))
    text = ProblemText(
        f"random {spec}", int(horizon), " - ".join(["0", *(f"abs({s.name}' - 0.5)" for s in states)]), states, actions,
        initial_values={state.name: 1.0 for state in states},
        network=NetworkEntry("network.onnx", tuple(v.name for v in states + actions), tuple(s.name for s in states)),
    )  # fmt: skip
    return _write(text, folder)


def write_pushing(source: Path, folder: Path, number: int = 0) -> Path:
    """One published instance without its obstacles, the distance to the target counted after every step."""
    instance = json.loads((source / "instances.json").read_text())["instances"][number]
    pusher = [float(x) for x in instance["pusher"]]
    first = np.asarray(instance["keypoints"], dtype=float).ravel()
    target = np.asarray(instance["target"], dtype=float).ravel()
    keys = [f"k{i}{axis}" for i in range(1, 5) for axis in "xy"]
    states = tuple(Variable(name, "continuous", -10.0, 10.0) for name in (*keys, "px", "py"))
    actions = tuple(Variable(name, "continuous", -0.25, 0.25) for name in ("ux", "uy"))
    distances = (f"abs({key}' + p{key[-1]}' - {value:.6g})" for key, value in zip(keys, target, strict=True))
    relative = {key: float(value - pusher[i % 2]) for i, (key, value) in enumerate(zip(keys, first, strict=True))}
    (folder / "network.onnx").write_bytes((source / "network.onnx").read_bytes())
    text = ProblemText(
        "pushing", 20, " - ".join(["0", *distances]), states, actions,
        initial_values=relative | {"px": pusher[0], "py": pusher[1]},
        network=NetworkEntry("network.onnx", (*keys, "ux", "uy"), tuple(keys), "delta"),
        transitions={"px": "px + ux", "py": "py + uy"},
    )  # fmt: skip
    return _write(text, folder)


def _write(text: ProblemText, folder: Path) -> Path:
    path = folder / "problem.toml"
    path.write_text(text.to_toml())
    return path


def run(problem: Path, method: str, limit: float, patience: float) -> Outcome:
    """One command from its start to its end."""
    out = problem.parent / "run"
    command = [sys.executable, "-m", "reluplan", "plan", str(problem), "--method", method, "--out", str(out)]
    began = time.monotonic()
    process = subprocess.Popen(
        [*command, "--time-limit", str(limit), "--quiet"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        _, errors = process.communicate(timeout=patience * allowed(limit))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return Outcome(time.monotonic() - began, killed=True)
    seconds = time.monotonic() - began
    if process.returncode not in (0, 2, 3):
        last = errors.decode(errors="replace").strip().splitlines()[-1:]
        return Outcome(seconds, False, f"exit code {process.returncode}: {' '.join(last)}")
    result = json.loads((out / "result.json").read_text())
    return Outcome(seconds, False, result["status"], result["reward"], result["bound"])


def allowed(limit: float) -> float:
    """Seconds that a command with this limit may take."""
    return 1.1 * limit + 2.0


def problems(options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Path]]:
    """Names and problem files."""
    for number, spec in enumerate(options.networks):
        place = folder / str(number)
        place.mkdir()
        yield spec, write_random(spec, place)
    if options.pushing_t is not None:
        place = folder / "pushing"
        place.mkdir()
        yield "pushing T", write_pushing(options.pushing_t, place)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--limits", nargs="+", type=float, default=[2.0, 5.0, 20.0])
    parser.add_argument("--patience", type=float, default=4.0)
    parser.add_argument("--pushing-t", type=Path)
    options = parser.parse_args()
    print("| network:horizon | method | limit, s | used, s | within 10 % + 2 s | status | reward | bound |", flush=True)
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, problem in problems(options, Path(scratch)):
            for method in options.methods:
                for limit in options.limits:
                    found = run(problem, method, limit, options.patience)
                    kept = "killed" if found.killed else "yes" if found.seconds <= allowed(limit) else "NO"
                    numbers = " | ".join("-" if x is None else f"{x:.6g}" for x in (found.reward, found.bound))
                    told = f"{limit:g} | {found.seconds:.1f} | {kept} | {found.status} | {numbers}"
                    print(f"| {name} | {method} | {told} |", flush=True)


if __name__ == "__main__":
    main()
