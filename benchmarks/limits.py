"""Whether time limits hold on large networks: seconds used, plan and bound for random networks of growing size.

    python benchmarks/limits.py [--limits 2 5 20] [--methods auto base potentials] [--networks 64:64 ...] [--patience P]
    python benchmarks/limits.py --pushing-t FOLDER

A network is written as widths:horizon, such as 512-512:100; its weights come from a seed. Allowed is 10 % + 2 s over
the limit for the whole command, the start of Python included. A command is killed after P times that.
FOLDER holds network.onnx and instances.json of a learned network with 768 ReLUs that pushes a T.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from outcomes import allowed, run
from systems.pushing import write_pushing

from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Variable
from reluplan.problem.writer import NetworkEntry, ProblemText

NETWORKS = ("64-64:20", "128-128:5", "256-256:50", "512-512:100", "32-32-32-32-32-32:30")
METHODS = ("auto", "base", "potentials")
STATES, ACTIONS = 4, 2


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


def _write(text: ProblemText, folder: Path) -> Path:
    path = folder / "problem.toml"
    path.write_text(text.to_toml())
    return path


def problems(options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Path]]:
    """Names and problem files."""
    for number, spec in enumerate(options.networks):
        place = folder / str(number)
        place.mkdir()
        yield spec, write_random(spec, place)
    if options.pushing_t is not None:
        yield "pushing T", write_pushing(options.pushing_t, folder)["pushing-0"]


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
                    found = run(method, problem, limit, patience=options.patience)
                    kept = "yes" if found.seconds <= allowed(limit) else "NO"
                    numbers = " | ".join("-" if x is None else f"{x:.6g}" for x in (found.reward, found.bound))
                    told = f"{limit:g} | {found.seconds:.1f} | {kept} | {found.trouble or found.status} | {numbers}"
                    print(f"| {name} | {method} | {told} |", flush=True)


if __name__ == "__main__":
    main()
