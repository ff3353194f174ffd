"""How far the default gets beyond the published networks: floor, aim and what was measured, case by case.

    python benchmarks/scale.py [PUSHING_T_FOLDER] [FAMILY_FOLDER] [--only GROUP ...] [--seconds S] [--threads 2]
                               [--gurobi] [--json OUT]

PUSHING_T_FOLDER holds network.onnx and instances.json of the T that is pushed; without it, its groups are left out
("-" stands for none). FAMILY_FOLDER: as `python -m benchmarks.systems make` writes it; what is missing is made.
Groups: pendulum, reservoir, cart-pole, mountain-car, pushing, pushing-obstacles, pushing-bound, wide, limits.
--seconds: in place of each case's own limit, to try it. --gurobi: the reservoirs with Gurobi as well, to compare.
Each run is a process of its own; plans are rolled out and checked by the product.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from limits import write_random
from outcomes import Outcome, allowed, run
from systems.make import MADE, prepared
from systems.pushing import read_instances, write_pushing

from reluplan.files import write_atomically
from systems import SCALED

PROVEN = 1e-4
TRIVIAL = 1e-6
"""A cost that is at least this much is more than known without a proof."""


@dataclass(frozen=True)
class Case:
    """A line of the table: what must be reached, what is hoped for ("-" if nothing more), and which was."""

    name: str
    floor: str
    aim: str
    measured: str
    reaches_floor: bool
    reaches_aim: bool = False

    def line(self) -> str:
        words = ["yes" if self.reaches_floor else "NO"]
        words.append("-" if self.aim == "-" else "yes" if self.reaches_aim else "NO")
        return f"| {' | '.join([self.name, self.floor, self.aim, self.measured, *words])} |"


@dataclass(frozen=True)
class Bench:
    """Where the problems are, and how long a run takes; given: seconds in place of a case's own."""

    family: Path
    pushing: Path | None
    scratch: Path
    threads: int
    given: float | None
    gurobi: bool

    def seconds(self, own: float) -> float:
        return own if self.given is None else self.given

    def plan(self, problem: Path, seconds: float, horizon: int | None = None, method: str = "auto") -> Outcome:
        return run(method, problem, self.seconds(seconds), self.threads, horizon)

    def of_family(self, name: str, horizon: int) -> Outcome:
        return self.plan(prepared(name, self.family), 60.0, horizon)


def told(outcome: Outcome) -> str:
    """Reward, bound, gap and seconds, or why there are none."""
    if outcome.reward is None:
        return f"{outcome.trouble}, bound {outcome.bound}, {outcome.seconds:.1f} s"
    gap = "-" if outcome.gap is None else f"{outcome.gap:.2%}"
    bound = "-" if outcome.bound is None else f"{outcome.bound:.6g}"
    return f"{outcome.reward:.6g}, bound {bound}, gap {gap}, {outcome.seconds:.1f} s"


def gap_case(name: str, outcome: Outcome, floor: float, aim: float) -> Case:
    """A gap that must be reached, and one that is aimed at."""
    gap = math.inf if outcome.gap is None else outcome.gap
    words = ["proven" if wanted <= PROVEN else f"gap ≤ {wanted:.0%}" for wanted in (floor, aim)]
    return Case(name, words[0], words[1], told(outcome), gap <= floor, gap <= aim)


def pendulum(bench: Bench) -> Iterator[Case]:
    """One hidden layer of 32."""
    for horizon, floor, aim in ((20, 0.25, 0.02), (40, 0.45, 0.10)):
        yield gap_case(f"pendulum H = {horizon}", bench.of_family("pendulum", horizon), floor, aim)


def reservoir(bench: Bench) -> Iterator[Case]:
    """Networks trained with new seeds: proven, soon, and not much later than with Gurobi."""
    for name, system in SCALED.items():
        if not name.startswith("reservoir3"):
            continue
        for horizon in system.horizons:
            own = bench.of_family(name, horizon)
            proven = own.gap is not None and own.gap <= PROVEN
            within, measured = 10.0, told(own)
            if bench.gurobi:
                other = bench.plan(prepared(name, bench.family), 60.0, horizon, "auto-gurobi")
                within, measured = max(within, 3.0 * other.seconds), f"{measured}; Gurobi: {told(other)}"
            aim = "proven in 10 s, or 3 times Gurobi's"
            yield Case(f"{name} H = {horizon}", "proven", aim, measured, proven, proven and own.seconds <= within)


def cart_pole(bench: Bench) -> Iterator[Case]:
    """A boolean action."""
    yield gap_case("cart pole H = 30", bench.of_family("cart-pole", 30), 0.03, PROVEN)


def mountain_car(bench: Bench) -> Iterator[Case]:
    """Long, and rewarded late: no reward is above zero, so that a bound of zero says nothing."""
    found = bench.of_family("mountain-car", 110)
    case = gap_case("mountain car H = 110", found, math.inf, 0.20)
    below = found.bound is not None and found.bound < 0.0
    yield dataclasses.replace(case, floor="bound below 0", reaches_floor=below)


def pushing(bench: Bench, obstacles: bool = False) -> Iterator[Case]:
    """The final cost against the published ones; obstacles are octagons that contain the published circles."""
    assert bench.pushing is not None
    made = write_pushing(bench.pushing, bench.scratch)
    for number, instance in enumerate(read_instances(bench.pushing)):
        name = f"pushing-{number}" + ("-obstacles" if obstacles else "")
        found = bench.plan(made[name], 300.0 if obstacles else 60.0)
        cost = math.inf if found.reward is None else -found.reward
        floor, aim = min(instance.published["CEM"], instance.published["MPPI"]), instance.published["BaB-ND"]
        limits = f"cost ≤ {floor:.3g} (CEM, MPPI)", f"cost ≤ {aim:.3g} (BaB-ND)"
        yield Case(name, *limits, f"cost {cost:.4g}; {told(found)}", cost <= floor, cost <= aim)


def pushing_bound(bench: Bench) -> Iterator[Case]:
    """A cost that no plan beats, above zero."""
    assert bench.pushing is not None
    problem = write_pushing(bench.pushing, bench.scratch)["pushing-0"]
    floor, aim = "cost > 0 proven, H ≥ 3", "cost > 0 proven, H = 20"
    found = {horizon: bench.plan(problem, 300.0, horizon) for horizon in (3, 20)}
    above = {horizon: each.bound is not None and each.bound < -TRIVIAL for horizon, each in found.items()}
    for horizon, each in found.items():
        yield Case(f"pushing-0 H = {horizon}", floor, aim, told(each), any(above.values()), above[20])


def wide(bench: Bench) -> Iterator[Case]:
    """64:64 to 256:256: how soon there is a good plan (the best known is that of auto or of gradient ascent)."""
    for name, system in SCALED.items():
        if name.startswith("reservoir3"):
            continue
        path = prepared(name, bench.family)
        for horizon in system.horizons:
            own, other = (bench.plan(path, 60.0, horizon, method) for method in ("auto", "gradient"))
            yield from first_plan(f"{name} H = {horizon}", own, other, gap_aim=horizon == 20)


def first_plan(name: str, own: Outcome, other: Outcome, gap_aim: bool) -> Iterator[Case]:
    """Two lines: the seconds until the plan was within 1 % and 0.1 % of the best known, and the gap at the end."""
    best = max((each.reward for each in (own, other) if each.reward is not None), default=-math.inf)
    near, nearer = (own.first_plan(best, share) for share in (1e-2, 1e-3))
    times = ", ".join("never" if t is None else f"{t:.1f} s" for t in (near, nearer))
    reached = near is not None and near <= 10.0, nearer is not None and nearer <= 3.0
    measured = f"within 1 %, 0.1 % after {times}; best known {best:.6g}"
    yield Case(f"{name}: first plan", "within 1 % in 10 s", "within 0.1 % in 3 s", measured, *reached)
    finite = own.gap is not None and math.isfinite(own.gap)
    small = own.gap is not None and own.gap <= 0.01
    aim = "gap ≤ 1 %" if gap_aim else "-"
    yield Case(f"{name}: gap", "finite", aim, told(own), finite, small and gap_aim)


def limits(bench: Bench) -> Iterator[Case]:
    """Time limits, the start of Python included: 10 % and 2 s more, for every size."""
    for number, spec in enumerate(("512-512:20", "32:20000", "512-512:20000")):
        folder = bench.scratch / f"limits-{number}"
        folder.mkdir()
        problem = write_random(spec, folder)
        for limit in (10.0, 60.0) if bench.given is None else (bench.given,):
            found = run("auto", problem, limit, bench.threads)
            kept = found.seconds <= allowed(limit) and not found.trouble.startswith("killed")
            floor = f"≤ {allowed(limit):.0f} s"
            yield Case(f"{spec}, limit {limit:g} s", floor, "-", told(found), kept)


GROUPS: dict[str, Callable[[Bench], Iterator[Case]]] = {
    "pendulum": pendulum,
    "reservoir": reservoir,
    "cart-pole": cart_pole,
    "mountain-car": mountain_car,
    "pushing": pushing,
    "pushing-obstacles": lambda bench: pushing(bench, obstacles=True),
    "pushing-bound": pushing_bound,
    "wide": wide,
    "limits": limits,
}


def measure(bench: Bench, groups: list[str]) -> Iterator[Case]:
    """The cases of the groups; those of the T that is pushed only where it is."""
    for name in groups:
        if bench.pushing is not None or not name.startswith("pushing"):
            yield from GROUPS[name](bench)


def main() -> None:
    """Print the table as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pushing", type=Path, nargs="?", default=Path("-"))
    parser.add_argument("family", type=Path, nargs="?", default=MADE)
    parser.add_argument("--only", nargs="+", choices=GROUPS, metavar="GROUP", default=list(GROUPS))
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--gurobi", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    source = None if options.pushing == Path("-") else options.pushing
    cases: list[Case] = []
    print("| case | floor | aim | measured | floor reached | aim reached |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options.family, source, Path(scratch), options.threads, options.seconds, options.gurobi)
        for case in measure(bench, options.only):
            print(case.line(), flush=True)
            cases.append(case)
            if options.json:
                write_atomically(options.json, json.dumps([dataclasses.asdict(each) for each in cases], indent=1))
    floors, aims = (sum(getattr(case, name) for case in cases) for name in ("reaches_floor", "reaches_aim"))
    aimed = sum(case.aim != "-" for case in cases)
    print(f"\nfloor reached in {floors} of {len(cases)} cases, aim in {aims} of {aimed}")


if __name__ == "__main__":
    main()
