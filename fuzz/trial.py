"""One seed: its problem, one or two calls of the planner, sometimes a transplant, and the flags of the answers."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from fuzz.flags import Flag, judge, notes
from fuzz.generate import generate
from fuzz.oracle import Oracle
from fuzz.planner import Config, Outcome, compute_potentials, random_config, run_planner
from fuzz.problem import Problem, write_problem
from fuzz.simulate import Machine
from fuzz.transplant import edit_file, random_change

SECOND_CONFIG, MILP_SHARE, TRANSPLANT_SHARE, EDIT_SHARE = 0.08, 0.35, 0.08, 0.12


@dataclass(frozen=True, eq=False)
class Case:
    """A call that can be repeated: the problem, how it was called, and whose potentials were given, if any.

    donor: the problem whose potentials were given; edit_seed: they were edited in this way.
    """

    problem: Problem
    config: Config
    donor: Problem | None = None
    edit_seed: int | None = None
    change: str = ""


@dataclass(frozen=True, eq=False)
class Finding:
    """A case with its answer and its flags."""

    case: Case
    outcome: Outcome
    flags: list[Flag]
    notes: list[str]


def draw_cases(seed: int) -> list[Case]:
    """What a seed stands for."""
    problem = generate(seed)
    rng = np.random.default_rng([seed, 37])
    cases = [Case(problem, random_config(rng))]
    if rng.random() < SECOND_CONFIG:
        cases.append(Case(problem, random_config(rng)))
    if rng.random() < TRANSPLANT_SHARE:
        cases += _transplant(problem, rng)
    return cases


def run_seed(seed: int) -> dict[str, Any]:
    """The record of a seed, as the log keeps it."""
    began = time.monotonic()
    cases = draw_cases(seed)
    use_milp = bool(np.random.default_rng([seed, 41]).random() < MILP_SHARE)
    oracles: dict[int, Oracle] = {}
    findings = run_cases(cases, seed, use_milp, oracles)
    first = oracles[id(cases[0].problem)]
    return {
        "seed": seed,
        "kinds": [*cases[0].problem.kinds, *(f"transplant: {case.change}" for case in cases if case.change)],
        "runs": [
            {**finding.case.config.record(), "change": finding.case.change, **finding.outcome.record()}
            for finding in findings
        ],
        "best": first.estimate if np.isfinite(first.estimate) else None,
        "milp": use_milp,
        "flags": [
            {"flag": _flag_name(finding.case, flag), "run": number, "detail": flag.detail}
            for number, finding in enumerate(findings)
            for flag in finding.flags
        ],
        "notes": [note for finding in findings for note in finding.notes],
        "seconds": round(time.monotonic() - began, 3),
    }


def run_cases(cases: list[Case], seed: int, use_milp: bool, oracles: dict[int, Oracle] | None = None) -> list[Finding]:
    """Answers first, then the oracle, which may begin from their plans, then the flags."""
    oracles = {} if oracles is None else oracles
    outcomes = [answer(case) for case in cases]
    for case, outcome in zip(cases, outcomes, strict=True):
        key = id(case.problem)
        if key not in oracles:
            oracles[key] = Oracle(Machine(case.problem), seed)
            oracles[key].look(use_milp)
        oracles[key].add([] if outcome.plan is None else [outcome.plan])
    findings = []
    for case, outcome in zip(cases, outcomes, strict=True):
        oracle = oracles[id(case.problem)]
        flags = judge(oracle.machine, case.config, outcome, oracle)
        findings.append(Finding(case, outcome, flags, notes(outcome, oracle, case.config)))
    return findings


def answer(case: Case) -> Outcome:
    """Call the planner in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = write_problem(case.problem, Path(folder))
        if case.donor is None:
            return run_planner(path, case.config)
        potentials = Path(folder) / "potentials.json"
        donor = write_problem(case.donor, Path(folder) / "donor")
        if not compute_potentials(donor, case.config, potentials):
            return Outcome("refused", 0.0, message="no potentials of the other problem")
        if case.edit_seed is not None:
            edit_file(potentials, np.random.default_rng(case.edit_seed))
        return run_planner(path, case.config, potentials)


def _transplant(problem: Problem, rng: Generator) -> list[Case]:
    config = Config("potentials", "highs", int(rng.integers(1, 4)), 1e-4, 1.0, int(rng.integers(0, 1000)))
    if rng.random() < EDIT_SHARE:
        return [Case(problem, config, problem, int(rng.integers(0, 10**6)), "edited file")]
    changed = random_change(problem, rng)
    if changed is None:
        return []
    what, donor, taker = changed
    return [Case(taker, config, donor, None, what)]


def _flag_name(case: Case, flag: Flag) -> str:
    return f"transplant:{flag.name}" if case.donor is not None else flag.name
