"""The fuzzer itself: its simulator, its oracle, its flags, its shrinker and its log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz.expression import parse, write
from fuzz.flags import judge
from fuzz.generate import generate
from fuzz.oracle import Oracle
from fuzz.planner import Config, Outcome, run_planner
from fuzz.problem import Problem, Series, Variable, read_problem, write_problem
from fuzz.run import Fuzzer, Log, Settings, failed, tables
from fuzz.search import Search
from fuzz.shrink import labelled_problems, shrink
from fuzz.simulate import Machine, Plan
from fuzz.trial import Case, draw_cases
from patience import AMPLE
from reluplan import Problem as TheirProblem
from reluplan import check, simulate


def one_step(reward: str = "-abs(s')", transition: str = "s + a", **changes: object) -> Problem:
    problem = Problem(
        horizon=1,
        states=(Variable("s", "continuous", -2.0, 2.0, (1.0, 1.0)),),
        actions=(Variable("a", "continuous", -0.5, 0.5),),
        auxiliaries=(),
        network=None,
        transitions={"s": transition},
        reward=reward,
    )
    return replace(problem, **changes)  # type: ignore[arg-type]


def random_plan(machine: Machine, seed: int) -> Plan:
    search = Search(machine, np.random.default_rng(seed))
    z = search._uniform(1)
    z = np.clip(np.where(search.discrete, np.round(z), z), search.lower, search.upper)
    problem = machine.problem
    n, end = len(problem.states), len(problem.states) + problem.horizon * len(problem.actions)
    actions = z[:, n:end].reshape(1, problem.horizon, -1)
    auxiliaries = z[:, end:].reshape(1, problem.horizon + 1, len(problem.auxiliaries))
    return machine.rollout(z[:, :n], actions, auxiliaries).plan(0)


def seeds_with(kind: str, count: int) -> list[int]:
    """The first seeds whose problems are of a kind."""
    found: list[int] = []
    while len(found) < count:
        start = found[-1] + 1 if found else 0
        found.append(next(seed for seed in range(start, start + 1000) if kind in generate(seed).kinds))
    return found


@pytest.mark.parametrize("seed", [*range(40), *seeds_with("series or lags", 40)[12:]])
def test_both_simulators_agree(seed: int, tmp_path: Path) -> None:
    path = write_problem(generate(seed), tmp_path)
    machine, theirs = Machine(read_problem(path)), TheirProblem.load(path)
    plan = random_plan(machine, seed)
    initial = np.concatenate([plan.initial, theirs.initial_lower[len(plan.initial) :]])
    series = np.zeros((machine.problem.horizon + 1, len(theirs.series)))
    auxiliaries = theirs.with_series(np.hstack([plan.auxiliaries, series]))
    trajectory = simulate(theirs, initial, plan.actions, auxiliaries)
    exact = machine.exact(plan, define=False)
    assert abs(float(exact.reward) - trajectory.total_reward) <= exact.noise
    states = np.array([[float(value) for value in state] for state in exact.states])
    np.testing.assert_allclose(
        trajectory.states[:, : len(plan.initial)], states, rtol=1e-9, atol=1e-9 * np.abs(states).max()
    )
    worst = max(float(abs(a.amount) if a.equality else a.amount) for a in exact.amounts)
    assert check(theirs, trajectory).max_violation == pytest.approx(max(worst, 0.0), rel=1e-6, abs=1e-9)


def test_a_seed_is_one_problem_and_kinds_are_told() -> None:
    one, other = generate(5), generate(5)
    assert (one.reward, one.constraints, one.kinds) == (other.reward, other.constraints, other.kinds)
    kinds = {kind for seed in range(150) for kind in generate(seed).kinds}
    wanted = {
        "wide integers",
        "rounding ties",
        "auxiliaries",
        "delta",
        "initial rows",
        "goal",
        "equality rows",
        "skips",
        "products with series",
        "quotients by series",
        "series as bounds",
        "series or lags into the network",
        "max_change",
        "soft rows",
    }
    assert wanted <= kinds


def test_expressions_survive_writing() -> None:
    text = "((2.0*s + (-1.0)*max(abs(a), min(s', (-3.0)*(0.5*a)))) + (-4.0))"
    assert write(parse(text)) == text
    text = "(abs((p' + (-1.0)))*(p*(2.0*s)) + (s + lag(a, 2))/(p*p))"
    assert write(parse(text)) == text


def test_series_lags_and_soft_rows_mean_what_they_say() -> None:
    problem = one_step(
        reward="(p*a + lag(s, 1)/p') + lag(a, 2)",
        horizon=2,
        series=(Series("p", (2.0, 4.0, 0.5)),),
        soft=(("s' >= 1.0", 10.0),),
        actions=(Variable("a", "continuous", -0.5, 0.5, history=(5.0, 7.0)),),
    )
    exact = Machine(problem).exact(Plan(np.ones(1), np.array([[-0.25], [0.5]]), np.zeros((3, 0))))
    assert float(exact.reward) == (-0.5 + 0.25 + 7.0 - 2.5) + (2.0 + 2.0 + 5.0)
    assert exact.is_strict


def test_bounds_that_are_series_hold_at_every_state(tmp_path: Path) -> None:
    state = Variable("s", "continuous", -2.0, 1.5, (1.0, 1.0), ceiling="p")
    action = Variable("a", "continuous", -0.5, 0.5, history=(0.0,), max_change=(-0.5, 0.25))
    series = (Series("p", (1.0, 1.5, 1.125)),)
    problem = one_step(horizon=2, states=(state,), actions=(action,), series=series)
    machine = Machine(read_problem(write_problem(problem, tmp_path)))
    for actions, holds in (((0.125, 0.0), True), ((0.25, 0.0), False), ((0.5, -0.5), False)):
        exact = machine.exact(Plan(np.ones(1), np.array(actions)[:, None], np.zeros((3, 0))))
        assert exact.is_strict == holds


def test_halves_go_up_and_ties_from_below_do_not_count() -> None:
    state = Variable("s", "integer", -5.0, 5.0, (0.0, 0.0))
    machine = Machine(one_step(reward="s'", transition="0.5 + a", states=(state,)))

    def run(action: float) -> tuple[int, bool]:
        exact = machine.exact(Plan(np.zeros(1), np.array([[action]]), np.zeros((2, 0))))
        return int(exact.reward), exact.is_strict

    assert run(0.0) == (1, True)
    assert run(-1e-9) == (0, False)
    assert run(-0.25) == (0, True)


@pytest.mark.parametrize("use_milp", [False, True])
def test_the_oracle_finds_the_optimum(use_milp: bool) -> None:
    oracle = Oracle(Machine(one_step()), seed=0)
    oracle.look(use_milp)
    witness = oracle.best()
    assert witness is not None
    assert witness.reward == pytest.approx(-0.5, abs=1e-6)


def test_the_oracles_own_milp_agrees_with_its_search() -> None:
    hits = 0
    for seed in range(30):
        machine = Machine(generate(seed))
        searched, helped = Oracle(machine, seed), Oracle(machine, seed)
        searched.look(use_milp=False)
        helped.look(use_milp=True)
        if np.isfinite(searched.estimate):
            hits += helped.estimate >= searched.estimate - 1e-3 * abs(searched.estimate)
    assert hits >= 20


def test_a_right_answer_has_no_flags(tmp_path: Path) -> None:
    problem, config = one_step(), Config(time_limit=60.0)
    oracle = Oracle(Machine(problem), seed=0)
    oracle.look(use_milp=True)
    outcome = run_planner(write_problem(problem, tmp_path), config)
    assert outcome.status == "optimal"
    assert judge(oracle.machine, config, outcome, oracle) == []


@pytest.mark.parametrize(
    ("outcome", "flag"),
    [
        (Outcome("feasible", 0.1, bound=-0.6), "bound_too_low"),
        (Outcome("infeasible", 0.1), "false_infeasible"),
        (Outcome("crash", 0.1, message="KeyError"), "crash"),
        (Outcome("no_plan", 9.0), "overrun"),
    ],
)
def test_planted_wrong_answers_are_flagged(outcome: Outcome, flag: str) -> None:
    oracle = Oracle(Machine(one_step()), seed=0)
    oracle.look(use_milp=False)
    assert [f.name for f in judge(oracle.machine, Config(), outcome, oracle)] == [flag]


@pytest.mark.parametrize(
    ("action", "reward", "bound", "flag"),
    [
        (0.0, -1.0, -0.5, "false_optimal"),
        (-0.5, -0.4, 0.0, "reward_differs"),
        (-0.5, -0.5, -0.7, "reward_above_bound"),
        (-0.9, -0.1, 0.0, "plan_invalid"),
    ],
)
def test_planted_wrong_plans_are_flagged(action: float, reward: float, bound: float, flag: str) -> None:
    oracle = Oracle(Machine(one_step()), seed=0)
    oracle.look(use_milp=False)
    plan = Plan(np.ones(1), np.array([[action]]), np.zeros((2, 0)))
    status = "optimal" if flag == "false_optimal" else "feasible"
    outcome = Outcome(status, 0.1, reward, bound, plan, np.array([[1.0], [1.0 + action]]))
    assert flag in {f.name for f in judge(oracle.machine, Config(), outcome, oracle)}


def test_a_plan_that_uses_tolerance_is_no_counterexample() -> None:
    machine = Machine(one_step(goal=("s >= 0.75",)))
    below = machine.exact(Plan(np.ones(1), np.array([[-0.25 - 1e-9]]), np.zeros((2, 0))))
    there = machine.exact(Plan(np.ones(1), np.array([[-0.25]]), np.zeros((2, 0))))
    assert not below.is_strict
    assert there.is_strict


def test_the_shrinker_shrinks() -> None:
    case = next(case for seed in range(50) for case in draw_cases(seed) if len(case.problem.states) > 2)

    def keeps(candidate: Case) -> bool:
        return "s0" in {v.name for v in candidate.problem.states} and candidate.problem.reward != "0.0"

    small = shrink(case, keeps, seconds=AMPLE)
    assert (len(small.problem.states), len(small.problem.actions), small.problem.horizon) == (1, 1, 1)
    assert small.problem.constraints == ()
    assert small.config.solver == "highs"


@pytest.mark.parametrize("seed", [*range(6), *seeds_with("series as bounds", 4), *seeds_with("max_change", 4)])
def test_simpler_problems_can_be_read(seed: int, tmp_path: Path) -> None:
    for number, (label, problem) in enumerate(labelled_problems(generate(seed))):
        path = write_problem(problem, tmp_path / str(number))
        Machine(read_problem(path))
        if label.startswith(("without", "one step", "a step less", "Series")):
            TheirProblem.load(path)
        if number > 60:
            break


def test_the_log_resumes(tmp_path: Path) -> None:
    first = Fuzzer(Settings(3, 1, problems=2, folder=tmp_path), lambda text: None).run()
    assert len(first) == 2
    log = Log(tmp_path / "3.jsonl")
    before = log.path.read_text()
    log.path.write_text(before + '{"seed": 3000')
    again = Fuzzer(Settings(3, 1, problems=3, folder=tmp_path, resume=True), lambda text: None).run()
    assert [record["seed"] for record in again] == [30_000_000, 30_000_001, 30_000_002]
    assert log.path.read_text().startswith(before)
    assert "| kind | problems |" in tables(again)


def test_a_seed_without_an_answer_is_a_flag() -> None:
    record = failed(7, "hang", "no answer")
    assert "| hang | 1 | 7 |" in tables([record])
    json.dumps(record)
