"""A plan by a baseline, as a line of JSON: reward (null without a checked plan) and seconds.

python -m benchmarks.baselines METHOD PROBLEM [--seconds 60] [--horizon H] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from reluplan.problem.problem import Problem

from .best import Best
from .cem import cem
from .gradient import ascend
from .mppi import mppi
from .rollouts import Rollouts

METHODS: dict[str, Callable[[Rollouts, float, int], Best]] = {"cem": cem, "mppi": mppi, "gradient": ascend}


def main() -> None:
    """Plan and print."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("problem", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--horizon", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    problem = Problem.load(options.problem)
    if options.horizon is not None:
        problem = problem.with_horizon(options.horizon)
    found = METHODS[options.method](Rollouts(problem), began + options.seconds, options.seed).checked()
    reward = None if found is None else found.total_reward
    print(json.dumps({"reward": reward, "seconds": round(time.monotonic() - began, 3)}))


if __name__ == "__main__":
    main()
