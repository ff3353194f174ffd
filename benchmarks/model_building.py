"""How long bounds and the MILP of the published instances take to build at the paper's horizons.

python benchmarks/model_building.py FOLDER
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from instances import load_instances

from reluplan.bounds.reachability import reachable_bounds
from reluplan.encoding.unroll import unroll


def main() -> None:
    """Print the table."""
    print("| instance | H | bounds, s | unstable | build, s | rows | columns | binaries |")
    print("|---|---|---|---|---|---|---|---|")
    for name, problem in load_instances(Path(sys.argv[1])):
        began = time.perf_counter()
        bounds = reachable_bounds(problem)
        bounded = time.perf_counter()
        model = unroll(problem, bounds).model
        built = time.perf_counter()
        share = f"{bounds.unstable.sum()}/{bounds.unstable.size}"
        print(
            f"| {name} | {problem.horizon} | {bounded - began:.1f} | {share} | {built - bounded:.2f} "
            f"| {model.row_count} | {model.column_count} | {int(model.integer.sum())} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
