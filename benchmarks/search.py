"""How soon the search finds plans of the published instances, and how good they are.

    python benchmarks/search.py FOLDER [--only NAME] [--horizon H] [--seconds S]

FOLDER holds the HD-MILP-Plan instances. Prints one row per instance: seconds to the first plan, the best reward after
10 and 30 seconds, when the best plan was found, and when the search ended. Bounds are not computed here.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from instances import load_instances

from reluplan.clock import Clock
from reluplan.planning.run import Run
from reluplan.problem.problem import Problem
from reluplan.search import search_plans


def reward_at(run: Run, seconds: float) -> str:
    """The best reward at a moment of the run."""
    rewards = [entry["reward"] for entry in run.log.history if (entry["seconds"] or 0.0) <= seconds]
    return f"{rewards[-1]:.4f}" if rewards and rewards[-1] is not None else "-"


def measure(name: str, problem: Problem, seconds: float) -> str:
    """One row of the table."""
    run = Run(problem, Clock(seconds), 1e-4)
    search_plans(problem, None, run.clock.deadline(), run.incumbent.offer_plan)
    ended = run.clock.elapsed
    first, last = (f"{run.log.history[i].seconds:.1f}" if run.log.history else "-" for i in (0, -1))
    return (
        f"| {name} | {problem.horizon} | {first} | {reward_at(run, 10.0)} | {reward_at(run, 30.0)} "
        f"| {last} | {ended:.1f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only")
    parser.add_argument("--horizon", type=int)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    print("| instance | H | first plan, s | reward at 10 s | reward at 30 s | best found, s | ended, s |")
    print("|---|---|---|---|---|---|---|")
    for name, problem in load_instances(options.folder, only=options.only):
        print(measure(name, problem.with_horizon(options.horizon or problem.horizon), options.seconds), flush=True)


if __name__ == "__main__":
    main()
