"""Do further rows at the root pay? The base model of short plans, with and without each kind, by nodes of HiGHS.

    python benchmarks/root_rows.py FOLDER [--limit SECONDS]

FOLDER holds the HD-MILP-Plan instances. All rows are about units of the first layer, In = w · x + b over the box of a
step's inputs, P = max(0, In), z its binary:

    partition      In = A + S, the action part and the state part: A = A_on + A_off, S = S_on + S_off, each part within
                   its bounds times z or 1 − z,  P = A_on + S_on + b z,  A_off + S_off + b (1 − z) <= 0
    implications   z_u <= z_v, z_u + z_v <= 1, ... wherever the box proves one (one LP for each pair and side)
    ideal          the exact hull of single units over the box, ten rounds of cuts (`encoding/cuts.py`)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from instances import load_instances
from numpy.typing import NDArray

from reluplan.bounds.reachability import reachable_bounds
from reluplan.encoding.cuts import Unit, add_ideal_cuts, first_layer_units
from reluplan.encoding.unroll import PlanModel, unroll
from reluplan.optimisation.model import Model, ModelBuilder
from reluplan.optimisation.persistent_lp import PersistentLp
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver

SHORT = {"reservoir_3": 5, "reservoir_4": 5, "hvac_3": 4, "hvac_6": 3, "navigation_8x8": 3}


def with_partition(plan_model: PlanModel) -> Model:
    """Two parts for each unit."""
    builder = ModelBuilder.continuing(plan_model.model)
    for units in first_layer_units(plan_model):
        for unit in units:
            is_action = np.isin(unit.inputs, plan_model.actions)
            parts = [_add_part(builder, unit, which) for which in (is_action, ~is_action)]
            on, off = np.array([part[0] for part in parts]), np.array([part[1] for part in parts])
            row = builder.add_rows(0.0, 0.0)
            builder.add_entries(row, on, 1.0)
            builder.add_entries(row, [unit.binary, unit.output], [unit.bias, -1.0])
            row = builder.add_rows(-np.inf, -unit.bias)
            builder.add_entries(row, off, 1.0)
            builder.add_entries(row, unit.binary, -unit.bias)
    return builder.build()


def _add_part(builder: ModelBuilder, unit: Unit, which: NDArray[np.bool_]) -> tuple[int, int]:
    """Columns of one part while the unit is on and while it is off."""
    weights = np.where(which, unit.weights, 0.0)
    ends = weights * unit.lower, weights * unit.upper
    low, high = float(np.minimum(*ends).sum()), float(np.maximum(*ends).sum())
    on, off = builder.add_columns(np.full(2, min(low, 0.0)), np.full(2, max(high, 0.0))).tolist()
    row = builder.add_rows(0.0, 0.0)
    builder.add_entries(row, unit.inputs, weights)
    builder.add_entries(row, [on, off], [-1.0, -1.0])
    for bound, side in ((low, -1.0), (high, 1.0)):  # side · on <= side · bound · z, and the same of off and 1 − z
        builder.add_entries(builder.add_rows(-np.inf, 0.0), [on, unit.binary], [side, -side * bound])
        builder.add_entries(builder.add_rows(-np.inf, side * bound), [off, unit.binary], [side, side * bound])
    return on, off


def with_implications(plan_model: PlanModel) -> Model:
    """A row for each pair of units whose binaries exclude one of four combinations."""
    builder = ModelBuilder.continuing(plan_model.model)
    for units in first_layer_units(plan_model):
        for i, first in enumerate(units):
            for on in (True, False):
                lp = _half_box(first, on)
                for second in units[i + 1 :]:
                    columns = np.arange(len(second.weights))
                    if lp.maximum(columns, second.weights) + second.bias < 0.0:
                        _exclude(builder, first.binary, on, second.binary, True)
                    if lp.maximum(columns, -second.weights) - second.bias < 0.0:
                        _exclude(builder, first.binary, on, second.binary, False)
    return builder.build()


def _half_box(unit: Unit, on: bool) -> PersistentLp:
    """The part of the box in which a unit is on, or off."""
    builder = ModelBuilder()
    columns = builder.add_columns(unit.lower, unit.upper)
    sign = 1.0 if on else -1.0
    builder.add_entries(builder.add_rows(-sign * unit.bias, np.inf), columns, sign * unit.weights)
    return PersistentLp(builder.build())


def _exclude(builder: ModelBuilder, first: int, first_on: bool, second: int, second_on: bool) -> None:
    """Not both: z of the one as said and z of the other as said."""
    signs = [1.0 if on else -1.0 for on in (first_on, second_on)]
    row = builder.add_rows(-np.inf, 1.0 - (not first_on) - (not second_on))
    builder.add_entries(row, [first, second], signs)


KINDS: dict[str, Callable[[PlanModel], Model]] = {
    "base": lambda plan_model: plan_model.model,
    "partition": with_partition,
    "implications": with_implications,
    "ideal": add_ideal_cuts,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args()
    print("| instance | H | rows | root LP | optimum | bound | nodes | LP iterations | rows of the model |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, problem in load_instances(options.folder, SHORT):
        plan_model = unroll(problem, reachable_bounds(problem))
        for kind, extend in KINDS.items():
            model = extend(plan_model)
            root = HighsSolver().solve(model.relaxed(), SolveOptions()).objective
            found = HighsSolver().solve(model, SolveOptions(gap=1e-4, time_limit=options.limit))
            print(
                f"| {name} | {problem.horizon} | {kind} | {root:.4f} | {found.objective} | {found.dual_bound:.4f} "
                f"| {found.closed_nodes} | {found.lp_iterations} | {model.row_count} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
