"""The published instances at full horizon: reward, bound and seconds of each method, in one run.

    python benchmarks/published.py FOLDER [--methods auto base potentials] [--only reservoir_3] [--gap 1e-4]

Timings are for comparison within one run; rewards are simulated and bounds proven.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from instances import load_instance

from reluplan import plan
from reluplan.planning.log import Event


@dataclass(frozen=True)
class Row:
    """One instance: its time limit, and what is to be reached."""

    name: str
    horizon: int
    time_limit: float
    reward: float
    bound: float


ROWS = (
    Row("reservoir_3", 500, 60, -63.865, -63.858),
    Row("reservoir_3", 5000, 120, -63.865, -63.858),
    Row("reservoir_4", 500, 120, -176.27, -172.4),
    Row("hvac_3", 100, 60, -579_360, -579_110),
    Row("hvac_6", 100, 120, -1_232_195, -1_230_540),
    Row("navigation_8x8", 100, 300, -488.7, -390),
    Row("navigation_10x10", 100, 300, -706.0, -640),
)


def measure(folder: Path, row: Row, method: str, gap: float) -> None:
    """Plan one instance and print its line."""
    first: list[float] = []

    def listen(event: Event) -> None:
        if event.reward is not None and not first:
            first.append(event.seconds)

    problem = load_instance(folder, row.name, row.horizon)
    result = plan(problem, method=method, time_limit=row.time_limit, gap=gap, on_event=listen)
    reward = "none" if result.reward is None else f"{result.reward:.4f}"
    bound = "none" if result.bound is None else f"{result.bound:.4f}"
    reached = result.reward is not None and result.reward >= row.reward
    proven = result.bound is not None and result.bound <= row.bound
    start = f"{first[0]:.1f}" if first else "none"
    print(
        f"| {row.name} | {row.horizon} | {method} | {start} | {reward} | {bound} | {result.status} "
        f"| {result.seconds:.1f} | {'yes' if reached else 'no'} / {'yes' if proven else 'no'} |",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the published instances (with dnn/ and translation/)")
    parser.add_argument("--methods", nargs="+", default=["auto", "base", "potentials"])
    parser.add_argument("--only", nargs="+", help="names of instances")
    parser.add_argument("--gap", type=float, default=1e-4, help="relative gap at which a plan counts as optimal")
    arguments = parser.parse_args()
    print("| instance | H | method | first plan, s | reward | bound | status | seconds | plan / bound as wanted |")
    print("|---|---|---|---|---|---|---|---|---|")
    for method in arguments.methods:
        for row in ROWS:
            if arguments.only is None or row.name in arguments.only:
                measure(arguments.folder, row, method, arguments.gap)


if __name__ == "__main__":
    main()
