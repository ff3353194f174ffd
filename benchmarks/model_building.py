"""How long bounds and the MILP of the published instances take to build at the paper's horizons.

python benchmarks/model_building.py FOLDER
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from potentials import HORIZONS

from reluplan.bounds.reach import reachable_bounds
from reluplan.importers.hd_milp_plan import convert
from reluplan.milp.unroll import unroll
from reluplan.problem import Problem


def main() -> None:
    """Print the table."""
    print("| instance | H | bounds, s | unstable | build, s | rows | columns | binaries |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, horizon in HORIZONS.items():
            action_bounds = (-0.1, 0.1) if name.startswith("navigation") else None
            problem = Problem.load(convert(Path(sys.argv[1]), name, Path(folder) / name, action_bounds))
            problem = problem.with_horizon(horizon)
            began = time.perf_counter()
            bounds = reachable_bounds(problem)
            bounded = time.perf_counter()
            model = unroll(problem, bounds).model
            built = time.perf_counter()
            share = f"{bounds.unstable.sum()}/{bounds.unstable.size}"
            print(
                f"| {name} | {horizon} | {bounded - began:.1f} | {share} | {built - bounded:.2f} "
                f"| {model.row_count} | {model.column_count} | {int(model.integer.sum())} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
