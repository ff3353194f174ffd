"""Receding-horizon control against hand-written rules, in the true simulators of the three domains.

    python benchmarks/domains.py [--only NAME] [--episodes N] [--time-limit-per-step S]

Prints one row per shipped problem: mean and spread of the return of both, seconds per step, share of proven steps.
Both start from the same random states; run it from the repository's root.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reluplan.control import Controller, ControlReport, run_episode
from reluplan.control.ordered import OrderedSimulator
from reluplan.problem import Problem
from reluplan.simulators import open_simulator

Array = NDArray[np.float64]
EXAMPLES = Path(__file__).parents[1] / "examples"
RAIN = np.array([5.0, 10.0, 20.0, 30.0])


def straight_to_the_target(location: Array) -> Array:
    """At full speed along the straight line to (3, 3)."""
    way = 3.0 - location
    return way * min(1.0, 0.1 / max(np.abs(way).max(), 1e-12))


def release_the_inflow(level: Array) -> Array:
    """What rains and flows in is let out again, as far as there is water."""
    flow = np.zeros_like(level)
    inflow = 0.0
    for r, there in enumerate(level):
        flow[r] = inflow = min(there, RAIN[r] + inflow)
    return flow


def bang_bang_heating(temperature: Array) -> Array:
    """Full air below 21 degrees, none above: one step of full air then ends below 23.5."""
    return np.where(temperature < 21.0, 10.0, 0.0)


@dataclass(frozen=True)
class Setting:
    """How one problem is controlled: lookahead (None: all remaining steps), steps of an episode, seconds for its first
    plan; first states are uniform in a box.
    """

    domain: str
    size: int
    lookahead: int | None
    steps: int
    first_seconds: float
    start_lower: tuple[float, ...]
    start_upper: tuple[float, ...]
    rule: Callable[[Array], Array]

    @property
    def name(self) -> str:
        return f"{self.domain}_{self.size}"

    def starts(self, count: int) -> Array:
        """The first states of the episodes: the same for every policy."""
        box = self.start_lower, self.start_upper
        return np.random.default_rng(0).uniform(*box, (count, len(self.start_lower)))


SETTINGS = (
    Setting("reservoir", 3, 5, 50, 5.0, (20.0, 30.0, 40.0), (80.0, 180.0, 380.0), release_the_inflow),
    Setting("reservoir", 4, 5, 50, 5.0, (20.0, 30.0, 40.0, 60.0), (80.0, 180.0, 380.0, 480.0), release_the_inflow),
    Setting("hvac", 3, 4, 50, 5.0, (6.0,) * 3, (20.0,) * 3, bang_bang_heating),
    Setting("hvac", 6, 4, 50, 5.0, (6.0,) * 6, (20.0,) * 6, bang_bang_heating),
    # The way round the slow zone pays after dozens of steps only, so the plan must see them all.
    Setting("navigation", 8, None, 100, 40.0, (-4.0,) * 2, (-2.0,) * 2, straight_to_the_target),
    Setting("navigation", 10, None, 100, 40.0, (-5.0,) * 2, (-3.0,) * 2, straight_to_the_target),
)


def measure(setting: Setting, episode_count: int, time_limit: float) -> str:
    """One row of the table."""
    folder = EXAMPLES / setting.domain
    problem = Problem.load(folder / setting.name / "problem.toml")
    simulator = OrderedSimulator(open_simulator(str(folder / "domain.rddl"), f"instance_{setting.size}.rddl"), problem)
    controller = Controller(
        problem, lookahead=setting.lookahead, steps=setting.steps, time_limit_per_step=time_limit, gap=1e-3,
        time_limit_first_step=setting.first_seconds,
    )  # fmt: skip
    starts = setting.starts(episode_count)
    rule = [run_episode(simulator, setting.rule, setting.steps, start=start).total_reward for start in starts]
    episodes, decisions = [], []
    for start in starts:
        controller.reset()
        episodes.append(run_episode(simulator, controller.policy, setting.steps, start=start))
        decisions.append(tuple(controller.decisions))
    found = ControlReport(problem, tuple(episodes), tuple(decisions)).summary()
    wins = sum(mine > other for mine, other in zip(found["returns"], rule, strict=True))
    return (
        f"| {problem.name} | {setting.steps} | {setting.lookahead or 'all'} "
        f"| {np.mean(rule):,.1f} ± {np.std(rule, ddof=1):,.1f} "
        f"| {found['return_mean']:,.1f} ± {found['return_spread']:,.1f} | {wins} of {episode_count} "
        f"| {found['seconds_per_step']:.2f} | {found['proven_share']:.0%} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only")
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--time-limit-per-step", type=float, default=3.0)
    options = parser.parse_args()
    print("| problem | steps | lookahead | rule | control | episodes won | seconds a step | proven |")
    print("|---|---|---|---|---|---|---|---|")
    for setting in SETTINGS:
        if options.only in (None, setting.name):
            print(measure(setting, options.episodes, options.time_limit_per_step), flush=True)


if __name__ == "__main__":
    main()
