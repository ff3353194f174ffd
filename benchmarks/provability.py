"""What can be proven in what time, over systems and horizons: the runs behind the guess of `reluplan inspect`.

    python benchmarks/provability.py run TRIALS [FOLDER] --limit 2    plan for many problems, a line for each to a file
    python benchmarks/provability.py run RUNS [FOLDER] --limit 20     the same, longer
    python benchmarks/provability.py judge TRIALS RUNS                what the rule says of the trials, and what came

`run` draws random systems (one to six states, 4 to 64 ReLUs, 2 to 100 steps; concave rewards and others), takes the
shipped examples over 3, 10 and 40 steps, and the published HD-MILP-Plan instances of FOLDER likewise, and plans for
each with one thread. The rule (`inspection/measured.py`) was fitted to the 45 random systems of seed 0 alone; `judge`
counts how often it is right.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from instances import HORIZONS, load_instance
from numpy.random import Generator

from reluplan.inspection.guess import Trial, is_likely
from reluplan.inspection.measured import OutlookSettings
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.planning.planner import build_model, plan
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, StepLayout, Variable

EXAMPLES = (
    "tanks", "hvac/hvac_3", "hvac/hvac_6", "reservoir/reservoir_3", "reservoir/reservoir_4",
    "navigation/navigation_8", "navigation/navigation_10",
)  # fmt: skip
HIDDEN = ((4,), (8,), (16,), (32,), (64,), (8, 8), (16, 16), (32, 32))
LENGTHS = (2, 3, 5, 8, 12, 20, 35, 60, 100)


@dataclass(frozen=True)
class Measured:
    """One run: what was known before it, and how it ended. seconds: of the wall clock."""

    name: str
    group: str
    states: int
    horizon: int
    binaries: int
    status: str
    gap: float | None
    seconds: float
    limit: float


def random_system(rng: Generator) -> Problem:
    """s' = A s + B a + V max(0, W (s, a) + b) with |A| = 0.85, states within ±3, actions within ±1."""
    states = int(rng.choice([1, 2, 3, 4, 6]))
    actions = int(rng.integers(1, min(states, 3) + 1))
    hidden = HIDDEN[rng.integers(len(HIDDEN))]
    layout = StepLayout(states, actions, 0)
    layers = []
    width = previous = states + actions
    for units in hidden:
        weights = np.zeros((units, width))
        weights[:, width - previous :] = rng.normal(size=(units, previous)) / np.sqrt(previous)
        layers.append(Layer(weights, 0.7 * rng.normal(size=units)))
        width += units
        previous = units
    last = np.zeros((states, width))
    last[:, :states] = 0.85 * np.linalg.qr(rng.normal(size=(states, states)))[0]
    last[:, states : states + actions] = rng.normal(size=(states, actions)) / np.sqrt(actions)
    last[:, width - previous :] = 0.6 * rng.normal(size=(states, previous)) / np.sqrt(previous)
    network = ReluNetwork(states + actions, tuple(layers), Layer(last, np.zeros(states)))
    initial = rng.uniform(-1.0, 1.0, states)
    return Problem(
        name="x".join(map(str, hidden)),
        horizon=int(rng.choice(LENGTHS)),
        states=tuple(Variable(f"s{i}", lower=-3.0, upper=3.0) for i in range(states)),
        actions=tuple(Variable(f"a{i}", lower=-1.0, upper=1.0) for i in range(actions)),
        auxiliaries=(),
        initial_lower=initial,
        initial_upper=initial,
        dynamics=network,
        reward=_reward(rng, layout),
    )


def _reward(rng: Generator, layout: StepLayout) -> PiecewiseLinear:
    """−Σ |s'_i − target_i| − 0.1 Σ |a_j|; every other time the first state is pushed away from its target."""
    width = layout.width
    total = PiecewiseLinear.constant_of(0.0, width)
    is_concave = rng.random() < 0.5
    for i in range(layout.state_count):
        distance = PiecewiseLinear.variable(layout.next_states.start + i, width) + PiecewiseLinear.constant_of(
            float(-rng.uniform(-1.5, 1.5)), width
        )
        weight = 1.0 if is_concave or i > 0 else -0.5
        total = total - PiecewiseLinear.maximum([distance, -distance]) * weight
    for j in range(layout.action_count):
        action = PiecewiseLinear.variable(layout.actions.start + j, width)
        total = total - PiecewiseLinear.maximum([action, -action]) * 0.1
    return total


def problems(runs: int, folder: Path | None, seed: int) -> Iterator[tuple[str, str, Problem]]:
    """Group, name and problem: the random ones, the shipped ones, the published ones."""
    rng = np.random.default_rng(seed)
    for number in range(runs):
        problem = random_system(rng)
        yield "random", f"{seed}.{number}:{problem.name}", problem
    examples = Path(__file__).resolve().parents[1] / "examples"
    for name in EXAMPLES:
        problem = Problem.load(examples / name / "problem.toml")
        for horizon in (3, 10, 40):
            yield "shipped", name, problem.with_horizon(horizon)
    if folder is not None:
        for name in HORIZONS:
            for horizon in (3, 10, 40):
                yield "published", name, load_instance(folder, name, horizon)


def measure(group: str, name: str, problem: Problem, limit: float) -> Measured:
    """Count the binaries, plan."""
    binaries = int(build_model(problem).model.integer.sum())
    began = time.monotonic()
    result = plan(problem, time_limit=limit, threads=1)
    seconds = time.monotonic() - began
    states = len(problem.states)
    return Measured(
        name, group, states, problem.horizon, binaries, result.status, result.gap, seconds, limit
    )  # fmt: skip


def run(file: Path, folder: Path | None, limit: float, runs: int, seed: int, only: str | None) -> None:
    """Append one line per problem."""
    with file.open("a", encoding="utf-8") as out:
        for group, name, problem in problems(runs, folder, seed):
            if only not in (None, group):
                continue
            line = json.dumps(asdict(measure(group, name, problem, limit)))
            out.write(line + "\n")
            out.flush()
            print(line, file=sys.stderr, flush=True)


def read(file: Path) -> dict[tuple[str, str, int], Measured]:
    """The runs of a file by group, name and horizon."""
    lines = file.read_text(encoding="utf-8").splitlines()
    runs = [Measured(**json.loads(line)) for line in lines]
    return {(run.group, run.name, run.horizon): run for run in runs}


def judge(trials: Path, runs: Path) -> None:
    """For each group and outlook: how many runs were proven, close, neither, and how often the rule was right."""
    settings = OutlookSettings()
    tried = read(trials)
    kinds: dict[tuple[str, str], list[Measured]] = {}
    for key, run in read(runs).items():
        before = tried[key]
        trial = Trial(before.seconds, before.status, None, None, before.gap)
        likely = is_likely(trial, before.binaries, before.states, settings)
        kind = "proven" if before.status == "optimal" else "likely" if likely else "open"
        for group in (run.group, "all"):
            kinds.setdefault((group, kind), []).append(run)
    print("| group | outlook | runs | proven | within 1 % | gap of the others: median | worst | right |")
    print("|---|---|---|---|---|---|---|---|")
    for (group, kind), found in sorted(kinds.items()):
        proven = sum(run.status == "optimal" for run in found)
        gaps = sorted(np.inf if run.gap is None else run.gap for run in found if not is_close(run))
        close = len(found) - len(gaps)
        right = len(gaps) if kind == "open" else close
        middle, worst = (f"{np.median(gaps):.2g}", f"{gaps[-1]:.2g}") if gaps else ("-", "-")
        print(f"| {group} | {kind} | {len(found)} | {proven} | {close} | {middle} | {worst} | {right} |")


def is_close(run: Measured) -> bool:
    """Proven, or within 1 % of it."""
    return run.status == "optimal" or (run.gap is not None and run.gap <= 0.01)


def main() -> None:
    """Run or judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "judge"))
    parser.add_argument("file", type=Path)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=45)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("random", "shipped", "published"))
    options = parser.parse_args()
    if options.action == "run":
        run(options.file, options.other, options.limit, options.runs, options.seed, options.only)
    elif options.other is None:
        parser.error("judge needs two files, of trials and of runs")
    else:
        judge(options.file, options.other)


if __name__ == "__main__":
    main()
