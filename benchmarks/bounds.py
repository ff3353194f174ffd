"""What each level of bounds costs and gives: forward, sweeps, MILPs; and what HiGHS then needs for the whole model.

    python benchmarks/bounds.py FOLDER [--seconds S] [--limit L]

FOLDER holds the HD-MILP-Plan instances; the tank example and trained Navigation networks are measured beside them.
MILPs get at most S seconds, the whole model L. Nodes and LP iterations are to a gap of 1e-4, on one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from instances import load_instances

from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.reachability import reachable_bounds
from reluplan.encoding.unroll import unroll
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.problem.problem import Problem
from reluplan.tightening.obbt_milp import tighten_by_milp
from reluplan.tightening.propagation import propagate

SHORT = {"reservoir_3": 6, "reservoir_4": 4, "hvac_3": 5, "navigation_8x8": 15, "navigation_10x10": 15}
EXAMPLES = {"navigation/navigation_8": 15, "navigation/navigation_10": 20, "tanks": 12}


def problems(folder: Path) -> Iterator[tuple[str, Problem]]:
    """Short plans, which the solver can finish."""
    yield from load_instances(folder, SHORT)
    examples = Path(__file__).parent.parent / "examples"
    for name, horizon in EXAMPLES.items():
        yield name, Problem.load(examples / name / "problem.toml").with_horizon(horizon)


def levels(problem: Problem, pool: WorkerPool, seconds: float) -> Iterator[tuple[str, HorizonBounds]]:
    """The bounds after each level."""
    bounds = reachable_bounds(problem)
    yield "forward", bounds
    bounds = propagate(problem, bounds)
    yield "propagation", bounds
    yield "MILPs", tighten_by_milp(problem, bounds, pool, time.monotonic() + seconds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args()
    print("| problem | H | bounds | seconds | unstable | status | nodes | LP iterations | solver, s |")
    print("|---|---|---|---|---|---|---|---|---|")
    with WorkerPool("highs", 2) as pool:
        for name, problem in problems(options.folder):
            began = time.monotonic()
            for level, bounds in levels(problem, pool, options.seconds):
                spent = time.monotonic() - began
                model = unroll(problem, bounds).model
                found = HighsSolver().solve(model, SolveOptions(gap=1e-4, time_limit=options.limit))
                print(
                    f"| {name} | {problem.horizon} | {level} | {spent:.2f} | {int(bounds.unstable.sum())} "
                    f"| {found.status.value} | {found.closed_nodes} | {found.lp_iterations} | {found.seconds:.1f} |",
                    flush=True,
                )
                began = time.monotonic()


if __name__ == "__main__":
    main()
