"""The six published instances at short horizons: two solvers, one optimum."""

from __future__ import annotations

from pathlib import Path

import pytest

from patience import AMPLE
from reluplan.planning.planner import plan
from reluplan.problem.check import check
from reluplan.problem.hd_milp_plan.convert import convert
from reluplan.problem.problem import Problem

GAP = 5e-6
HORIZONS = {
    "hvac_3": 3,
    "hvac_6": 2,
    "reservoir_3": 4,
    "reservoir_4": 3,
    "navigation_8x8": 2,
    "navigation_10x10": 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HORIZONS)
def test_highs_and_scip_prove_the_same_optimum(published_instances: Path, tmp_path: Path, name: str) -> None:
    bounds = (-0.1, 0.1) if name.startswith("navigation") else None
    problem = Problem.load(convert(published_instances, name, tmp_path, bounds))
    results = [
        plan(problem, horizon=HORIZONS[name], method="base", solver=solver, gap=GAP) for solver in ("highs", "scip")
    ]
    for result in results:
        assert result.status == "optimal"
        assert result.trajectory is not None
        assert check(problem, result.trajectory).ok
    rewards = [result.reward for result in results]
    assert rewards[0] == pytest.approx(rewards[1], rel=1e-5)


@pytest.mark.slow
def test_integer_states_and_goal_boxes_plan(published_instances: Path, tmp_path: Path) -> None:
    """The example variants: integer locations that must end in the box [0, 3]², too far for two small steps."""
    examples = ["goal", "pvariables"]
    near = Problem.load(convert(published_instances, "navigation_8x8", tmp_path, None, examples))
    result = plan(near, horizon=6, method="base", time_limit=AMPLE)
    assert result.trajectory is not None
    assert (result.trajectory.states == result.trajectory.states.round()).all()
    assert (result.trajectory.states[-1] >= 0.0).all()
    assert plan(near, horizon=2, method="base").status == "infeasible"
