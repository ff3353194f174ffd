"""Final rewards and discounting: every method and every proof against brute force, and the files that speak of them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from brute_force import optimum
from command_line import launch
from patience import AMPLE
from proof_cases import GAP, PARTITIONS, assert_above, assert_windows_above, solved
from random_problems import random_problem, with_final_reward
from reluplan.bounds.reachability import reachable_bounds
from reluplan.clock import Clock
from reluplan.errors import InfeasibleError, InputError
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.planner import plan
from reluplan.problem.check import check
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory, simulate
from reluplan.proofs.grid.settings import GridSettings
from reluplan.proofs.grid.value_function import grid_bound
from reluplan.proofs.interval import IntervalProof
from reluplan.proofs.lagrangian.proof import LagrangianProof
from reluplan.proofs.single_steps import SingleStepProof

GRIDS = GridSettings(first_cells=(8, 6, 3), most_bytes=20_000_000)
SEEDS = [0, 1, 2, 3, 6, 8, 9, 10, 11, 13]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("highs", 1) as workers:
        yield workers


def tiny_problem(seed: int, horizon: int | None = None) -> Problem:
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(1, 3)) if horizon is None else horizon
    problem = random_problem(rng, relus=int(rng.integers(1, 3)), horizon=steps, auxiliary=seed % 5 == 0)
    return with_final_reward(rng, problem)


def discounted(trajectory: Trajectory, problem: Problem) -> float:
    """Σ γ^t R + γ^H F written out, with functions evaluated one by one."""
    total, last = 0.0, trajectory.horizon
    for t in range(last):
        now = [trajectory.states[t], trajectory.actions[t], trajectory.auxiliaries[t]]
        after = [trajectory.states[t + 1], trajectory.auxiliaries[t + 1]]
        total += problem.discount**t * float(problem.reward.evaluate(np.concatenate([*now, *after])))
    if problem.final_reward is not None:
        w = np.zeros(problem.layout.width)
        w[problem.layout.states] = trajectory.states[-1]
        w[problem.layout.auxiliaries] = trajectory.auxiliaries[-1]
        total += problem.discount**last * float(problem.final_reward.evaluate(w))
    return total


@pytest.mark.parametrize("seed", SEEDS)
def test_plans_equal_brute_force(seed: int) -> None:
    problem = tiny_problem(seed)
    best = optimum(problem)
    for method in ("base", "auto", "potentials"):
        result = plan(problem, method=method, gap=GAP, threads=1)
        if best is None:
            assert result.status == "infeasible"
            continue
        assert result.status == "optimal"
        assert result.trajectory is not None
        assert result.bound is not None
        assert result.reward == pytest.approx(best, abs=2 * GAP * max(1.0, abs(best)))
        assert result.bound >= best - 1e-9
        assert result.reward == pytest.approx(discounted(result.trajectory, problem), rel=1e-12, abs=1e-12)
        assert check(problem, result.trajectory).ok


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), horizon=st.integers(1, 4))
@example(seed=3, horizon=4)
def test_every_proof_stays_above_the_optimum(pool: WorkerPool, seed: int, horizon: int) -> None:
    case = solved(tiny_problem(seed, horizon))
    if case is not None:
        assert_above(case, [(proof, AMPLE) for proof in (IntervalProof(), SingleStepProof(), LagrangianProof())], pool)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), which=st.integers(0, len(PARTITIONS) - 1), size=st.sampled_from([0.0, 0.3, 3.0]))
def test_any_multipliers_and_windows_prove_a_bound(pool: WorkerPool, seed: int, which: int, size: float) -> None:
    """Repeated windows too, whose rewards count less and less."""
    case = solved(tiny_problem(seed, 4))
    if case is not None:
        assert_windows_above(case, PARTITIONS[which], seed, size, pool)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), horizon=st.integers(1, 5), open_end=st.booleans())
def test_grids_stay_above_plans_and_meet_them(seed: int, horizon: int, open_end: bool) -> None:
    """With an incumbent, without one, and over several grids: no sampled plan beats the bounds."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=4, horizon=horizon)
    states = tuple(dataclasses.replace(v, kind="continuous", lower=-4.0, upper=4.0) for v in problem.states)
    problem = with_final_reward(rng, dataclasses.replace(problem, states=states))
    if open_end:
        problem = dataclasses.replace(problem, goal=())
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return
    best = plan(problem, method="base", gap=1e-6, threads=1).reward
    if best is None:
        return
    for incumbent in (None, best - 0.3, best):
        offers: list[float] = []
        limit = Clock(AMPLE).deadline()

        def offer(value: float, margin: float, offers: list[float] = offers) -> None:
            offers.append(value + margin)
            if len(offers) == 3:
                raise StopIteration

        with contextlib.suppress(StopIteration):
            grid_bound(problem, bounds, incumbent, limit, offer, lambda _: None, 1, GRIDS)
        assert all(value >= best - 1e-6 for value in offers)


def test_a_grid_meets_a_known_discounted_optimum() -> None:
    """s' = s + a, |a| <= 1, reward −|s'|, final −10 |s' − 2|, γ = 1/2, from 0 over 3 steps.

    Going to 2 costs 1/2 · 1 + 1/4 · 2 at the earliest and saves 10/8 for each unit: a = (0, 1, 1).
    """
    problem = _line_problem(discount=0.5, final="-10*abs(x - 2)", horizon=3)
    bounds = reachable_bounds(problem)
    offers: list[float] = []
    settings_ = GridSettings(first_cells=(8, 6, 3), most_bytes=2e7)
    grid_bound(
        problem, bounds, -1.0, Clock(AMPLE).deadline(), lambda v, m: offers.append(v + m), lambda _: None, 1, settings_
    )
    assert offers[-1] == pytest.approx(-1.0, abs=1e-5)
    assert plan(problem, method="auto", gap=1e-6, threads=1).reward == pytest.approx(-1.0, abs=1e-6)


def test_a_grid_proves_nothing_about_rewards_beyond_its_numbers() -> None:
    """γ^2 · 1e120 = 1: nodes with such values would count as absent, and the poor plan as the best one."""
    problem = _line_problem(discount=1e-60, final="-1e120*abs(x - 5)", horizon=2)
    poor = simulate(problem, np.zeros(1), np.full((2, 1), -0.5))
    result = plan(problem, stages=["bounds", "grid"], start=poor, threads=1)
    assert poor.total_reward == pytest.approx(-6.5)
    assert result.status == "feasible"
    assert result.bound is None or result.bound >= -4.0
    assert plan(problem, start=poor, threads=1).reward == pytest.approx(-4.0, abs=1e-3)


@pytest.mark.parametrize(("discount", "horizon"), [(0.1, 60), (0.2, 100), (1e-30, 60), (1e-200, 60)])
def test_windows_that_count_for_nothing_do_not_end_the_proof(discount: float, horizon: int) -> None:
    """γ^t of the last window is 1e-50, or zero."""
    problem = _line_problem(discount, "-abs(x - 2)", horizon)
    poor = simulate(problem, np.zeros(1), np.where(np.arange(horizon) % 2, -0.5, 0.4)[:, None])
    result = plan(problem, stages=["bounds", "lagrangian", "milp"], start=poor, threads=1)
    assert result.status == "optimal"
    assert result.reward == pytest.approx(0.0, abs=1e-4)
    assert not result.notes


TEXT = """
horizon = {horizon}
reward = "-abs(x')"
{final}
{discount}
[state.x]
initial = 0
bounds = [-5, 5]
[action.a]
bounds = [-1, 1]
[transition]
x = "x + a"
"""


def _line_text(discount: float | None, final: str | None, horizon: int) -> str:
    return TEXT.format(
        horizon=horizon,
        final="" if final is None else f'final_reward = "{final}"',
        discount="" if discount is None else f"discount = {discount}",
    )


def _line_problem(discount: float | None, final: str | None, horizon: int) -> Problem:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "line.toml"
        path.write_text(_line_text(discount, final, horizon))
        return Problem.load(path)


def test_the_final_reward_alone_moves_a_plan() -> None:
    still = plan(_line_problem(None, None, 4), gap=1e-6, threads=1)
    moved = plan(_line_problem(None, "-10*abs(x - 2)", 4), gap=1e-6, threads=1)
    assert still.reward == pytest.approx(0.0, abs=1e-6)
    assert moved.trajectory is not None
    assert moved.trajectory.states[-1, 0] == pytest.approx(2.0, abs=1e-5)
    assert moved.reward == pytest.approx(-3.0, abs=1e-5)
    assert moved.trajectory.final_reward == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("discount = 0", "discount: must be above 0 and at most 1, got 0"),
        ("discount = 1.01", "discount: must be above 0 and at most 1, got 1.01"),
        ("discount = -0.5", "discount: must be above 0"),
        ('discount = "much"', "discount: expected a number"),
        ("discount = inf", "discount: expected a finite number"),
        ('final_reward = "a"', "these rows are about the final state only"),
        ('final_reward = "x\'"', "these rows are about the final state only"),
        ("final_reward = 3", "final_reward"),
        ('final_reward = "x * x"', "final_reward"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "p.toml").write_text(line + _line_text(None, None, 3))
    with pytest.raises(InputError) as caught:
        Problem.load(tmp_path / "p.toml")
    assert said in str(caught.value)


def test_plan_file_check_and_result_know_the_final_reward(tmp_path: Path) -> None:
    """The rewards of a plan file are those of its steps; check adds them up with the discount, and finds forgeries."""
    problem = tmp_path / "line.toml"
    problem.write_text(_line_text(0.5, "-10*abs(x - 2)", 3))
    out = tmp_path / "run"
    assert launch("plan", str(problem), "--out", str(out), "--gap", "1e-6", "--quiet").code == 0
    result = json.loads((out / "result.json").read_text())
    assert result["reward"] == pytest.approx(-1.0, abs=1e-5)
    last = (out / "plan.csv").read_text().splitlines()[-1].split(",")
    assert float(last[-1]) == pytest.approx(0.0, abs=1e-3)
    checked = launch("check", str(problem), str(out), "--json")
    assert checked.code == 0, checked.err
    assert json.loads(checked.out)["stated_reward"] == pytest.approx(result["reward"], rel=1e-9)
    lines = (out / "plan.csv").read_text().splitlines()
    for forged in (",".join([*last[:-1], "5.0"]), ",".join([*last[:-1], ""])):
        (out / "plan.csv").write_text("\n".join([*lines[:-1], forged]) + "\n")
        refused = launch("check", str(problem), str(out))
        assert refused.code == 3
        assert "step 4, column 'reward'" in refused.out


def test_exported_models_have_the_discounted_optimum(tmp_path: Path) -> None:
    problem = tmp_path / "line.toml"
    problem.write_text(_line_text(0.5, "-10*abs(x - 2)", 3))
    model = tmp_path / "m.mps"
    assert launch("export", str(problem), "--out", str(model)).code == 0
    library: Any = highspy
    highs = library.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(model))
    highs.run()
    assert abs(highs.getInfo().objective_function_value) == pytest.approx(1.0, abs=1e-5)


def test_parts_are_worth_what_they_are_at_their_own_step() -> None:
    rng = np.random.default_rng(3)
    for seed in range(20):
        problem = tiny_problem(seed, 4)
        actions = rng.uniform(-1.0, 1.0, (4, len(problem.actions)))
        whole = simulate(problem, problem.initial_lower, actions)
        cut = int(rng.integers(1, 4))
        first, second = whole.part(0, cut), whole.part(cut, 4)
        total = first.total_reward + problem.discount**cut * second.total_reward
        assert whole.total_reward == pytest.approx(total, rel=1e-12, abs=1e-12)
        assert whole.total_reward == pytest.approx(discounted(whole, problem), rel=1e-12, abs=1e-12)
        assert math.isfinite(total)
