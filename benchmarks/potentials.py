"""How fast reward potentials converge on the published instances, fast and paper setting side by side.

    python benchmarks/potentials.py FOLDER [--paper-limit SECONDS] [--only NAME] [--variants] [--limit SECONDS]

FOLDER holds the HD-MILP-Plan instances. Prints one row per instance and N: units, cuts, MILPs, processor seconds, proof
bound, the root bound of an 8-step plan with and without the potentials, and the paper setting's seconds (or its limit).
With --variants instead one row per instance and kind of potentials (N = 2): the root bound and the seconds to compute.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from instances import load_instances

from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.reachability import forward_bounds
from reluplan.encoding.unroll import Extension, unroll
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.potentials.algorithm1 import generate_potentials
from reluplan.potentials.compute import compute_potentials
from reluplan.potentials.domain import StepDomain, step_domain
from reluplan.potentials.generation import Generation
from reluplan.potentials.settings import PAPER_REGULARISER, PotentialSettings
from reluplan.potentials.strengthen import StrengtheningRows
from reluplan.problem.problem import Problem


def root_bound(problem: Problem, bounds: HorizonBounds, extension: Extension | None) -> float:
    """The optimum of the plan's LP relaxation."""
    model = unroll(problem, bounds, extension=extension).model
    relaxed = model.relaxed()
    return HighsSolver().solve(relaxed, SolveOptions()).objective or float("nan")


def measure(name: str, problem: Problem, interval_count: int, paper_limit: float) -> str:
    """One row of the table."""
    bounds = forward_bounds(problem)
    domain = step_domain(problem, bounds, 0, problem.horizon - 1)
    fast, seconds = _generate(domain, PotentialSettings(interval_count), 600.0)
    paper = "-"
    if paper_limit > 0.0:
        slow, slow_seconds = _generate(domain, PotentialSettings.paper(interval_count), paper_limit)
        paper = (
            f"{slow_seconds:.0f}" if slow.converged else f">{slow_seconds:.0f} (D = {slow.potentials.proof_bound:.3g})"
        )
    short = problem.with_horizon(8)
    short_bounds = forward_bounds(short)
    rows = StrengtheningRows([fast.potentials])
    return (
        f"| {name} | {interval_count} | {fast.potentials.features.unit_count} | {fast.cut_count} | {fast.milp_count} "
        f"| {'yes' if fast.converged else 'no'} | {seconds:.1f} | {fast.potentials.proof_bound:.3g} "
        f"| {root_bound(short, short_bounds, None):.4f} | {root_bound(short, short_bounds, rows):.4f} | {paper} |"
    )


def _generate(domain: StepDomain, settings: PotentialSettings, limit: float) -> tuple[Generation, float]:
    """Potentials and the processor seconds that they took."""
    began = time.process_time()
    found = generate_potentials(domain, settings, time.monotonic() + limit)
    return found, time.process_time() - began


VARIANTS: dict[str, tuple[PotentialSettings, bool]] = {
    "centre (default)": (PotentialSettings(2), False),
    "centre, λ = 1/√M (the paper's)": (PotentialSettings(2, regulariser=PAPER_REGULARISER), False),
    "mean pattern of samples": (PotentialSettings(2, objective="mean"), False),
    "mean pattern of greedy plans": (PotentialSettings(2, objective="plans"), False),
    "several: centre, mean, plans": (PotentialSettings(2, family="several"), False),
    "six sets, each at the LP's fractional pattern": (PotentialSettings(2, family="lp"), False),
    "one set per step, centre": (PotentialSettings(2), True),
    "one set per step, plans": (PotentialSettings(2, objective="plans"), True),
}


def compare_variants(name: str, problem: Problem, limit: float) -> None:
    """A row for each kind of potentials, computed for 8 steps as a plan of this length needs them."""
    short = problem.with_horizon(8)
    bounds = forward_bounds(short)
    base = root_bound(short, bounds, None)
    print(f"| {name} | none | {base:.4f} | | | |", flush=True)
    for label, (settings, per_step) in VARIANTS.items():
        began, worked = time.monotonic(), time.process_time()
        found = compute_potentials(short, bounds, settings, per_step, began + limit)
        seconds, worked = time.monotonic() - began, time.process_time() - worked
        root = root_bound(short, bounds, StrengtheningRows(found.items))
        state = "" if found.report.converged else " (limit)"
        print(
            f"| {name} | {label} | {root:.4f} | {base - root:.4f} | {seconds:.1f}{state} | {worked:.1f} |", flush=True
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--paper-limit", type=float, default=0.0)
    parser.add_argument("--only")
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args()
    head = (
        "| instance | N | units | cuts | MILPs | converged | seconds | D | root, base | root, potentials | paper, s |"
    )
    head = "| instance | potentials | root bound | gain | seconds | processor seconds |" if options.variants else head
    print(head)
    print("|---" * (head.count("|") - 1) + "|")
    for name, problem in load_instances(options.folder, only=options.only):
        if options.variants:
            compare_variants(name, problem, options.limit)
            continue
        for interval_count in (2, 3):
            print(measure(name, problem, interval_count, options.paper_limit), flush=True)


if __name__ == "__main__":
    main()
