"""A plan in the true system: no drift where the model is exact, the right drift where it is not, clipped actions."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from reluplan.errors import InputError
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory, simulate
from reluplan.report.simulation import plot_drift, print_validation
from reluplan.simulators import open_simulator
from reluplan.simulators.validate import ValidationReport, validate
from systems import DRAINING, DRAINING_RDDL, DRAINING_SYSTEM

quick = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
START = np.array([6.0, 3.0])


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    (tmp_path / "problem.toml").write_text(DRAINING)
    (tmp_path / "system.py").write_text(DRAINING_SYSTEM)
    (tmp_path / "tanks.rddl").write_text(DRAINING_RDDL)
    return Problem.load(tmp_path / "problem.toml")


def run(problem: Problem, function: str, trajectory: Trajectory) -> ValidationReport:
    return validate(problem, trajectory, open_simulator(f"{Path(problem.source).parent / 'system.py'}:{function}"))


def plan(problem: Problem, *flows: float) -> Trajectory:
    return simulate(problem, START, np.array(flows)[:, None])


@quick
@given(flows=st.lists(st.floats(0.0, 4.0), min_size=1, max_size=6))
def test_an_exact_model_does_not_drift(problem: Problem, flows: list[float]) -> None:
    trajectory = plan(problem, *flows)
    report = run(problem, "exact", trajectory)
    assert report.true.states == pytest.approx(trajectory.states, abs=1e-12)
    assert report.true.total_reward == pytest.approx(trajectory.total_reward, abs=1e-9)
    assert max(drift.maximum for drift in report.drift) <= 1e-12
    assert (report.clipped_steps, report.ended_at, report.simulator_reward) == ((), None, None)
    assert report.reward_loss == pytest.approx(0.0, abs=1e-9)


def test_drift_is_told_per_state_with_its_worst_step(problem: Problem) -> None:
    report = run(problem, "leaking", plan(problem, 3.0, 2.0, 2.0, 2.0))
    high, low = report.drift
    assert (high.state, high.maximum) == ("high", 0.0)
    assert (low.state, low.step) == ("low", 5)
    assert [low.mean, low.maximum] == pytest.approx([1.25, 2.0])
    assert report.true.states[:, 1] == pytest.approx([3, 3.5, 3, 2.5, 2])
    assert report.true.total_reward == pytest.approx(-(1.5 + 2 + 2.5 + 3) - 0.9)
    assert report.model.total_reward == pytest.approx(-(1 + 1 + 1 + 1) - 0.9)
    assert report.check.ok


def test_constraints_broken_in_the_true_system_are_found(problem: Problem) -> None:
    trajectory = plan(problem, 1.0, 1.0, 2.0, 2.0)
    report = run(problem, "leaking", trajectory)
    assert report.true.states[:, 1] == pytest.approx([3, 1.5, 0, -0.5, -1])
    assert {violation.step for violation in report.check.violations} == {5}
    amounts = {violation.constraint: violation.amount for violation in report.check.violations}
    assert amounts == pytest.approx({"low >= 1": 2.0, "0 <= low <= 10": 1.0})
    assert not report.check.ok


def test_the_simulators_own_reward_is_told_beside_the_problems(problem: Problem) -> None:
    report = run(problem, "paid", plan(problem, 3.0, 2.0))
    assert report.simulator_reward == pytest.approx(report.true.total_reward - 2)


def test_refused_actions_are_clipped_and_counted(problem: Problem) -> None:
    """The true upper tank fills more slowly than the model's, so that it runs dry."""
    trajectory = plan(problem, 4.0, 3.0, 1.0, 1.0)
    simulator = open_simulator(str(Path(problem.source).parent / "tanks.rddl"))
    report = validate(problem, trajectory, simulator)
    assert report.true.states[:, 0] == pytest.approx([6, 2.5, 0.5, 0.5, 0.5])
    assert report.true.actions[:, 0] == pytest.approx([4, 2.5, 0.5, 0.5])
    assert report.clipped_steps == (2, 3, 4)
    assert report.largest_clip == pytest.approx(0.5)
    assert report.simulator_reward == pytest.approx(report.true.total_reward)
    assert report.ended_at is None


def test_an_episode_that_the_simulator_ends_is_run_on(problem: Problem) -> None:
    simulator = open_simulator(str(Path(problem.source).parent / "tanks.rddl"))
    report = validate(problem, plan(problem, 0.0, 0.0, 0.0, 3.0), simulator)
    assert report.ended_at == 2
    assert report.true.states[:, 1] == pytest.approx([3, 1, -1, -3, -2])


def test_a_true_state_that_is_no_number_breaks_everything_and_stays_json(problem: Problem) -> None:
    report = run(problem, "exploding", plan(problem, 1.0, 1.0, 1.0))
    assert not report.check.ok
    assert report.drift[1].maximum == math.inf
    record = json.loads(report.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert record["true_reward"] is None
    assert record["drift"][1] == {"state": "low", "mean": None, "max": None, "step": 2}


def test_names_that_the_simulator_lacks_are_bad_input(problem: Problem) -> None:
    other = replace(problem, actions=(replace(problem.actions[0], name="flows"),))
    with pytest.raises(InputError, match=r"no action 'flows' \(did you mean 'flow'\?\)"):
        run(other, "exact", plan(problem, 1.0))


def test_a_simulator_that_cannot_be_put_anywhere_must_start_where_the_plan_does(tmp_path: Path) -> None:
    pendulum = open_simulator("gym:Pendulum-v1")
    first = pendulum.reset(0)
    text = 'horizon = 3\nreward = "obs[0]\'"\n'
    for at in range(3):
        text += f'[state."obs[{at}]"]\ninitial = {float(first[at])!r}\n'
    text += '[action."action[0]"]\nbounds = [-2, 2]\n[transition]\n'
    text += "".join(f'"obs[{at}]" = "obs[{at}]"\n' for at in range(3))
    (tmp_path / "problem.toml").write_text(text)
    problem = Problem.load(tmp_path / "problem.toml")
    trajectory = simulate(problem, first, np.zeros((3, 1)))
    assert validate(problem, trajectory, pendulum, seed=0).true.states[0].tolist() == first.tolist()
    with pytest.raises(InputError, match=r"starts with obs\[0\] = .* but the simulator starts with"):
        validate(problem, trajectory, pendulum, seed=1)


def test_the_report_is_printed_and_plotted(problem: Problem, tmp_path: Path) -> None:
    report = run(problem, "leaking", plan(problem, 1.0, 1.0, 2.0, 2.0))
    console = Console(record=True, width=100, markup=False)
    print_validation(report, console)
    text = console.export_text()
    assert f"promised {report.model.total_reward:.6f}" in text
    assert f"earned   {report.true.total_reward:.6f}" in text
    assert "broken   step 5: low >= 1 by 2" in text
    assert "drift of" in text
    for ending in ("png", "svg", "pdf"):
        plot_drift(problem, report, tmp_path / f"drift.{ending}")
        assert (tmp_path / f"drift.{ending}").stat().st_size > 1000
