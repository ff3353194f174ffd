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
from numpy.typing import NDArray

from reluplan.data import Transitions, concatenate
from reluplan.learning import TrainingReport, TrainingSettings
from reluplan.learning.planning_cost import unstable_in_problem
from reluplan.learning.train import train
from reluplan.problem.file import load_problem, read_variables

Array = NDArray[np.float64]
EXAMPLES = Path(__file__).parents[1] / "examples"
ADJACENT = {3: [(0, 1), (0, 2), (1, 2)], 6: [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]}
OUTSIDE = {3: [0, 1], 6: [0, 2, 3, 5]}
HALL = {3: [0, 2], 6: list(range(6))}


def navigation(states: Array, actions: Array, half_width: float) -> Array:
    """Moves lose their effect around the centre; walls at ±half_width."""
    distance = np.sqrt(np.sum(states**2, axis=1, keepdims=True))
    scale = 2.0 / (1.0 + np.exp(-2.0 * distance)) - 0.99
    return np.clip(states + actions * scale, -half_width, half_width)


def reservoir(levels: Array, flows: Array) -> Array:
    """Rain, evaporation, release, and what the reservoir above releases."""
    after = levels + np.array([5.0, 10.0, 20.0, 30.0])[: levels.shape[1]]
    after -= 0.5 * np.sin(levels / 1000.0) * levels + flows
    after[:, 1:] += flows[:, :-1]
    return after


def hvac(temperatures: Array, air: Array) -> Array:
    """Warm air, neighbours, outside, hall."""
    rooms = temperatures.shape[1]
    heat = air * 1.006 * (40.0 - temperatures)
    for a, b in ADJACENT[rooms]:
        flow = (temperatures[:, b] - temperatures[:, a]) / 1.5
        heat[:, a] += flow
        heat[:, b] -= flow
    heat[:, OUTSIDE[rooms]] += (6.0 - temperatures[:, OUTSIDE[rooms]]) / 4.0
    heat[:, HALL[rooms]] += (10.0 - temperatures[:, HALL[rooms]]) / 2.0
    return temperatures + heat / 80.0


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
        """An episode that would leave the box ends there, and another begins anywhere."""
        table = read_variables(self.problem)
        low, high = (np.array([getattr(v, side) for v in table.states]) for side in ("lower", "upper"))
        least, most = (np.array([getattr(v, side) for v in table.actions]) for side in ("lower", "upper"))
        states, episode, step = rng.uniform(low, high, (count, len(low))), np.arange(count), np.zeros(count, dtype=int)
        rows = []
        for _ in range(steps):
            actions = rng.uniform(least, np.minimum(most, states) if self.limited_by_state else most, states.shape)
            after = self.step(states, actions)
            inside = ((after >= low) & (after <= high)).all(axis=1)
            rows.append([part[inside] for part in (episode, step, states, actions, after)])
            fresh = episode.max() + 1 + np.arange(count)
            episode, step = np.where(inside, episode, fresh), np.where(inside, step + 1, 0)
            states = np.where(inside[:, None], after, rng.uniform(low, high, after.shape))
        names = [tuple(v.name for v in part) for part in (table.states, table.actions)]
        return Transitions(names[0], names[1], *(np.concatenate(part) for part in zip(*rows, strict=True)))


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
