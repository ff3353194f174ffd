"""Receding-horizon control against hand-written rules, in the true simulators of the three domains.

    python benchmarks/domains.py [--only NAME] [--episodes N] [--time-limit-per-step S] [--threads N]

Prints one row per shipped problem: mean and spread of the return of a rule that anybody would write, of one that knows
the true formulas and aims at the best next state, and of control by the learned network; seconds per step; share of
proven steps. All start from the same random states; run it from the repository's root.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reluplan.control import Controller, ControlReport, run_episode
from reluplan.problem.problem import Problem
from reluplan.simulators import open_simulator
from reluplan.simulators.ordered import OrderedSimulator

Array = NDArray[np.float64]
EXAMPLES = Path(__file__).parents[1] / "examples"
RAIN = np.array([5.0, 10.0, 20.0, 30.0])
MIDDLE = np.array([50.0, 105.0, 210.0, 270.0])
ADJACENT = {3: [(0, 1), (0, 2), (1, 2)], 6: [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]}
OUTSIDE = {3: [0, 1], 6: [0, 2, 3, 5]}
HALL = {3: [0, 2], 6: list(range(6))}


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


def release_down_to_the_middle(level: Array) -> Array:
    """Knows rain and evaporation: all that would be above the middle of the wanted range is let out."""
    flow = np.zeros_like(level)
    inflow = 0.0
    for r, there in enumerate(level):
        after = there + RAIN[r] + inflow - 0.5 * np.sin(there / 1000.0) * there
        flow[r] = inflow = float(np.clip(after - MIDDLE[r], 0.0, there))
    return flow


def bang_bang_heating(temperature: Array) -> Array:
    """Full air below 21 degrees, none above: one step of full air then ends below 23.5."""
    return np.where(temperature < 21.0, 10.0, 0.0)


def heat_to_the_middle(temperature: Array) -> Array:
    """Knows all flows of heat: as much air as makes the next temperature 21.75, as far as it goes."""
    count = len(temperature)
    heat = np.zeros(count)
    for a, b in ADJACENT[count]:
        heat[[a, b]] += np.array([1.0, -1.0]) * (temperature[b] - temperature[a]) / 1.5
    heat[OUTSIDE[count]] += (6.0 - temperature[OUTSIDE[count]]) / 4.0
    heat[HALL[count]] += (10.0 - temperature[HALL[count]]) / 2.0
    return np.clip((80.0 * (21.75 - temperature) - heat) / (1.006 * (40.0 - temperature)), 0.0, 10.0)


def round_the_centre(location: Array) -> Array:
    """Knows where it is slow: as long as the straight way leads through the zone, along its edge instead.

    The edge is a circle of radius 1.5 around the centre; the aim is where the tangent from here touches it.
    """
    way, distance, radius = 3.0 - location, np.linalg.norm(location), 1.5
    ahead = -location @ way / max(way @ way, 1e-12)
    nearest = location + np.clip(ahead, 0.0, 1.0) * way
    if distance <= radius or np.linalg.norm(nearest) >= radius:
        return straight_to_the_target(location)
    side = 1.0 if location[0] * way[1] - location[1] * way[0] >= 0.0 else -1.0
    turn = np.arcsin(radius / distance) * -side
    inward = -location / distance
    aim = np.array([inward[0] * np.cos(turn) - inward[1] * np.sin(turn),
                    inward[0] * np.sin(turn) + inward[1] * np.cos(turn)])  # fmt: skip
    return np.asarray(0.1 * aim / np.abs(aim).max())


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
    informed_rule: Callable[[Array], Array]

    @property
    def name(self) -> str:
        return f"{self.domain}_{self.size}"

    def starts(self, count: int) -> Array:
        """The first states of the episodes: the same for every policy."""
        box = self.start_lower, self.start_upper
        return np.random.default_rng(0).uniform(*box, (count, len(self.start_lower)))


def _reservoir(size: int) -> Setting:
    low, high = (20.0, 30.0, 40.0, 60.0), (80.0, 180.0, 380.0, 480.0)
    rules = release_the_inflow, release_down_to_the_middle
    return Setting("reservoir", size, 5, 30, 5.0, low[:size], high[:size], *rules)


def _hvac(size: int) -> Setting:
    return Setting("hvac", size, 4, 30, 5.0, (6.0,) * size, (20.0,) * size, bang_bang_heating, heat_to_the_middle)


def _navigation(size: int) -> Setting:
    """The way round the slow zone pays after dozens of steps only, so the plan must see them all."""
    low, high = (-size / 2,) * 2, (2.0 - size / 2,) * 2
    return Setting("navigation", size, None, 100, 5.0, low, high, straight_to_the_target, round_the_centre)


SETTINGS = (_reservoir(3), _reservoir(4), _hvac(3), _hvac(6), _navigation(8), _navigation(10))


def mean_and_spread(returns: list[float]) -> str:
    """Over episodes; spread is the standard deviation."""
    return f"{np.mean(returns):,.1f} ± {np.std(returns, ddof=min(1, len(returns) - 1)):,.1f}"


def measure(setting: Setting, episode_count: int, time_limit: float, threads: int | None) -> str:
    """One row of the table."""
    folder = EXAMPLES / setting.domain
    problem = Problem.load(folder / setting.name / "problem.toml")
    simulator = OrderedSimulator(open_simulator(str(folder / "domain.rddl"), f"instance_{setting.size}.rddl"), problem)
    controller = Controller(
        problem, lookahead=setting.lookahead, steps=setting.steps, time_limit_per_step=time_limit,
        threads=threads, time_limit_first_step=setting.first_seconds,
    )  # fmt: skip
    starts = setting.starts(episode_count)
    rule, informed = (
        [run_episode(simulator, policy, setting.steps, start=start).total_reward for start in starts]
        for policy in (setting.rule, setting.informed_rule)
    )
    episodes, decisions = [], []
    for start in starts:
        controller.reset()
        episodes.append(run_episode(simulator, controller.policy, setting.steps, start=start))
        decisions.append(tuple(controller.decisions))
    found = ControlReport(problem, tuple(episodes), tuple(decisions)).summary()
    wins = sum(mine > other for mine, other in zip(found["returns"], rule, strict=True))
    return (
        f"| {problem.name} | {setting.steps} | {setting.lookahead or 'all'} | {mean_and_spread(rule)} "
        f"| {mean_and_spread(informed)} | {mean_and_spread(found['returns'])} | {wins} of {episode_count} "
        f"| {found['seconds_per_step']:.2f} | {found['proven_share']:.0%} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only")
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--time-limit-per-step", type=float, default=0.5)
    parser.add_argument("--threads", type=int, help="all cores by default")
    options = parser.parse_args()
    print("| problem | steps | lookahead | rule | informed rule | control | episodes won | seconds a step | proven |")
    print("|---|---|---|---|---|---|---|---|---|")
    for setting in SETTINGS:
        if options.only in (None, setting.name):
            print(measure(setting, options.episodes, options.time_limit_per_step, options.threads), flush=True)


if __name__ == "__main__":
    main()
