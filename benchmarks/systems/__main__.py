"""Makes the problem files and networks of the systems, a folder each; the same ones every time.

    python -m benchmarks.systems list
    python -m benchmarks.systems make [--only NAME ...] [--out FOLDER]

FOLDER is benchmarks/systems/made if not given. What is there already stays, unless it is named by --only.
Needs the extra `train`; run it from the repository's root.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from reluplan.problem.problem import Problem

from .make import MADE, prepared
from .registry import SYSTEMS
from .system import System


def line(system: System, problem: Problem) -> str:
    """Name, half, horizons, states and actions, and the ReLUs of a step."""
    horizons = ", ".join(map(str, system.horizons))
    sizes = f"{len(problem.states)} states, {len(problem.actions)} actions, {problem.dynamics.relu_count} ReLUs a step"
    return f"{system.name}: {system.half}, {system.kind}, horizon {horizons}, {sizes}"


def make(names: list[str] | None, folder: Path) -> None:
    """One line per system that is made or already there."""
    for name in names or SYSTEMS:
        began = time.process_time()
        path = prepared(name, folder, anew=bool(names))
        print(f"{line(SYSTEMS[name], Problem.load(path))} ({time.process_time() - began:.0f} s)", flush=True)


def main() -> None:
    """List or make."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("list", "make"))
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, metavar="NAME")
    parser.add_argument("--out", type=Path, default=MADE)
    options = parser.parse_args()
    if options.action == "make":
        make(options.only, options.out)
        return
    for system in SYSTEMS.values():
        print(f"{system.name}: {system.half}, {system.kind}, horizon {', '.join(map(str, system.horizons))}")


if __name__ == "__main__":
    main()
