"""How well the published domains are learned, and what it costs to learn networks that are easier to plan with.

    python benchmarks/training.py accuracy [--only NAME] [--seeds N]
    python benchmarks/training.py trade-off [--only NAME]

`accuracy` prints one row per domain with the published architecture; `trade-off` one row per way to make the network
of Reservoir-3 and HVAC-3 smaller or more stable: ReLUs that the planner's bounds leave undecided against the error.
Errors are those of the worst state.
The domains are simulated here, in numpy; run it from the repository's root. Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from systems.learned import Array, explore, uniform
from systems.shipped import EXAMPLES, hvac, navigation, reservoir

from reluplan.data import Transitions, concatenate
from reluplan.learning import TrainingReport, TrainingSettings
from reluplan.learning.planning_cost import unstable_in_problem
from reluplan.learning.train import train
from reluplan.problem.file import load_problem, read_variables


@dataclass(frozen=True)
class Domain:
    """A shipped problem, its true dynamics, and the published widths."""

    problem: Path
    step: Callable[[Array, Array], Array]
    hidden: tuple[int, ...]
    limited_by_state: bool = False

    def collect(self, short: int = 3000, long: int = 100, seed: int = 0) -> Transitions:
        """Short episodes from states all over the box, and long ones; new actions at every step."""
        rng = np.random.default_rng(seed)
        return concatenate([self._episodes(short, 10, rng), self._episodes(long, 100, rng)])

    def _episodes(self, count: int, steps: int, rng: np.random.Generator) -> Transitions:
        """Within the problem's box; where the state limits the actions, they are drawn within the smaller box."""
        table = read_variables(self.problem)
        least, most = (np.array([getattr(v, side) for v in table.actions]) for side in ("lower", "upper"))

        def fitting(rng: np.random.Generator, now: Array) -> Array:
            return rng.uniform(least, np.minimum(most, now) if self.limited_by_state else most, now.shape)

        def start(rng: np.random.Generator, rows: int) -> Array:
            return uniform(rng, table.states, rows)

        return explore(table.states, table.actions, self.step, start, fitting, count, steps, rng)


def _domain(kind: str, size: int, step: Callable[[Array, Array], Array], hidden: tuple[int, ...]) -> Domain:
    return Domain(EXAMPLES / kind / f"{kind}_{size}" / "problem.toml", step, hidden, kind == "reservoir")


DOMAINS = {
    "navigation-8": _domain("navigation", 8, lambda s, a: navigation(s, a, 4.0), (32, 32)),
    "navigation-10": _domain("navigation", 10, lambda s, a: navigation(s, a, 5.0), (32, 32)),
    "reservoir-3": _domain("reservoir", 3, reservoir, (32,)),
    "reservoir-4": _domain("reservoir", 4, reservoir, (32,)),
    "hvac-3": _domain("hvac", 3, hvac, (32,)),
    "hvac-6": _domain("hvac", 6, hvac, (32,)),
}

CHOICES = {
    "plain": {},
    **{f"{units} units": {"hidden": (units,)} for units in (24, 16, 8)},
    **{f"stability {weight:g}": {"stability": weight} for weight in (1e-4, 1e-3, 1e-2)},
    **{f"sparsity {weight:g}": {"sparsity": weight} for weight in (1e-3, 1e-2, 1e-1)},
    **{f"prune {share:g}": {"prune": share} for share in (0.3, 0.6)},
}


def learn(domain: Domain, settings: TrainingSettings, short: int = 3000, long: int = 100) -> TrainingReport:
    """Train on so many short and long episodes; ReLUs are counted under the constraints of the domain's problem."""
    table = read_variables(domain.problem)
    assert table.network is not None
    data = domain.collect(short, long)
    result = train(
        data, table.network.inputs, table.network.outputs, replace(settings, predicts=table.network.predicts),
        variables=(*table.states, *table.actions),
    )  # fmt: skip
    problem = load_problem(domain.problem, result.network)
    return replace(result.report, unstable_relus=unstable_in_problem(problem, result.network.relu_count, data))


def _unexplained(report: TrainingReport) -> float:
    """The largest 1 − R² of the change."""
    return max(1.0 - (state.r2_change or 0.0) for state in report.states)


def accuracy(names: list[str], seeds: int) -> None:
    """One row per domain and seed."""
    print("| domain | network | seed | rows | 1 - R² of the change | RMSE | worst error | RMSE after 100 steps "
          "| unstable ReLUs | processor seconds |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in names:
        for seed in range(seeds):
            domain, began = DOMAINS[name], time.process_time()
            report = learn(domain, TrainingSettings(hidden=domain.hidden, seed=seed))
            drift = max(report.rollouts[-1].rmse) if report.rollouts else float("nan")
            print(
                f"| {name} | {':'.join(map(str, domain.hidden))} | {seed} | {sum(report.rows.values())} "
                f"| {_unexplained(report):.1e} | {max(s.rmse for s in report.states):.2g} "
                f"| {max(s.worst for s in report.states):.2g} | {drift:.2g} "
                f"| {report.unstable_relus} of {report.relus} | {time.process_time() - began:.0f} |",
                flush=True,
            )


def trade_off(names: list[str]) -> None:
    """One row per domain and way to make planning easier; a third of the data and shorter training, to compare many."""
    print("| domain | training | unstable ReLUs | nonzero weights | 1 - R² of the change | RMSE |")
    print("|---|---|---|---|---|---|")
    for name in names:
        for choice, options in CHOICES.items():
            plain = TrainingSettings(hidden=DOMAINS[name].hidden, epochs=60, polish=100)
            report = learn(DOMAINS[name], replace(plain, **options), short=1000, long=30)
            print(
                f"| {name} | {choice} | {report.unstable_relus} of {report.relus} "
                f"| {report.nonzero_weights} of {report.weights} | {_unexplained(report):.1e} "
                f"| {max(s.rmse for s in report.states):.2g} |",
                flush=True,
            )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["accuracy", "trade-off"])
    parser.add_argument("--only")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    chosen = [options.only] if options.only else list(DOMAINS)
    if options.table == "accuracy":
        accuracy(chosen, options.seeds)
    else:
        trade_off([name for name in chosen if options.only or name in ("reservoir-3", "hvac-3")])


if __name__ == "__main__":
    main()
