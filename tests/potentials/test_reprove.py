"""Potentials from a file are claims: what does not hold is raised or left out, what makes no sense is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from brute_force import optimum
from potential_cases import assert_valid, feasible_patterns, jumping_problem, small_problem
from random_problems import random_problem
from reluplan.bounds.reachability import forward_bounds
from reluplan.errors import InputError
from reluplan.planning.planner import plan
from reluplan.potentials.compute import compute_potentials, reward_potentials
from reluplan.potentials.domain import step_domain
from reluplan.potentials.potential_set import PotentialSet
from reluplan.potentials.reprove import reprove
from reluplan.potentials.settings import PotentialSettings
from reluplan.potentials.subproblem import Subproblem, Violations
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem
from shared_data import bugs_folder

SETTINGS = PotentialSettings(2, samples=300)


def written(problem: Problem, tmp_path: Path, **settings: Any) -> dict[str, Any]:
    """The content of a potentials file of a problem."""
    chosen = dataclasses.replace(SETTINGS, **settings)
    compute_potentials(problem, forward_bounds(problem), chosen, True).save(tmp_path / "p.json")
    content: dict[str, Any] = json.loads((tmp_path / "p.json").read_text())
    return content


def read(content: dict[str, Any], tmp_path: Path) -> PotentialSet:
    (tmp_path / "p.json").write_text(json.dumps(content))
    return PotentialSet.load(tmp_path / "p.json")


def wide_and_narrow() -> tuple[Problem, Problem]:
    """From s in [−1, 1], or only from s <= −0.9, which is a row."""
    wide = dataclasses.replace(jumping_problem(), initial_lower=-np.ones(1), initial_upper=np.ones(1), constraints=())
    row = Constraint(PiecewiseLinear(np.array([1.0, 0.0, 0.0]), 0.9), False, "s <= -0.9")
    return wide, dataclasses.replace(wide, initial_constraints=(row,))


def test_rows_on_the_initial_state_are_part_of_the_proof() -> None:
    wide, narrow = wide_and_narrow()
    with pytest.raises(InputError, match="another problem"):
        plan(wide, method="potentials", potentials=reward_potentials(narrow, 1))
    best = optimum(wide)
    assert plan(wide, method="potentials").reward == pytest.approx(best, abs=1e-3)


def test_the_problems_whose_potentials_were_exchanged(tmp_path: Path) -> None:
    folder = bugs_folder("potentials-initial-rows")
    reward_potentials(Problem.load(folder / "narrow.toml"), 1).save(tmp_path / "p.json")
    wide, potentials = Problem.load(folder / "wide.toml"), PotentialSet.load(tmp_path / "p.json")
    with pytest.raises(InputError, match="another problem"):
        plan(wide, method="potentials", potentials=potentials)
    forged = dataclasses.replace(potentials, fingerprint=wide.fingerprint())
    result = plan(wide, method="potentials", potentials=forged)
    assert result.reward == pytest.approx(14.9152, abs=2e-3)


@pytest.mark.parametrize("seed", [7, 9, 11, 14])
def test_edited_values_cut_off_no_plan(seed: int, tmp_path: Path) -> None:
    """Values lowered, ceilings halved, a constant out of nowhere, members for other steps."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 3, 2)
    best = optimum(problem)
    assert best is not None
    content = written(problem, tmp_path)
    for item in content["potentials"]:
        item["off"] = [value - 3.0 * rng.random() for value in item["off"]]
        item["on"] = [[value - 3.0 * rng.random() for value in row] for row in item["on"]]
        item["breakpoints"] = [[0.4 * value for value in row] for row in item["breakpoints"]]
        item["constant"] -= 5.0
        item["first_step"], item["last_step"] = 1, 2
    result = plan(problem, method="potentials", potentials=read(content, tmp_path), threads=1, gap=1e-5)
    assert result.status == "optimal"
    assert result.reward == pytest.approx(best, abs=2e-5 * max(1.0, abs(best)))
    assert any("do not hold for this problem" in note for note in result.notes)


@pytest.mark.parametrize("interval_count", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, 3, 9])
def test_whatever_the_values_are_the_result_holds(seed: int, interval_count: int) -> None:
    """By enumeration of all patterns of the steps."""
    problem = small_problem(seed, relus=3)
    bounds, rng = forward_bounds(problem), np.random.default_rng(seed)
    found = compute_potentials(problem, bounds, dataclasses.replace(SETTINGS, interval_count=interval_count))
    for _ in range(3):
        items = []
        for item in found.items:
            features = dataclasses.replace(item.features, ceilings=item.features.ceilings * rng.uniform(0.3, 2.0))
            values = item.values + rng.normal(size=item.values.shape) * 10.0 ** rng.integers(-3, 2)
            items.append(dataclasses.replace(item, features=features, values=values, constant=float(rng.normal())))
        proven, _ = reprove(problem, bounds, dataclasses.replace(found, items=tuple(items)))
        assert proven.is_proven
        for item in proven.items:
            domain = step_domain(problem, bounds, item.first, item.last)
            assert_valid(domain, item, list(feasible_patterns(domain, item.features)))


def test_a_faithful_file_is_used_as_it_is(tmp_path: Path) -> None:
    problem = jumping_problem()
    potentials = read(written(problem, tmp_path), tmp_path)
    assert not potentials.is_proven
    proven, notes = reprove(problem, forward_bounds(problem), potentials)
    assert not notes
    for before, after in zip(potentials.items, proven.items, strict=True):
        assert np.abs(after.values - before.values).max(initial=0.0) <= 1e-4
    shorter, notes = reprove(problem.with_horizon(1), forward_bounds(problem.with_horizon(1)), potentials)
    assert not notes
    assert max(item.last for item in shorter.items) == 0


def test_steps_have_the_same_boxes_in_a_shorter_horizon() -> None:
    """Why potentials hold for shorter horizons: forward boxes are a prefix, and the goal only tightens the last one."""
    problem = dataclasses.replace(small_problem(7, horizon=3))
    long, short = forward_bounds(problem), forward_bounds(problem.with_horizon(2))
    for name in ("action", "unit", "output"):
        for side in ("lower", "upper"):
            assert (getattr(long, f"{name}_{side}")[:2] == getattr(short, f"{name}_{side}")).all()
    assert (long.state_lower[:2] == short.state_lower[:2]).all()
    assert (long.state_lower[2] <= short.state_lower[2] + 1e-9).all() or problem.constraints


def test_trusted_potentials_are_believed_and_the_result_says_so(tmp_path: Path) -> None:
    content = written(jumping_problem(), tmp_path)
    for item in content["potentials"]:
        item["constant"] -= 100.0
    potentials = read(content, tmp_path)
    result = plan(jumping_problem(), method="potentials", potentials=potentials, trust_potentials=True)
    assert any("trusted, not proven again" in note for note in result.notes)
    checked = plan(jumping_problem(), method="potentials", potentials=potentials)
    assert checked.reward == pytest.approx(2.0, abs=1e-3)


def test_without_time_nothing_is_believed(tmp_path: Path) -> None:
    problem = small_problem(7)
    content = written(problem, tmp_path)
    for item in content["potentials"]:
        item["constant"] -= 100.0
    proven, _ = reprove(problem, forward_bounds(problem), read(content, tmp_path), deadline=0.0)
    for item in proven.items:
        domain = step_domain(problem, forward_bounds(problem), item.first, item.last)
        assert_valid(domain, item, list(feasible_patterns(domain, item.features)))


def test_what_was_not_proven_in_time_is_not_called_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver is cut short, with a bound 3 above and no step that violates the potentials: they may well hold."""
    violated = Subproblem.violated

    def cut_short(*arguments: Any, **options: Any) -> Violations:
        return dataclasses.replace(violated(*arguments, **options), dual_bound=3.0)

    monkeypatch.setattr(Subproblem, "violated", cut_short)
    problem = jumping_problem()
    _, notes = reprove(problem, forward_bounds(problem), read(written(problem, tmp_path), tmp_path))
    assert notes
    assert all("could not be proven as they are in time: they were raised by" in note for note in notes)


def test_only_an_unchanged_set_of_this_process_needs_no_proof() -> None:
    potentials = reward_potentials(jumping_problem(), 1)
    assert potentials.is_proven
    assert not dataclasses.replace(potentials, horizon=9).is_proven
    potentials.items[0].values[:] -= 1.0
    assert not potentials.is_proven
    assert plan(jumping_problem(), method="potentials", potentials=potentials).reward == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("units", [-1]), ("units", [7]), ("units", [0.5]), ("units", [True]), ("first_step", 0), ("first_step", 3),
        ("last_step", 3), ("last_step", 1.5), ("interval_count", 0), ("interval_count", 10**9), ("constant", 1e300),
        ("constant", float("nan")), ("breakpoints", [[0.0, 1.9, 2.0]]), ("breakpoints", [[-2.0, 0.0, 2.0]]),
        ("breakpoints", [[0.0, -1.0, -2.0]]), ("off", [1e200]), ("units", [2**70]),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(key: str, value: object, tmp_path: Path) -> None:
    content = written(jumping_problem(), tmp_path)
    content["potentials"][-1][key] = value
    for trust in (False, True):
        with pytest.raises(InputError):
            plan(jumping_problem(), method="potentials", potentials=read(content, tmp_path), trust_potentials=trust)


@pytest.mark.parametrize("scope", [{"horizon": 2.5}, {"initial_lower": []}, {"initial_lower": [float("nan")]}])
def test_a_scope_that_makes_no_sense_is_refused(scope: dict[str, Any], tmp_path: Path) -> None:
    content = written(jumping_problem(), tmp_path)
    content["valid_for"].update(scope)
    with pytest.raises(InputError):
        plan(jumping_problem(), method="potentials", potentials=read(content, tmp_path))
