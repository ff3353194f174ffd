"""What the grid proves on the published Navigation instances, and when.

    python benchmarks/grid.py FOLDER [--seconds SECONDS] [--workers K] [--action-bound A]

FOLDER holds the HD-MILP-Plan instances. Plans come from the planner's own search; every bound is printed with its time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from instances import HORIZONS, load_instance

from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.reachability import reachable_bounds
from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.grid.value_function import grid_bound
from reluplan.search import search_plans

INSTANCES = ("navigation_8x8", "navigation_10x10")


def best_plan(problem: Problem, bounds: HorizonBounds, seconds: float) -> float | None:
    """The best reward that the search finds in some seconds."""
    best: list[float] = []

    def accept(trajectory: Trajectory, _: str) -> bool:
        better = check(problem, trajectory).ok and (not best or trajectory.total_reward > best[-1])
        if better:
            best.append(trajectory.total_reward)
        return better

    search_plans(problem, bounds, time.monotonic() + seconds, accept)
    return best[-1] if best else None


def measure(folder: Path, name: str, seconds: float, workers: int, action_bound: float) -> None:
    """Print every bound of one instance."""
    problem = load_instance(folder, name, HORIZONS[name], action_bound)
    bounds = reachable_bounds(problem)
    incumbent = best_plan(problem, bounds, 20.0)
    print(f"{name}: plan {incumbent}")
    began = time.monotonic()

    def tell(message: str) -> None:
        print(f"  {time.monotonic() - began:6.1f} s  {message}", flush=True)

    def offer(bound: float, margin: float) -> None:
        gap = "" if incumbent is None else f", gap {(bound - incumbent) / max(1.0, abs(incumbent)):.2%}"
        tell(f"bound {bound:.4f}, margin {margin:.1e}{gap}")

    grid_bound(problem, bounds, incumbent, began + seconds, offer, tell, workers)


def main() -> None:
    """Run both instances."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--action-bound", type=float, default=0.1)
    options = parser.parse_args()
    for name in INSTANCES:
        measure(options.folder, name, options.seconds, options.workers, options.action_bound)


if __name__ == "__main__":
    main()
