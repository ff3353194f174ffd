"""What must not change when the code is rebuilt: everything deterministic, to the last bit.

    python benchmarks/regression.py record FILE [FOLDER]      write what the code computes now
    python benchmarks/regression.py compare FILE [FOLDER]     compute it again and list what differs; exit code 1 if so
    ... --only tanks,hvac_3 --parts boxes,search              some instances, some parts

FOLDER holds the published HD-MILP-Plan instances; without it only the shipped ones are computed. For each instance:
reachable boxes and what LPs make of them, the LP relaxation at the root, potentials after a few rounds, the first
plans of the search on a clock that counts work, rounds of the Lagrangian decomposition, and a short grid bound.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from instances import HORIZONS, load_instance

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.reachability import forward_bounds, reachable_bounds
from reluplan.encoding.unroll import unroll
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.potentials.algorithm1 import generate_potentials
from reluplan.potentials.domain import step_domain
from reluplan.potentials.settings import PotentialSettings
from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.grid.value_function import grid_bound
from reluplan.proofs.lagrangian.decomposition import Decomposition
from reluplan.proofs.lagrangian.multipliers import plan_multipliers
from reluplan.proofs.lagrangian.partition import partition
from reluplan.proofs.lagrangian.settings import WindowBudget
from reluplan.proofs.lagrangian.subproblem import window_subproblems
from reluplan.search import search_plans
from reluplan.tightening.propagation import propagate

SHIPPED = (
    "tanks", "hvac/hvac_3", "hvac/hvac_6", "reservoir/reservoir_3", "reservoir/reservoir_4",
    "navigation/navigation_8", "navigation/navigation_10",
)  # fmt: skip
SHORT = 8
"""Steps of root relaxation and decomposition; the boxes go over a hundred."""
SEARCH_WORK = 1.5
"""Units of 1e9 operations for the search."""

Record = dict[str, Any]


def problems(folder: Path | None) -> Iterator[tuple[str, Problem]]:
    """Every instance with its name."""
    examples = Path(__file__).resolve().parents[1] / "examples"
    for name in SHIPPED:
        yield name.rpartition("/")[2], Problem.load(examples / name / "problem.toml")
    if folder is not None:
        for name in HORIZONS:
            yield f"published {name}", load_instance(folder, name, HORIZONS[name])


def digest(*arrays: np.ndarray[Any, Any]) -> str:
    """A hash of the arrays' bits."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def exact(value: float) -> str:
    """A number to its last bit, readable."""
    return repr(float(value))


def boxes(problem: Problem) -> Record:
    """Reachable boxes, and after propagation by LPs."""
    found: Record = {}
    for name, bounds in (("reachable", reachable_bounds(problem)), ("propagated", _propagated(problem))):
        arrays = {field.name: getattr(bounds, field.name) for field in dataclasses.fields(bounds)}
        arrays = {key: value for key, value in arrays.items() if isinstance(value, np.ndarray)}
        found[name] = {key: digest(value) for key, value in sorted(arrays.items())}
        found[name]["unstable"] = int(bounds.unstable.sum())
        found[name]["width"] = exact(np.sum(bounds.state_upper - bounds.state_lower))
    return found


def _propagated(problem: Problem) -> HorizonBounds:
    return propagate(problem, reachable_bounds(problem))


def root(problem: Problem) -> Record:
    """The whole model's size and the optimum of its LP relaxation."""
    model = unroll(problem, _propagated(problem)).model
    result = HighsSolver().solve(model.relaxed(), SolveOptions())
    size = [model.row_count, model.column_count, int(model.integer.sum()), int(model.matrix.nnz)]
    return {"size": size, "matrix": digest(model.matrix.data, model.matrix.indices), "bound": exact(result.dual_bound)}


def potentials(problem: Problem) -> Record:
    """Algorithm 1 for a few rounds."""
    settings = PotentialSettings(interval_count=2, samples=2_000, max_rounds=3)
    domain = step_domain(problem, forward_bounds(problem), 0, problem.horizon - 1)
    found = generate_potentials(domain, settings)
    values = found.potentials.values
    return {"values": digest(values), "objective": exact(found.objective), "cuts": found.cut_count}


def first_plans(problem: Problem) -> list[Trajectory]:
    """What the search finds with a fixed amount of work, each better than the one before."""
    plans: list[Trajectory] = []

    def take(plan: Trajectory, _source: str) -> bool:
        if check(problem, plan).ok and (not plans or plan.total_reward > plans[-1].total_reward):
            plans.append(plan)
        return True

    with clock.using(clock.WorkClock()):
        search_plans(problem, None, SEARCH_WORK, take)
    return plans


def search(problem: Problem) -> Record:
    """The first and the best plan."""
    plans = first_plans(problem)
    if not plans:
        return {"plans": 0}
    rewards = [exact(plan.total_reward) for plan in (plans[0], plans[-1])]
    return {"plans": len(plans), "rewards": rewards, "actions": digest(plans[-1].actions)}


def decomposition(problem: Problem) -> Record:
    """Multipliers of the plan's LP, their bound, and that of the next proposal."""
    plans = first_plans(problem)
    if not plans:
        return {}
    plan, bounds = plans[-1], _propagated(problem)
    spans = partition(plan, problem.series_table, bounds.unstable.sum(axis=1), WindowBudget(steady=8, moving=12, few=0))
    with WorkerPool("highs", 1) as pool:
        parts = window_subproblems(problem, bounds, spans, plan)
        work = Decomposition(parts, plan, pool, np.random.default_rng(0))
        slopes = plan_multipliers(problem, bounds, plan, problem.horizon, 60.0)
        first = np.hstack([slopes, np.zeros_like(slopes)])[[0, *(span.end for span in spans)]]
        evaluation = work.evaluate(work.tied(first), math.inf, 1e-3)
        radius = 0.2 * (np.abs(evaluation.multipliers) + np.abs(first).mean() + 1e-6)
        proposal, promised = work.propose(evaluation.multipliers, radius, evaluation.total)
        second = work.evaluate(proposal, math.inf, 1e-3)
    totals = [exact(value) for value in (evaluation.total, promised, second.total)]
    return {"windows": len(spans), "multipliers": digest(first), "totals": totals}


def grid(problem: Problem) -> Record:
    """The bounds of the first two grids, where there are few states."""
    if len(problem.states) > 2:
        return {}
    offers: list[str] = []
    told: list[str] = []

    def offer(value: float, _margin: float) -> None:
        offers.append(exact(value))
        if len(offers) == 2:
            raise _EnoughError

    with contextlib.suppress(_EnoughError):
        grid_bound(problem, reachable_bounds(problem), None, math.inf, offer, told.append)
    return {"offers": offers, "told": told}


class _EnoughError(Exception):
    """Two grids are enough."""


PARTS: dict[str, tuple[Callable[[Problem], Record], int]] = {
    "boxes": (boxes, 100),
    "root": (root, SHORT),
    "potentials": (potentials, SHORT),
    "search": (search, 30),
    "decomposition": (decomposition, SHORT),
    "grid": (grid, SHORT),
}
"""What is computed, and over how many steps."""


def compute(folder: Path | None, only: list[str] | None, parts: list[str] | None) -> Record:
    """Everything, one instance after the other; only: of these instances, parts: of these."""
    record: Record = {}
    for name, problem in problems(folder):
        if only is not None and name not in only:
            continue
        record[name] = {}
        for part, (function, steps) in PARTS.items():
            if parts is not None and part not in parts:
                continue
            record[name][part] = function(problem.with_horizon(min(problem.horizon, steps)))
            print(f"{name}: {part}", file=sys.stderr, flush=True)
    return record


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Every place where two records differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() & after.keys()):
            yield from differences(before[key], after[key], f"{where}/{key}")
    elif before != after:
        yield f"{where}: {before} -> {after}"


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--parts", type=lambda text: text.split(","))
    options = parser.parse_args()
    found = compute(options.folder, options.only, options.parts)
    if options.action == "record":
        options.file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return
    listed = list(differences(json.loads(options.file.read_text(encoding="utf-8")), found))
    print("\n".join(listed) if listed else "no difference")
    sys.exit(1 if listed else 0)


if __name__ == "__main__":
    main()
