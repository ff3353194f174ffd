"""Small problems on which an answer was once wrong, each with a plan that proves it.

A folder of tests/regressions has problem.toml, network.onnx if it has a network, donor/ if the potentials of another
problem were given, and expected.json:

    runs     how the planner is called, one entry for each call (keys of `fuzz.planner.Config`)
    plan     a strictly feasible plan; null if none exists
    statuses answers that are allowed, whatever the bound
    change, edit_seed   as the fuzzer wrote them, for potentials of another problem or edited ones
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuzz.flags import judge
from fuzz.oracle import Oracle
from fuzz.planner import Config
from fuzz.problem import PROBLEM_FILE, read_problem
from fuzz.simulate import Machine, Plan
from fuzz.trial import Case, answer
from shared_data import REGRESSIONS


def calls() -> list[tuple[str, int]]:
    found = []
    for path in sorted(REGRESSIONS.glob("*/expected.json")):
        runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
        found += [(path.parent.name, number) for number in range(len(runs))]
    return found


@pytest.mark.parametrize(("name", "number"), calls())
def test_the_answer_is_right(name: str, number: int) -> None:
    folder = REGRESSIONS / name
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    case = _case(folder, expected, Config(**expected["runs"][number]))
    machine = Machine(case.problem)
    oracle = _oracle(machine, expected["plan"])
    for factor in (1.0, 4.0):  # a busy machine takes longer
        outcome = answer(replace(case, config=replace(case.config, time_limit=factor * case.config.time_limit)))
        if outcome.status == "licence":
            pytest.skip(outcome.message)
        flags = [flag for flag in judge(machine, case.config, outcome, oracle) if flag.name != "overrun"]
        assert not flags, outcome
        if outcome.status in expected["statuses"]:
            break
    assert outcome.status in expected["statuses"], outcome


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in REGRESSIONS.glob("*/expected.json")), ids=lambda f: f.name
)
def test_the_known_plan_is_strictly_feasible(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    if expected["plan"] is not None:
        machine = Machine(read_problem(folder / PROBLEM_FILE))
        run = machine.exact(Plan.of_record(expected["plan"], len(machine.problem.auxiliaries)))
        assert run.is_strict
        assert float(run.reward) == pytest.approx(expected["plan"]["reward"], rel=1e-9)


def _case(folder: Path, expected: dict[str, Any], config: Config) -> Case:
    problem = read_problem(folder / PROBLEM_FILE)
    edit_seed = expected.get("edit_seed")
    donor = read_problem(folder / "donor" / PROBLEM_FILE) if (folder / "donor").is_dir() else None
    return Case(problem, config, problem if edit_seed is not None and donor is None else donor, edit_seed)


def _oracle(machine: Machine, plan: dict[str, Any] | None) -> Oracle:
    oracle = Oracle(machine, seed=0)
    oracle.look(use_milp=False, starts=[] if plan is None else [Plan.of_record(plan, len(machine.problem.auxiliaries))])
    return oracle
