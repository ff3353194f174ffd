"""Whether the default is the best choice on systems of many kinds: reward and bound of each method at equal time.

    python benchmarks/family.py [FOLDER] [--seconds 60] [--half tune|test] [--only NAME ...] [--methods auto,base,cem]
                                [--threads 2] [--json OUT]

FOLDER holds the systems as `python -m benchmarks.systems make` writes them (there by default); a missing one is made,
which needs the extra `train`. Methods run one after the other, each a process of its own: `auto`, `base` (on HiGHS),
`base-scip` (if installed), and the plain numpy programs of benchmarks/baselines, whose plans are rolled out and checked
by the product. A cell has the reward, for planners with the bound after the bar.

    reward   of auto against the best baseline: worse if by more than 0.1 % of max(1, |reward|)
    bound    of auto against base on HiGHS: worse if by more than 1 % of base's gap to the best plan, unless proven
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from outcomes import BASELINES, METHODS, Outcome, run
from systems.make import MADE, prepared

from reluplan.files import write_atomically
from systems import FAMILY

CLOSE = 1e-3
"""Of max(1, |reward|): a plan of auto may be worse than that of a baseline by this much."""
CLOSE_BOUND = 0.01
"""Of base's gap: a bound of auto may be worse than that of base by this much."""
SAME = 1e-6
"""Relative to max(1, |value|): less is not better."""
PROVEN = 1e-4
ALWAYS = ("better", "equal", "worse")
WORDS = (*ALWAYS, "failed", "-")
SCIP = ("base-scip",) if find_spec("pyscipopt") else ()
DEFAULT = ("auto", "base", *SCIP, *BASELINES)


@dataclass(frozen=True)
class Row:
    """One system over one horizon, and how each method ended."""

    name: str
    half: str
    horizon: int
    outcomes: Mapping[str, Outcome]

    @property
    def is_proven(self) -> bool:
        gap = self.outcomes["auto"].gap
        return gap is not None and gap <= PROVEN

    @property
    def reward_verdict(self) -> str:
        """auto's plan against the best of the baselines."""
        auto = self.outcomes["auto"]
        rivals = [self.outcomes[method] for method in BASELINES if method in self.outcomes]
        if auto.is_failure or not rivals:
            return "failed" if auto.is_failure else "-"
        best = max((rival.reward for rival in rivals if rival.reward is not None), default=None)
        if auto.reward is None or best is None:
            return without_both(auto.reward, best)
        size = max(1.0, abs(best))
        return verdict(auto.reward - best, SAME * size, CLOSE * size)

    @property
    def bound_verdict(self) -> str:
        """auto's bound against that of base on HiGHS."""
        auto, base = self.outcomes["auto"], self.outcomes.get("base")
        if auto.is_failure or base is None:
            return "failed" if auto.is_failure else "-"
        if auto.bound is None or base.bound is None:
            return without_both(auto.bound, base.bound)
        best = max((each.reward for each in self.outcomes.values() if each.reward is not None), default=base.bound)
        size = max(1.0, abs(base.bound))
        found = verdict(base.bound - auto.bound, SAME * size, CLOSE_BOUND * max(0.0, base.bound - best))
        return "equal" if found == "worse" and self.is_proven else found


def without_both(own: float | None, other: float | None) -> str:
    """Something is better than nothing."""
    return "better" if own is not None else "worse" if other is not None else "equal"


def verdict(ahead: float, same: float, close: float) -> str:
    """Better by more than `same`, worse by more than `close`, else equal."""
    return "better" if ahead > same else "worse" if ahead < -max(close, same) else "equal"


def measure(options: argparse.Namespace) -> Iterator[Row]:
    """One row per system and horizon."""
    for name, system in FAMILY.items():
        if options.half in (None, system.half) and (not options.only or name in options.only):
            path = prepared(name, options.folder)
            for horizon in system.horizons:
                outcomes = {m: run(m, path, options.seconds, options.threads, horizon) for m in options.methods}
                yield Row(name, system.half, horizon, outcomes)


def cell(outcome: Outcome) -> str:
    """Reward and bound, or why there are none."""
    numbers = ["-" if x is None else f"{x:.6g}" for x in (outcome.reward, outcome.bound)]
    if outcome.reward is None and outcome.trouble:
        numbers[0] = outcome.trouble.replace("|", "/")
    return numbers[0] if outcome.bound is None else " \\| ".join(numbers)


def line(row: Row) -> str:
    """A line of the table."""
    gap = row.outcomes["auto"].gap if "auto" in row.outcomes else None
    cells = [row.name, str(row.horizon), *map(cell, row.outcomes.values()), "-" if gap is None else f"{gap:.2%}"]
    verdicts = [row.reward_verdict, row.bound_verdict] if "auto" in row.outcomes else ["-", "-"]
    return f"| {' | '.join([*cells, *verdicts])} |"


def summary(rows: list[Row]) -> str:
    """How often auto is better, equal, worse, and how often it has proven its plan."""

    def counts(verdicts: list[str]) -> str:
        return ", ".join(f"{word} {verdicts.count(word)}" for word in WORDS if word in verdicts or word in ALWAYS)

    rewards, bounds = [row.reward_verdict for row in rows], [row.bound_verdict for row in rows]
    proven = sum(row.is_proven for row in rows)
    return f"{len(rows)} rows: reward {counts(rewards)}; bound {counts(bounds)}; proven {proven}"


def save(rows: list[Row], path: Path) -> None:
    """All rows so far as JSON."""
    write_atomically(path, json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")


def methods(text: str) -> tuple[str, ...]:
    """Names between commas."""
    names = tuple(text.split(","))
    if unknown := set(names) - set(METHODS):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(METHODS)}")
    return names


def main() -> None:
    """Print one table per half, lines as they come, then the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=MADE)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--half", choices=("tune", "test"))
    parser.add_argument("--only", nargs="+", choices=FAMILY, metavar="NAME")
    parser.add_argument("--methods", type=methods, default=DEFAULT)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    for row in measure(options):
        if not rows or rows[-1].half != row.half:
            titles = [row.half, "H", *options.methods, "gap of auto", "reward", "bound"]
            print(f"\n| {' | '.join(titles)} |\n|{'---|' * len(titles)}", flush=True)
        rows.append(row)
        print(line(row), flush=True)
        if options.json:
            save(rows, options.json)
    if "auto" in options.methods:
        halves = {half: [row for row in rows if row.half == half] for half in ("tune", "test")}
        print()
        for name, part in {**halves, "all": rows}.items():
            if part:
                print(f"{name}: {summary(part)}")


if __name__ == "__main__":
    main()
