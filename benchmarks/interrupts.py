"""Presses Ctrl-C at random moments, in bursts, and counts what is lost: python benchmarks/interrupts.py [RUNS] [SEED].

Half of the runs are signalled after their first plan is known, in which case the plan must be in the files; the others
at any moment from the start of the process, in which case there must be a whole result or one line, and no traceback.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np

from reluplan.network.relu_network import ReluNetwork

PROBLEM = """
horizon = 10
reward = "-position' + abs(speed') + abs(load')"
[network]
file = "network.onnx"
inputs = ["position", "speed", "load", "push", "turn"]
outputs = ["position", "speed", "load"]
[state]
position = {bounds = [-3, 3], initial = 0}
speed = {bounds = [-3, 3], initial = 0}
load = {bounds = [-3, 3], initial = 0}
[action]
push = {bounds = [-1, 1]}
turn = {bounds = [-1, 1]}
"""
LINE = "reluplan: interrupted before there was anything to keep\n"
PYTHONS_OWN_START = 0.08
"""Seconds in which Python itself starts, before any line of ours."""


def main() -> None:
    """Run, and print a line for each kind of outcome."""
    runs, seed = (int(text) for text in (sys.argv[1:] + ["40", "0"][len(sys.argv) - 1 :]))
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_problem(folder)
        for number in range(runs):
            outcome = press(folder, rng, after_plan=number % 2 == 0)
            outcomes[outcome] += 1
            print(f"{number + 1}/{runs}: {outcome}", file=sys.stderr, flush=True)
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:5d}  {outcome}")
    sys.exit(any(outcome.startswith("LOST") for outcome in outcomes))


def write_problem(folder: Path) -> None:
    """Two layers of 40 ReLUs, random: long enough to be interrupted anywhere."""
    rng = np.random.default_rng(1)
    sizes = (5, 40, 40, 3)
    weights = [rng.normal(size=(new, old)) / np.sqrt(old) for old, new in pairwise(sizes)]
    ReluNetwork.sequential(weights, [0.1 * rng.normal(size=new) for new in sizes[1:]]).save(folder / "network.onnx")
    (folder / "problem.toml").write_text(PROBLEM)


def press(folder: Path, rng: random.Random, after_plan: bool) -> str:
    """One run and its burst of up to ten signals; what became of it."""
    out = Path(tempfile.mkdtemp(dir=folder))
    line = [sys.executable, "-m", "reluplan", "plan", str(folder / "problem.toml"), "--out", str(out)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    if after_plan:
        any("plan with reward" in text for text in process.stderr)
        time.sleep(rng.uniform(0.0, 2.0))
    else:
        time.sleep(rng.uniform(PYTHONS_OWN_START, 2.5))
    pause = rng.choice([0.0, 0.01, 0.05, 0.2])
    for number in rng.choices([signal.SIGINT, signal.SIGTERM], [0.8, 0.2], k=rng.randint(1, 10)):
        process.send_signal(number)
        time.sleep(pause)
    _, err = process.communicate(timeout=120)
    when = "after a plan was known" if after_plan else "at any moment"
    if (out / "result.json").is_file():
        result = json.loads((out / "result.json").read_text())
        has_plan = (out / "plan.csv").is_file()
        if has_plan == (result["reward"] is not None) and (has_plan or not after_plan) and "Traceback" not in err:
            return f"whole result, {when}"
    elif not after_plan and err.endswith(LINE) and "Traceback" not in err and process.returncode == 3:
        return f"one line, nothing to keep, {when}"
    elif not after_plan and err == "" and process.returncode < 0:
        return "no word: Python itself was still starting"
    return f"LOST, {when}: exit code {process.returncode}, {err.strip().splitlines()[-1:]}"


if __name__ == "__main__":
    main()
